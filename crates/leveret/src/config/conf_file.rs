//! The syntax of rabbitmq.conf: `key = value`, one a line.
//!
//! ```text
//!   # a comment
//!   heartbeat = 30              # also behind a value
//!   default_pass = 'with # in'  # quotes keep it, over several lines too
//!   default_user = $(APP_USER)  # from the environment
//!   default_pass = $(<secret)   # what stands in a file
//!   auth_ldap.queries = '''     # as many lines as it takes
//!   [{administrator, {constant, false}}].
//!   '''
//!   include more/*.conf         # beside this file
//! ```
//!
//! As RabbitMQ reads it: blanks behind a value belong to it where no comment follows, and a quote that nobody closes is
//! one of the value.

use std::borrow::Cow;

/// One setting of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Item {
    Setting(Line),
    /// Other files come in here: those whose names are like the last part of this path.
    Include(String),
}

/// A line that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) number: usize,
    pub(crate) reason: String,
}

/// Reads a file; `variable` answers for `$(NAME)`, and for `$(<FILE)` with a `<` before the name. A line that is wrong does
/// not hide the others.
pub(crate) fn read(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Result<Item, Malformed>> {
    let mut reader = Reader {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        number: 0,
    };
    let mut found = Vec::new();
    while let Some(line) = reader.line() {
        let number = reader.number;
        match item(line, &mut reader, variable).transpose() {
            None => {}
            Some(Ok(Said::Include(path))) => found.push(Ok(Item::Include(path))),
            Some(Ok(Said::Setting(key, value))) => {
                found.push(Ok(Item::Setting(Line { number, key, value })));
            }
            Some(Err(reason)) => found.push(Err(Malformed { number, reason })),
        }
    }
    found
}

/// What is left of a file.
struct Reader<'a> {
    rest: &'a str,
    /// Of the line that was read last, from 1.
    number: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Option<&'a str> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find('\n');
        let (line, rest) = end.map_or((self.rest, ""), |end| {
            (&self.rest[..end], &self.rest[end + 1..])
        });
        self.rest = rest;
        self.number += 1;
        Some(line.strip_suffix('\r').unwrap_or(line))
    }

    /// All of `first` and the lines behind it up to `mark`, and what stands behind that on its line; `None`, and nothing is
    /// read, if there is none.
    fn up_to(&mut self, first: &'a str, mark: &str) -> Option<(String, &'a str)> {
        if let Some((inside, behind)) = first.split_once(mark) {
            return Some((inside.to_owned(), behind));
        }
        // One look, so that a file is not searched once for each of its lines.
        self.rest.find(mark)?;
        let mut text = first.to_owned();
        while let Some(line) = self.line() {
            text.push('\n');
            if let Some((inside, behind)) = line.split_once(mark) {
                text.push_str(inside);
                return Some((text, behind));
            }
            text.push_str(line);
        }
        None
    }
}

enum Said {
    Setting(String, String),
    Include(String),
}

/// What a line says, with those behind it that its value takes; `None` if there is nothing on it.
fn item<'a>(
    line: &'a str,
    reader: &mut Reader<'a>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Said>, String> {
    let line = line.trim_start();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if let Some(path) = included(line) {
        return Ok(Some(Said::Include(path.to_owned())));
    }
    let (key, behind) = line
        .split_once('=')
        .ok_or_else(|| "expected is key = value".to_owned())?;
    let key = key.trim_end();
    if !is_key(key) {
        return Err(format!(
            "{key:?} is no key: expected are words with points between them"
        ));
    }
    let value = value(behind.trim_start(), reader)?;
    let value = value.ok_or_else(|| format!("{key} has no value"))?;
    Ok(Some(Said::Setting(
        key.to_owned(),
        interpolated(&value, variable)?,
    )))
}

/// The path of a line `include PATH`.
fn included(line: &str) -> Option<&str> {
    let behind = line.strip_prefix("include")?;
    let path = behind.trim_start();
    if path.len() == behind.len() || path.starts_with('=') {
        return None;
    }
    let path = path.split('#').next().unwrap_or_default().trim_end();
    (!path.is_empty()).then_some(path)
}

