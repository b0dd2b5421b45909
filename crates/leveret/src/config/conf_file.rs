//! The syntax of rabbitmq.conf: `key = value`, one a line.
//!
//! ```text
//!   # a comment
//!   heartbeat = 30              # also behind a value
//!   default_pass = 'with # in'  # quotes keep it
//!   default_user = $(APP_USER)  # from the environment
//!   auth_ldap.queries = '''     # as many lines as it takes
//!   [{administrator, {constant, false}}].
//!   '''
//! ```

use std::borrow::Cow;

/// One setting of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) number: usize,
    pub(crate) key: String,
    pub(crate) value: String,
}

/// A line that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) number: usize,
    pub(crate) reason: String,
}

/// Reads a file; `variable` answers for `$(NAME)`. A line that is wrong does not hide the others.
pub(crate) fn read(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Result<Line, Malformed>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines().enumerate();
    let mut found = Vec::new();
    while let Some((index, line)) = lines.next() {
        let mut behind = lines.by_ref().map(|(_, line)| line);
        let number = index + 1;
        match setting(line, &mut behind, variable).transpose() {
            None => {}
            Some(Ok((key, value))) => found.push(Ok(Line { number, key, value })),
            Some(Err(reason)) => found.push(Err(Malformed { number, reason })),
        }
    }
    found
}

/// Key and value of a line, and of those behind it that its value takes; `None` if there is nothing on it.
fn setting<'a>(
    line: &'a str,
    lines: &mut dyn Iterator<Item = &'a str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<(String, String)>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (key, behind) = line
        .split_once('=')
        .ok_or_else(|| "expected is key = value".to_owned())?;
    let key = key.trim_end();
    let is_key = |c: char| c.is_ascii_alphanumeric() || "._-\\".contains(c);
    if key.is_empty() || !key.chars().all(is_key) {
        return Err(format!(
            "{key:?} is no key: expected are words with points between them"
        ));
    }
    let behind = behind.trim_start();
    let value = match behind.strip_prefix(FENCE) {
        Some(first) => Cow::Owned(fenced(first, lines)?),
        None => Cow::Borrowed(value(behind)?),
    };
    if value.is_empty() {
        return Err(format!("{key} has no value"));
    }
    Ok(Some((key.to_owned(), interpolated(&value, variable)?)))
}

/// Around a value of several lines.
const FENCE: &str = "'''";

/// All up to the next fence, lines as they are, without the blanks around the whole.
fn fenced(first: &str, lines: &mut dyn Iterator<Item = &str>) -> Result<String, String> {
    let mut text = first.to_owned();
    loop {
        if let Some((inside, behind)) = text.split_once(FENCE) {
            nothing_behind(behind)?;
            return Ok(inside.trim().to_owned());
        }
        let line = lines
            .next()
            .ok_or_else(|| "the quotes are not closed".to_owned())?;
        text.push('\n');
        text.push_str(line);
    }
}

/// Up to a comment; all of it between quotes.
fn value(text: &str) -> Result<&str, String> {
    let Some(quoted) = text.strip_prefix('\'') else {
        let end = text.find('#').unwrap_or(text.len());
        return Ok(text[..end].trim_end());
    };
    let (inside, behind) = quoted
        .split_once('\'')
        .ok_or_else(|| "the quote is not closed".to_owned())?;
    nothing_behind(behind)?;
    Ok(inside)
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
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("$(") {
        let Some((name, behind)) = behind.split_once(')') else {
            break;
        };
        result.push_str(before);
        let value =
            variable(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        result.push_str(&value);
        rest = behind;
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
            .map(|line| line.expect("a setting"))
            .map(|line| (line.key, line.value))
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
        assert!(malformed("default_pass = 'a").contains("not closed"));
        assert!(malformed("default_pass = 'a' b").contains("comment"));
    }

    #[test]
    fn three_quotes_keep_many_lines() {
        let text = "a = '''\n[x,\n # 'y'].\n''' # z\nb = '''one'''\nc = 2";
        let expected = [("a", "[x,\n # 'y']."), ("b", "one"), ("c", "2")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(pairs(text), expected);
        assert_eq!(
            read(text, &|_| None)[2].as_ref().expect("a setting").number,
            6
        );
        assert!(malformed("a = '''x\ny").contains("not closed"));
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
            let line = Line { number: 1, key: key.clone(), value: value.trim().to_owned() };
            prop_assert_eq!(read(&format!("{key} = {value}"), &|_| None), vec![Ok(line)]);
        }
    }
}
