//! Texts as Erlang prints a string: in quotes, or as a list of numbers where a character is not of Latin-1.

/// What stands in reply texts for a string.
pub(super) fn erlang_string(text: &str) -> String {
    quoted(text).unwrap_or_else(|| {
        let numbers: Vec<String> = text.chars().map(|c| u32::from(c).to_string()).collect();
        format!("[{}]", numbers.join(","))
    })
}

/// `None` if there is something in it that is not printable.
fn quoted(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        let escaped = match c {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            '\u{1b}' => "\\e",
            ' '..='~' | '\u{a0}'..='\u{ff}' => {
                quoted.push(c);
                continue;
            }
            _ => return None,
        };
        quoted.push_str(escaped);
    }
    quoted.push('"');
    Some(quoted)
}