/// Words with points between them; `\.` is a point within a word.
fn is_key(key: &str) -> bool {
    let key = key.replace("\\.", "_");
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    key.split('.')
        .all(|word| !word.is_empty() && word.chars().all(is_part))
}

/// Around a value of several lines.
const FENCE: &str = "'''";

/// Between quotes or fences all of it; else up to a comment, or to the end of the line, blanks and all. `None` if there is
/// none, which is not the same as an empty one between quotes.
fn value<'a>(text: &'a str, reader: &mut Reader<'a>) -> Result<Option<Cow<'a, str>>, String> {
    if let Some(first) = text.strip_prefix(FENCE) {
        let found = reader.up_to(first, FENCE);
        let (inside, behind) = found.ok_or_else(|| "the quotes are not closed".to_owned())?;
        nothing_behind(behind)?;
        return Ok(Some(Cow::Owned(inside.trim().to_owned())));
    }
    if let Some(first) = text.strip_prefix('\'')
        && let Some((inside, behind)) = reader.up_to(first, "'")
    {
        nothing_behind(behind)?;
        return Ok(Some(Cow::Owned(inside)));
    }
    let value = text
        .split_once('#')
        .map_or(text, |(value, _)| value.trim_end());
    Ok((!value.is_empty()).then_some(Cow::Borrowed(value)))
}

/// Whether a quoted value ends its line.
fn nothing_behind(behind: &str) -> Result<(), String> {
    let behind = behind.trim_start();
    if behind.is_empty() || behind.starts_with('#') {
        Ok(())
    } else {
        Err(format!(
            "only a comment can stand behind a quoted value, not {behind:?}"
        ))
    }
}

