//! Octets as RabbitMQ prints them in reply texts: an Erlang binary such as `<<0,60,0,10>>` or `<<"abc">>`.
//!
//! Long binaries are broken into lines at the eightieth column, as Erlang's formatter does. A text that is cut to 255
//! characters later shows those breaks, so they are part of what clients see.

use std::borrow::Cow;
use std::fmt::Write;

/// Erlang's formatter breaks a term that reaches this column.
const LINE_LEN: usize = 80;

/// The octets as an Erlang binary, in one line: `<<"abc">>` when all are printable, or else `<<0,60,0,10>>`.
pub fn octets_text(octets: &[u8]) -> String {
    let mut text = String::new();
    put_printable(&mut text, octets)
        .unwrap_or_else(|| put_numbers(&mut text, octets, usize::MAX, 0));
    text
}

/// The octets as numbers, in one line and also when they are printable; RabbitMQ quotes arguments like this.
pub(crate) fn numbers_text(octets: &[u8]) -> String {
    let mut text = String::new();
    put_numbers(&mut text, octets, usize::MAX, 0);
    text
}

/// Octets as text: UTF-8 if they are that, or else one character each, as Erlang reads them.
pub(crate) fn lenient_text(octets: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(octets) {
        Ok(utf8) => Cow::Borrowed(utf8),
        Err(_) => octets.iter().copied().map(char::from).collect(),
    }
}

/// Appends the octets to a reply text, broken into lines where Erlang's formatter breaks them.
pub(crate) fn put_octets(text: &mut String, octets: &[u8]) {
    let column = column(text) + 1;
    if put_printable(text, octets).is_some() {
        return;
    }
    let len = octets_text(octets).len();
    let width = if len < LINE_LEN.saturating_sub(column) {
        usize::MAX
    } else {
        LINE_LEN.saturating_sub(column + 2).min(len - 4).max(8)
    };
    put_numbers(text, octets, width, column + 1);
}

/// Appends `{tag,number}`, broken behind the comma where Erlang's formatter breaks it.
pub(crate) fn put_pair(text: &mut String, tag: &str, number: u8) {
    let column = column(text) + 1;
    let pair = format!("{{{tag},{number}}}");
    if pair.len() < LINE_LEN.saturating_sub(column) {
        text.push_str(&pair);
    } else {
        let _ = write!(text, "{{{tag},\n{:column$}{number}}}", "");
    }
}

/// How many characters the last line of the text has.
fn column(text: &str) -> usize {
    text.rsplit('\n')
        .next()
        .map_or(0, |line| line.chars().count())
}

fn put_printable(text: &mut String, octets: &[u8]) -> Option<()> {
    if octets.is_empty() {
        text.push_str("<<>>");
        return Some(());
    }
    let content = lenient_text(octets);
    if !content.chars().all(is_printable) {
        return None;
    }
    let is_utf8 = matches!(content, Cow::Borrowed(_)) && !content.is_ascii();
    let suffix = if is_utf8 { "/utf8" } else { "" };
    text.push_str("<<\"");
    for char in content.chars() {
        put_escaped(text, char);
    }
    text.push('"');
    text.push_str(suffix);
    text.push_str(">>");
    Some(())
}

/// What Erlang started for Unicode output takes for printable.
fn is_printable(char: char) -> bool {
    matches!(char, ' '..='~' | '\u{8}'..='\r' | '\u{1b}' | '\u{a0}'..)
        && !matches!(char, '\u{fffe}' | '\u{ffff}')
}

fn put_escaped(text: &mut String, char: char) {
    let escaped = match char {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        plain => return text.push(plain),
    };
    text.push_str(escaped);
}

/// Lines of at most `width` characters, all but the first indented.
fn put_numbers(text: &mut String, octets: &[u8], width: usize, indent: usize) {
    let mut left = width;
    text.push_str("<<");
    for (index, octet) in octets.iter().enumerate() {
        let mut number = octet.to_string();
        if index + 1 < octets.len() {
            number.push(',');
        }
        if number.len() > left {
            let _ = write!(text, "\n{:indent$}", "");
            left = width;
        }
        left = left.saturating_sub(number.len());
        text.push_str(&number);
    }
    text.push_str(">>");
}
