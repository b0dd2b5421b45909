//! Field tables as JSON and back.

use leveret_wire::value::{FieldTable, FieldValue, LongString, ShortString};
use serde_json::{Map, Number, Value};

use crate::error::Refused;

pub(crate) fn table_to_json(table: &FieldTable) -> Value {
    let entries = table
        .iter()
        .map(|(key, value)| (key.to_string(), value_to_json(value)));
    Value::Object(entries.collect())
}

fn value_to_json(value: &FieldValue) -> Value {
    match value {
        FieldValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into(),
        FieldValue::Table(table) => table_to_json(table),
        FieldValue::Array(list) => list.iter().map(value_to_json).collect(),
        FieldValue::Bool(value) => (*value).into(),
        FieldValue::Void => Value::Null,
        FieldValue::Timestamp(timestamp) => timestamp.0.into(),
        FieldValue::Decimal(decimal) => {
            let value = f64::from(decimal.value) / 10f64.powi(decimal.scale.into());
            Number::from_f64(value).map_or(Value::Null, Value::Number)
        }
        other => {
            if let Some(number) = other.as_integer() {
                return number.into();
            }
            if let Some(number) = other.as_float() {
                return Number::from_f64(number).map_or(Value::Null, Value::Number);
            }
            let text = other.as_bytes().unwrap_or_default();
            String::from_utf8_lossy(text).into()
        }
    }
}

pub(crate) fn table_from_json(object: &Map<String, Value>) -> Result<FieldTable, Refused> {
    let mut table = FieldTable::new();
    for (key, value) in object {
        let key = ShortString::try_from(key.as_str())
            .map_err(|_| Refused::bad_request(format!("key too long: {key}")))?;
        table.push(key, value_from_json(value)?);
    }
    Ok(table)
}

fn value_from_json(value: &Value) -> Result<FieldValue, Refused> {
    Ok(match value {
        Value::Null => FieldValue::Void,
        Value::Bool(value) => FieldValue::Bool(*value),
        Value::String(text) => FieldValue::LongString(LongString::from(text.clone())),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => FieldValue::Long(number),
            (None, Some(number)) => FieldValue::Double(number),
            (None, None) => return Err(Refused::bad_request("not_a_number")),
        },
        Value::Array(list) => {
            FieldValue::Array(list.iter().map(value_from_json).collect::<Result<_, _>>()?)
        }
        Value::Object(object) => FieldValue::Table(table_from_json(object)?),
    })
}

/// Milliseconds since 1970 as tools write a time: `2026-11-29T19:39:07.908+00:00`.
pub(crate) fn iso_time(millis: u64) -> String {
    let (days, rest) = (millis / 86_400_000, millis % 86_400_000);
    // The civil calendar, counted from the first of March of the year 0 in eras of 400 years.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hours, rest) = (rest / 3_600_000, rest % 3_600_000);
    let (minutes, rest) = (rest / 60_000, rest % 60_000);
    let (seconds, millis) = (rest / 1000, rest % 1000);
    format!("{year:04}-{month:02}-{date:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}+00:00")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_come_back_as_they_were() {
        let value = json!({
            "text": "t", "number": -7, "big": 1_u64 << 40, "real": 1.5, "yes": true,
            "list": [1, "two", {"three": 3}], "nested": {"x-y": "z"},
        });
        let Value::Object(object) = &value else {
            unreachable!("it is written as one");
        };
        let table = table_from_json(object).expect("a table");
        assert_eq!(table_to_json(&table), value);
    }

    #[test]
    fn times_are_civil() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000+00:00"),
            (951_782_399_999, "2000-02-28T23:59:59.999+00:00"),
            (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
            (1_795_980_496_577, "2026-11-29T19:28:16.577+00:00"),
        ] {
            assert_eq!(iso_time(millis), text);
        }
    }
}