fn interpolated(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let of_file = text
        .strip_prefix("$(")
        .and_then(|name| name.strip_suffix(')'));
    if let Some(name) = of_file.filter(|name| name.starts_with('<')) {
        return variable(name).ok_or_else(|| format!("cannot read the file {}", &name[1..]));
    }
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("$(") {
        let Some((name, behind)) = behind.split_once(')') else {
            break;
        };
        result.push_str(before);
        let name = name.trim();
        let value = Some(name).filter(|name| !name.starts_with('<'));
        let value = value
            .and_then(variable)
            .ok_or_else(|| format!("the environment variable {name} is not set"))?;
        result.push_str(&value);
        rest = &rest[rest.len() - behind.len()..];
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        let variable = |name: &str| (name == "APP").then(|| "shop".to_owned());
        read(text, &variable)
            .into_iter()
            .map(|item| match item {
                Ok(Item::Setting(line)) => (line.key, line.value),
                other => panic!("no setting: {other:?}"),
            })
            .collect()
    }

    fn one(line: &str) -> (String, String) {
        pairs(line).pop().expect("a setting")
    }

    fn malformed(line: &str) -> String {
        read(line, &|_| None)
            .pop()
            .expect("something")
            .expect_err("malformed")
            .reason
    }

    #[test]
    fn comments_and_empty_lines_say_nothing() {
        assert_eq!(pairs("# heartbeat = 1\n\n   \n  # x\n"), []);
        assert_eq!(one("heartbeat=1 # one"), ("heartbeat".into(), "1".into()));
        assert_eq!(one("\u{feff}a = b\r"), ("a".into(), "b".into()));
    }

    #[test]
    fn quotes_keep_what_would_be_a_comment() {
        assert_eq!(one("default_pass = 'a # b' # c").1, "a # b");
        assert_eq!(one("default_pass = a'b").1, "a'b");
        assert!(malformed("default_pass = 'a' b").contains("comment"));
        assert!(malformed("default_pass = 'it''s'").contains("comment"));
        assert_eq!(one("default_pass = ''").1, "");
        assert_eq!(one("default_pass = 'a\nb = c' # d").1, "a\nb = c");
    }

    #[test]
    fn a_quote_that_nobody_closes_is_one_of_the_value() {
        assert_eq!(one("default_pass = 'a").1, "'a");
        let expected = [("a", "'"), ("b", "c")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs("a = '\nb = c"), expected);
        assert_eq!(one("default_pass = \"a\"").1, "\"a\"");
    }

    #[test]
    fn blanks_behind_a_value_are_its_own_unless_a_comment_follows() {
        assert_eq!(one("default_pass = a ").1, "a ");
        assert_eq!(one("default_pass = a # b").1, "a");
        assert_eq!(pairs("a = b\r\nc = d\r\n").len(), 2);
        assert_eq!(pairs("a = b\r\nc = d\r\n")[0].1, "b");
    }

    #[test]
    fn three_quotes_keep_many_lines() {
        let text = "a = '''\n[x,\n # 'y'].\n''' # z\nb = '''one'''\nc = 2";
        let expected = [("a", "[x,\n # 'y']."), ("b", "one"), ("c", "2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs(text), expected);
        let Ok(Item::Setting(last)) = &read(text, &|_| None)[2] else {
            panic!("a setting");
        };
        assert_eq!(last.number, 6);
        let lines = read("a = '''x\nb = y", &|_| None);
        assert!(
            lines[0]
                .as_ref()
                .is_err_and(|wrong| wrong.reason.contains("not closed"))
        );
        assert!(malformed("a = '''x''' y").contains("comment"));
    }

    #[test]
    fn a_value_may_have_equals_signs_and_blanks() {
        assert_eq!(one("a = b = c").1, "b = c");
        assert_eq!(one("motd = two words").1, "two words");
    }

    #[test]
    fn variables_are_put_in() {
        assert_eq!(one("default_user = $(APP)").1, "shop");
        assert_eq!(one("default_user = a-$(APP)-$(APP)").1, "a-shop-shop");
        assert_eq!(one("default_user = $(APP").1, "$(APP");
        assert!(malformed("default_user = $(NOBODY)").contains("NOBODY is not set"));
        assert_eq!(one("default_user = $( APP )").1, "shop");
    }

    #[test]
    fn a_file_may_stand_in_for_a_value_and_for_lines() {
        let variable = |name: &str| (name == "<secret").then(|| "found".to_owned());
        let item = |text: &str| read(text, &variable).pop().expect("something");
        let Ok(Item::Setting(line)) = item("default_pass = $(<secret)") else {
            panic!("a setting");
        };
        assert_eq!(line.value, "found");
        for text in ["default_pass = $(<nowhere)", "default_pass = x$(<secret)"] {
            assert!(item(text).is_err(), "{text}");
        }
        let included = Ok(Item::Include("d/*.conf".to_owned()));
        assert_eq!(item(" include d/*.conf # more"), included);
        assert_eq!(one("include = 3"), ("include".into(), "3".into()));
        assert!(malformed("includex").contains("expected is key = value"));
    }

    #[test]
    fn a_key_is_words_with_points_between_them() {
        assert_eq!(one("a.b\\.c-d_1 = e").0, "a.b\\.c-d_1");
        for key in [
            "a..b", ".a", "a.", "a/b", "a@b", "a:b", "a b", "a.\"b\"", "a\\b", "a.\u{fc}",
        ] {
            let reason = malformed(&format!("{key} = c"));
            assert!(reason.contains("is no key"), "{key}: {reason}");
        }
    }

    #[test]
    fn a_wrong_line_is_told_by_its_number_and_does_not_hide_others() {
        let lines = read("a = 1\nnonsense\nb =\n= c\nd = 2", &|_| None);
        let wrong: Vec<usize> = lines
            .iter()
            .filter_map(|line| line.as_ref().err())
            .map(|malformed| malformed.number)
            .collect();
        assert_eq!(wrong, [2, 3, 4]);
        assert_eq!(lines.iter().flatten().count(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,200}", lines in "([a-z.$()#'= \\\\\n]){0,200}") {
            read(&text, &|_| Some("x".to_owned()));
            read(&lines, &|_| None);
        }

        #[test]
        fn what_is_written_comes_back(key in "[a-z_]{1,9}(\\.[a-z0-9_]{1,9}){0,3}", value in "[a-zA-Z0-9/:.@ -]{1,30}") {
            prop_assume!(!value.trim().is_empty());
            let line = Line { number: 1, key: key.clone(), value: value.trim_start().to_owned() };
            let expected = vec![Ok(Item::Setting(line))];
            prop_assert_eq!(read(&format!("{key} = {value}"), &|_| None), expected);
        }
    }
}
