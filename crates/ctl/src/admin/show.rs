//! Lists of objects as text.

use serde_json::{Map, Value};

use super::options::Options;
use crate::{
    table::{Borders, draw},
    term::text_of,
};

/// Rows of cells under names.
struct Grid {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// Fields of inner objects get names with dots, as deep as was asked for.
fn flat(object: &Map<String, Value>, prefix: &str, depth: usize, into: &mut Vec<(String, String)>) {
    for (key, value) in object {
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Object(inner) if depth > 0 && !is_whole(key) => {
                flat(inner, &name, depth - 1, into)
            }
            Value::Object(_) if !is_whole(key) => {}
            Value::Array(list) => {
                let items: Vec<String> = list.iter().map(text_of).collect();
                into.push((name, items.join(" ")));
            }
            Value::Bool(true) => into.push((name, "True".to_owned())),
            Value::Bool(false) => into.push((name, "False".to_owned())),
            other => into.push((name, text_of(other))),
        }
    }
}

/// Fields whose objects are values.
fn is_whole(key: &str) -> bool {
    ["definition", "value", "arguments", "properties"].contains(&key)
}

fn grid(items: &[Value], wanted: &[&str], depth: usize) -> Grid {
    let rows: Vec<Vec<(String, String)>> = items
        .iter()
        .map(|item| {
            let mut fields = Vec::new();
            if let Value::Object(object) = item {
                flat(object, "", depth, &mut fields);
            }
            fields
        })
        .collect();
    let columns: Vec<String> = if wanted.is_empty() {
        let mut names: Vec<&String> = rows.iter().flatten().map(|(name, _)| name).collect();
        names.sort();
        names.dedup();
        let (mut first, rest): (Vec<&String>, Vec<&String>) =
            names.into_iter().partition(|name| *name == "name");
        first.extend(rest);
        first.into_iter().cloned().collect()
    } else {
        wanted.iter().map(|&name| name.to_owned()).collect()
    };
    let cell = |row: &[(String, String)], name: &str| {
        let found = row.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let rows = rows
        .iter()
        .map(|row| columns.iter().map(|name| cell(row, name)).collect())
        .collect();
    Grid { columns, rows }
}

/// Items in the format that was asked for; only these columns, or all.
pub(super) fn items(options: &Options, items: &[Value], wanted: &[&str]) -> Option<String> {
    let whole = || Value::Array(items.to_vec());
    let grid = || grid(items, wanted, options.depth);
    Some(match options.format.as_str() {
        "raw_json" => format!("{}\n", whole()),
        "pretty_json" => serde_json::to_string_pretty(&whole()).ok()? + "\n",
        "table" if items.is_empty() => "No items\n".to_owned(),
        "table" => {
            let Grid { columns, rows } = grid();
            draw(&columns, &rows, Borders::Plain)
        }
        "tsv" => {
            let Grid { columns, rows } = grid();
            let lines = rows.iter().map(|row| row.join("\t") + "\n");
            columns.join("\t") + "\n" + &lines.collect::<String>()
        }
        "kvp" => {
            let Grid { columns, rows } = grid();
            let line = |row: &Vec<String>| {
                let pairs = columns.iter().zip(row);
                let pairs = pairs.filter(|(_, value)| !value.is_empty());
                let pairs = pairs.map(|(name, value)| format!("{name}=\"{value}\""));
                pairs.collect::<Vec<_>>().join(" ") + "\n"
            };
            rows.iter().map(line).collect()
        }
        "bash" => {
            let names = items.iter().map(|item| text_of(&item["name"]));
            names.collect::<Vec<_>>().join(" ") + "\n"
        }
        "long" => {
            let Grid { columns, rows } = grid();
            let width = columns.iter().map(String::len).max().unwrap_or_default();
            let rule = "-".repeat(80) + "\n";
            let block = |row: &Vec<String>| {
                let lines = columns.iter().zip(row);
                let lines = lines.map(|(name, value)| format!("{name:>width$}: {value}\n"));
                format!("{rule}\n{}\n", lines.collect::<String>())
            };
            rows.iter().map(block).collect::<String>() + &rule
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(format: &str, wanted: &[&str]) -> String {
        let words = ["-f", format, "list", "queues"].map(str::to_owned);
        let options = Options::parse(&words).expect("a command line");
        let list = [json!({"name": "q", "messages": 3, "durable": true, "in": {"a": 1}})];
        items(&options, &list, wanted).expect("a format")
    }

    #[test]
    fn items_are_shown_in_each_format() {
        let wanted = ["name", "messages"];
        assert_eq!(shown("tsv", &wanted), "name\tmessages\nq\t3\n");
        assert_eq!(shown("kvp", &wanted), "name=\"q\" messages=\"3\"\n");
        assert_eq!(shown("bash", &wanted), "q\n");
        assert_eq!(
            shown("table", &wanted),
            "+------+----------+\n| name | messages |\n+------+----------+\n| q    | 3        |\n+------+----------+\n"
        );
        assert!(shown("pretty_json", &[]).contains("\"messages\": 3"));
        assert_eq!(
            shown("tsv", &[]).lines().next(),
            Some("name\tdurable\tin.a\tmessages")
        );
    }

    #[test]
    fn nothing_is_said_in_words_and_an_unknown_format_is_none() {
        let options = |format: &str| {
            let words = ["-f", format, "list", "queues"].map(str::to_owned);
            Options::parse(&words).expect("a command line")
        };
        assert_eq!(
            items(&options("table"), &[], &[]).as_deref(),
            Some("No items\n")
        );
        assert_eq!(items(&options("html"), &[], &[]), None);
    }
}
