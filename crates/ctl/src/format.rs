//! What a command found out, written for people or for programs.

use std::io::{self, IsTerminal, Write};

use serde_json::{Map, Value, json};

use crate::{
    call::Call,
    table::{Borders, draw},
    term::Term,
};

/// A way to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Cells between tabs.
    Table,
    Pretty,
    Json,
    Csv,
    Erlang,
}

impl Format {
    pub(crate) const NAMES: &str = "table, pretty_table, json, csv, erlang, string, report";

    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "table" | "string" | "report" | "string_per_line" | "plugins" => Some(Self::Table),
            "pretty_table" => Some(Self::Pretty),
            "json" | "json_stream" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            "erlang" | "inspect" => Some(Self::Erlang),
            _ => None,
        }
    }

    /// Whether a line about what is going on would be in the way of who reads.
    pub(crate) const fn is_for_programs(self) -> bool {
        matches!(self, Self::Json | Self::Csv)
    }
}

/// What a command found out.
#[derive(Debug)]
pub(crate) enum Output {
    Nothing,
    /// A sentence.
    Text(String),
    /// Something that has a text and a shape of its own.
    Report {
        text: String,
        json: Value,
    },
    /// The same in every format.
    Verbatim(String),
    Rows(Rows),
}

/// A list.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<Term>>,
    /// RabbitMQ writes such a list while it comes: nothing at all when nothing comes, and the fields of JSON in the
    /// order of their names.
    pub(crate) is_stream: bool,
    pub(crate) has_header: bool,
}

impl Rows {
    pub(crate) fn whole(columns: &[&'static str], rows: Vec<Vec<Term>>) -> Self {
        Self {
            columns: columns.to_vec(),
            rows,
            is_stream: false,
            has_header: true,
        }
    }
}

/// Writes it to standard output.
pub(crate) fn write(call: &Call, output: &Output) -> io::Result<()> {
    let text = text(call, output);
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

pub(crate) fn text(call: &Call, output: &Output) -> String {
    match (output, call.format) {
        (Output::Nothing, _) => String::new(),
        (Output::Verbatim(text), _) => format!("{text}\n"),
        (Output::Text(text), Format::Json) => format!("{}\n", json!({"message": text})),
        (Output::Report { json, .. }, Format::Json) => format!("{json}\n"),
        (Output::Text(text) | Output::Report { text, .. }, _) => format!("{text}\n"),
        (Output::Rows(rows), format) => match format {
            Format::Table => tabs(rows, call.has_headers()),
            Format::Pretty => pretty(rows),
            Format::Json => json_rows(rows),
            Format::Csv => csv(rows, call.has_headers()),
            Format::Erlang => erlang(rows),
        },
    }
}

fn tabs(rows: &Rows, has_headers: bool) -> String {
    if rows.rows.is_empty() {
        return if rows.is_stream { "" } else { "\n" }.to_owned();
    }
    let mut text = String::new();
    if has_headers && rows.has_header {
        text = rows.columns.join("\t") + "\n";
    }
    for row in &rows.rows {
        let cells: Vec<String> = row.iter().map(Term::cell).collect();
        text.push_str(&cells.join("\t"));
        text.push('\n');
    }
    text
}

fn pretty(rows: &Rows) -> String {
    if rows.rows.is_empty() {
        return String::new();
    }
    let cells = rows
        .rows
        .iter()
        .map(|row| row.iter().map(Term::cell).collect());
    let cells: Vec<Vec<String>> = cells.collect();
    let columns: Vec<String> = rows.columns.iter().map(|&name| name.to_owned()).collect();
    let borders = if io::stdout().is_terminal() {
        Borders::Lines
    } else {
        Borders::Plain
    };
    draw(&columns, &cells, borders)
}

fn json_rows(rows: &Rows) -> String {
    if rows.rows.is_empty() {
        return "[]\n".to_owned();
    }
    let objects: Vec<String> = rows.rows.iter().map(|row| object(rows, row)).collect();
    format!("[\n{}\n]\n", objects.join("\n,"))
}

/// Written by hand where the order of the fields is that of the columns.
fn object(rows: &Rows, row: &[Term]) -> String {
    let fields = rows.columns.iter().zip(row);
    if rows.is_stream {
        let fields = fields.map(|(name, term)| ((*name).to_owned(), term.json()));
        return Value::Object(fields.collect::<Map<_, _>>()).to_string();
    }
    let fields = fields.map(|(name, term)| format!("\"{name}\":{}", term.json()));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

fn csv(rows: &Rows, has_headers: bool) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let cell = |term: &Term| match term {
        Term::Plain(value) if !value.is_string() && !value.is_null() => value.to_string(),
        other => quoted(&other.cell()),
    };
    let mut text = String::new();
    if has_headers && !(rows.rows.is_empty() && rows.is_stream) {
        let names: Vec<String> = rows.columns.iter().map(|name| quoted(name)).collect();
        text = names.join(",") + "\n";
    }
    for row in &rows.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn erlang(rows: &Rows) -> String {
    let lists = rows.rows.iter().map(|row| {
        let fields = rows.columns.iter().zip(row);
        let fields = fields.map(|(name, term)| format!("{{{name},{}}}", term.erlang()));
        format!("[{}]", fields.collect::<Vec<_>>().join(","))
    });
    format!("[{}]\n", lists.collect::<Vec<_>>().join(",\n "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(is_stream: bool) -> Rows {
        Rows {
            columns: vec!["name", "messages"],
            rows: vec![
                vec![Term::text("jobs"), Term::Plain(json!(3))],
                vec![Term::text("e"), Term::Plain(json!(0))],
            ],
            is_stream,
            has_header: true,
        }
    }

    #[test]
    fn tables_have_a_header_unless_it_is_not_wanted_or_there_is_nothing_below() {
        assert_eq!(tabs(&rows(true), true), "name\tmessages\njobs\t3\ne\t0\n");
        assert_eq!(tabs(&rows(true), false), "jobs\t3\ne\t0\n");
        let empty = |is_stream| Rows {
            rows: Vec::new(),
            ..rows(is_stream)
        };
        assert_eq!(tabs(&empty(true), true), "");
        assert_eq!(tabs(&empty(false), true), "\n");
        assert_eq!(json_rows(&empty(false)), "[]\n");
    }

    #[test]
    fn json_stands_on_lines_and_its_fields_have_an_order() {
        assert_eq!(
            json_rows(&rows(true)),
            "[\n{\"messages\":3,\"name\":\"jobs\"}\n,{\"messages\":0,\"name\":\"e\"}\n]\n"
        );
        assert!(json_rows(&rows(false)).starts_with("[\n{\"name\":\"jobs\",\"messages\":3}\n"));
    }

    #[test]
    fn csv_quotes_text_and_pretty_tables_have_borders() {
        assert_eq!(
            csv(&rows(true), true),
            "\"name\",\"messages\"\n\"jobs\",3\n\"e\",0\n"
        );
        assert_eq!(
            pretty(&rows(true)).lines().next(),
            Some("+------+----------+")
        );
        assert_eq!(
            erlang(&rows(true)),
            "[[{name,<<\"jobs\">>},{messages,3}],\n [{name,<<\"e\">>},{messages,0}]]\n"
        );
    }
}
