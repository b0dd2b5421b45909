//! Settings under their own names, in TOML.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::conf_file::{Line, Malformed};

/// Reads a file; every key is a line with its number. A file that is no TOML is one malformed line.
pub(crate) fn read(text: &str) -> Vec<Result<Line, Malformed>> {
    let line_of = |offset: usize| {
        text.as_bytes()[..offset.min(text.len())]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
            + 1
    };
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(wrong) => {
            return vec![Err(Malformed {
                number: wrong.span().map_or(1, |span| line_of(span.start)),
                reason: wrong.message().to_owned(),
            })];
        }
    };
    let pairs = table.get_ref().iter();
    pairs
        .map(|(key, value)| {
            let number = line_of(key.span().start);
            let key = key.get_ref().replace('-', "_");
            if key.is_empty() {
                let reason = "a setting has a name".to_owned();
                return Err(Malformed { number, reason });
            }
            match written(value) {
                Ok(value) => Ok(Line { number, key, value }),
                Err(reason) => Err(Malformed {
                    number,
                    reason: format!("{key}: {reason}"),
                }),
            }
        })
        .collect()
}

/// A value as it would be written behind a flag.
fn written(value: &Spanned<DeValue<'_>>) -> Result<String, &'static str> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().replace('_', "")),
        DeValue::Float(number) => Ok(number.as_str().replace('_', "")),
        DeValue::Boolean(value) => Ok(value.to_string()),
        DeValue::Array(members) => {
            let members = members.iter().map(|member| match member.get_ref() {
                DeValue::Array(_) | DeValue::Table(_) => Err("a list has texts and numbers in it"),
                _ => match written(member)? {
                    text if text.contains(',') => Err("no member of a list can have a comma"),
                    text => Ok(text),
                },
            });
            let members: Result<Vec<_>, _> = members.collect();
            members.map(|members| match members.as_slice() {
                [] => "none".to_owned(),
                members => members.join(","),
            })
        }
        DeValue::Datetime(_) => Err("no setting is a date"),
        DeValue::Table(_) => Err("there are no tables: every setting stands at the top"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_setting_without_a_name_is_told_by_its_line() {
        let expected = Malformed {
            number: 2,
            reason: "a setting has a name".to_owned(),
        };
        assert_eq!(read("\n'' = 4"), [Err(expected)]);
    }

    #[test]
    fn values_are_as_behind_a_flag() {
        let text = "# x\nheartbeat = 30\nlisten = [\"127.0.0.1:1\", 5672]\n\nmemory-limit = 0.5\nconfig_strict = true\nloopback_users = []\n";
        let read: Vec<(usize, String, String)> = read(text)
            .into_iter()
            .map(|line| line.expect("a setting"))
            .map(|line| (line.number, line.key, line.value))
            .collect();
        let mut expected = [
            (2, "heartbeat", "30"),
            (3, "listen", "127.0.0.1:1,5672"),
            (5, "memory_limit", "0.5"),
            (6, "config_strict", "true"),
            (7, "loopback_users", "none"),
        ]
        .map(|(number, key, value)| (number, key.to_owned(), value.to_owned()))
        .to_vec();
        expected.sort_by(|one, other| one.1.cmp(&other.1));
        let mut read = read;
        read.sort_by(|one, other| one.1.cmp(&other.1));
        assert_eq!(read, expected);
    }

    #[test]
    fn what_is_no_toml_is_told_by_its_line() {
        let wrong = read("a = 1\nb = = 2\n").pop().expect("something");
        assert_eq!(wrong.expect_err("no TOML").number, 2);
        let table = read("[storage]\nsync = 'always'\n")
            .pop()
            .expect("something");
        assert!(table.expect_err("a table").reason.contains("at the top"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,200}", lines in "([a-z.\\[\\]#'\"= ,0-9\n]){0,200}") {
            read(&text);
            read(&lines);
        }
    }
}
