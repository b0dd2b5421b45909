//! From the patterns of PCRE to those of the engines here, which are matched with bytes as well.
//!
//! RabbitMQ matches names byte by byte, whatever they are encoded in; and `$` is the end of a name or, as in Perl, the place
//! before a line feed that ends it.

use std::{fmt::Write, iter::Peekable, str::Chars};

/// What stands for the end of a name where the engine cannot look ahead. Nothing that follows it can tell the difference.
pub(super) const END: &str = r"(?:\n?\z)";
/// And where it can.
pub(super) const END_AHEAD: &str = r"(?=\n?\z)";

/// The same pattern for an engine here, with `end` for its ends.
pub(super) fn translated(text: &str, end: &'static str) -> String {
    let mut translation = Translation {
        rest: text.chars().peekable(),
        end,
        has_lines: false,
        done: String::with_capacity(text.len()),
    };
    translation.run();
    translation.done
}

struct Translation<'a> {
    rest: Peekable<Chars<'a>>,
    end: &'static str,
    /// `(?m)` was met: `$` is the end of any line, as it is here.
    has_lines: bool,
    done: String,
}

impl Translation<'_> {
    fn run(&mut self) {
        while let Some(next) = self.rest.next() {
            match next {
                '$' if !self.has_lines => self.done.push_str(self.end),
                '\\' if self.rest.next_if_eq(&'Z').is_some() => self.done.push_str(self.end),
                '\\' => self.escape(),
                '[' => self.class(),
                '(' => self.group(),
                other => self.put(other),
            }
        }
    }

    /// A character, byte by byte.
    fn put(&mut self, char: char) {
        if char.is_ascii() {
            self.done.push(char);
            return;
        }
        for byte in char.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a string does not fail.
            let _ = write!(self.done, "\\x{byte:02X}");
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) {
        match self.rest.next() {
            Some(ascii) if ascii.is_ascii() => self.done.extend(['\\', ascii]),
            Some(other) => self.put(other),
            None => self.done.push('\\'),
        }
    }

    /// The rest of a class: a `]` in the first place is one of its characters, and so is any `[` that names nothing.
    fn class(&mut self) {
        self.done.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.done.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.done.push_str("\\]");
        }
        while let Some(next) = self.rest.next() {
            match next {
                ']' => {
                    self.done.push(']');
                    return;
                }
                '\\' => self.escape(),
                '[' if self.rest.peek() == Some(&':') => self.named_class(),
                // Here these would begin a class in the class, or join two.
                '[' | '&' | '~' => self.done.extend(['\\', next]),
                other => self.put(other),
            }
        }
    }

    /// As `[:alpha:]`.
    fn named_class(&mut self) {
        self.done.push('[');
        for next in self.rest.by_ref() {
            self.done.push(next);
            if next == ']' {
                return;
            }
        }
    }

    /// What begins a group, with the options that it may set.
    fn group(&mut self) {
        self.done.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return;
        }
        self.done.push('?');
        let mut is_set = true;
        while let Some(option) = self
            .rest
            .next_if(|next| next.is_ascii_lowercase() || *next == '-')
        {
            is_set &= option != '-';
            if option == 'm' {
                self.has_lines = is_set;
            }
            self.done.push(option);
        }
    }
}
