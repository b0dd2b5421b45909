//! A value as tables show it: RabbitMQ's are Erlang terms, and scripts read how those are written.

use serde_json::{Map, Value, json};

/// One cell of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Term {
    /// Text, numbers, booleans, nothing.
    Plain(Value),
    /// Names in brackets: `[a, b]`.
    Names(Vec<String>),
    /// Arguments of a queue, exchange, binding or consumer: `[{"x-max-length",10}]`.
    Arguments(Map<String, Value>),
    /// `#{key => value}`.
    Table(Map<String, Value>),
    /// Written as JSON whatever the format.
    Json(Value),
    /// An address: text in tables, its bytes in JSON.
    Address(String),
}

impl Term {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Plain(Value::String(text.into()))
    }

    /// A field of an object; nothing where it is missing.
    pub(crate) fn plain(value: &Value) -> Self {
        Self::Plain(value.clone())
    }

    pub(crate) fn names(value: &Value) -> Self {
        let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
        Self::Names(names.iter().map(text_of).collect())
    }

    pub(crate) fn arguments(value: &Value) -> Self {
        Self::Arguments(value.as_object().cloned().unwrap_or_default())
    }

    pub(crate) fn table(value: &Value) -> Self {
        Self::Table(value.as_object().cloned().unwrap_or_default())
    }

    /// For tables of cells between tabs.
    pub(crate) fn cell(&self) -> String {
        match self {
            Self::Plain(value) => text_of(value),
            Self::Names(names) => format!("[{}]", names.join(", ")),
            Self::Arguments(arguments) => {
                let pairs = arguments
                    .iter()
                    .map(|(key, value)| format!("{{\"{key}\",{}}}", quoted(value)));
                format!(
                    "[{}]",
                    pairs.collect::<Vec<_>>().join(", ").replace("}, {", "},{")
                )
            }
            Self::Table(table) => {
                let pairs = table.iter().map(|(key, value)| {
                    let value = match value {
                        Value::Array(_) => Self::names(value).cell(),
                        Value::Object(inner) => Self::Table(inner.clone()).cell(),
                        plain => text_of(plain),
                    };
                    format!("{key} => {value}")
                });
                format!("#{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }
            Self::Json(value) => value.to_string(),
            Self::Address(text) => text.clone(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        match self {
            // As RabbitMQ's tables have it, there is no null.
            Self::Plain(Value::Null) => "".into(),
            Self::Plain(value) | Self::Json(value) => value.clone(),
            Self::Names(names) => json!(names),
            Self::Arguments(arguments) => triples(arguments),
            Self::Table(table) => Value::Object(table.clone()),
            Self::Address(text) => match text.parse::<std::net::IpAddr>() {
                Ok(std::net::IpAddr::V4(ip)) => json!(ip.octets()),
                Ok(std::net::IpAddr::V6(ip)) => json!(ip.segments()),
                Err(_) => text.clone().into(),
            },
        }
    }

    /// As Erlang writes it.
    pub(crate) fn erlang(&self) -> String {
        match self {
            Self::Plain(value) => erlang(value),
            Self::Names(names) => format!("[{}]", names.join(",")),
            Self::Arguments(arguments) => {
                let triples = arguments.iter().map(|(key, value)| {
                    format!("{{<<\"{key}\">>,{},{}}}", kind(value), erlang(value))
                });
                format!("[{}]", triples.collect::<Vec<_>>().join(","))
            }
            Self::Table(table) => {
                let pairs = table
                    .iter()
                    .map(|(key, value)| format!("<<\"{key}\">> => {}", erlang(value)));
                format!("#{{{}}}", pairs.collect::<Vec<_>>().join(","))
            }
            Self::Json(value) => erlang(&value.to_string().into()),
            Self::Address(text) => erlang(&text.clone().into()),
        }
    }
}

/// A value without quotes.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn quoted(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(quoted).collect();
            format!("[{}]", list.join(","))
        }
        Value::Object(table) => Term::Arguments(table.clone()).cell(),
        Value::String(text) => format!("\"{text}\""),
        other => other.to_string(),
    }
}

fn erlang(value: &Value) -> String {
    match value {
        Value::Null => "[]".to_owned(),
        Value::String(text) => format!(
            "<<\"{}\">>",
            text.replace('\\', "\\\\").replace('"', "\\\"")
        ),
        Value::Array(list) => {
            let list: Vec<String> = list.iter().map(erlang).collect();
            format!("[{}]", list.join(","))
        }
        Value::Object(table) => Term::Table(table.clone()).erlang(),
        other => other.to_string(),
    }
}

/// AMQP's type of an argument, as the API's JSON lets one tell.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "void",
        Value::Bool(_) => "bool",
        Value::String(_) => "longstr",
        Value::Array(_) => "array",
        Value::Object(_) => "table",
        Value::Number(number) => match number.as_i64() {
            Some(number) if i32::try_from(number).is_ok() => "signedint",
            Some(_) => "long",
            None => "double",
        },
    }
}

fn triples(arguments: &Map<String, Value>) -> Value {
    let triples = arguments.iter().map(|(key, value)| {
        let shown = match value {
            Value::Object(inner) => triples(inner),
            other => other.clone(),
        };
        json!([key, kind(value), shown])
    });
    triples.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_written_as_scripts_expect_them() {
        let arguments = json!({"x-max-length": 10, "x-queue-type": "classic"});
        for (term, cell) in [
            (Term::plain(&Value::Null), ""),
            (Term::plain(&json!(true)), "true"),
            (Term::names(&json!(["a", "b"])), "[a, b]"),
            (
                Term::arguments(&arguments),
                "[{\"x-max-length\",10},{\"x-queue-type\",\"classic\"}]",
            ),
            (Term::arguments(&json!({})), "[]"),
            (Term::table(&json!({})), "#{}"),
            (
                Term::table(&json!({"description": "d x", "tags": ["a"]})),
                "#{description => d x, tags => [a]}",
            ),
            (Term::Json(json!({"a": 1})), "{\"a\":1}"),
        ] {
            assert_eq!(term.cell(), cell);
        }
    }

    #[test]
    fn arguments_are_triples_in_json_and_in_erlang() {
        let term = Term::arguments(&json!({"x-max-length": 10, "big": 1_u64 << 40}));
        assert_eq!(
            term.json(),
            json!([
                ["big", "long", 1_u64 << 40],
                ["x-max-length", "signedint", 10]
            ])
        );
        assert_eq!(
            Term::arguments(&json!({"k": "v"})).erlang(),
            "[{<<\"k\">>,longstr,<<\"v\">>}]"
        );
        assert_eq!(
            Term::Address("127.0.0.1".to_owned()).json(),
            json!([127, 0, 0, 1])
        );
    }
}
