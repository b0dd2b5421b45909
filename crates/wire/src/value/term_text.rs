//! Values as RabbitMQ prints them in reply texts.

use std::fmt;

use super::{FieldTable, FieldValue};
use crate::octets_text::{lenient_text, octets_text};

impl fmt::Display for FieldValue {
    /// The value as it stands in RabbitMQ's reply texts: strings bare, everything else as an Erlang term.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_bytes() {
            Some(bytes) => lenient_text(bytes).fmt(f),
            None => put_term(f, self),
        }
    }
}

fn put_term(f: &mut fmt::Formatter<'_>, value: &FieldValue) -> fmt::Result {
    match value {
        FieldValue::LongString(string) => f.write_str(&octets_text(string.as_bytes())),
        FieldValue::Bytes(bytes) => f.write_str(&octets_text(bytes)),
        FieldValue::Bool(truth) => write!(f, "{truth}"),
        FieldValue::Byte(number) => write!(f, "{number}"),
        FieldValue::UnsignedByte(number) => write!(f, "{number}"),
        FieldValue::Short(number) => write!(f, "{number}"),
        FieldValue::UnsignedShort(number) => write!(f, "{number}"),
        FieldValue::Int(number) => write!(f, "{number}"),
        FieldValue::UnsignedInt(number) => write!(f, "{number}"),
        FieldValue::Long(number) => write!(f, "{number}"),
        // Erlang knows one kind of float, and prints the widened one.
        FieldValue::Float(number) => f.write_str(&float_text(f64::from(*number))),
        FieldValue::Double(number) => f.write_str(&float_text(*number)),
        FieldValue::Decimal(decimal) => write!(f, "{{{},{}}}", decimal.scale, decimal.value),
        FieldValue::Timestamp(timestamp) => write!(f, "{timestamp}"),
        FieldValue::Void => f.write_str("undefined"),
        FieldValue::Table(table) => put_table(f, table),
        FieldValue::Array(elements) => {
            f.write_str("[")?;
            for (index, element) in elements.iter().enumerate() {
                put_comma(f, index)?;
                write!(f, "{{{},", element.type_name())?;
                put_term(f, element)?;
                f.write_str("}")?;
            }
            f.write_str("]")
        }
    }
}

fn put_table(f: &mut fmt::Formatter<'_>, table: &FieldTable) -> fmt::Result {
    f.write_str("[")?;
    for (index, (key, value)) in table.iter().enumerate() {
        put_comma(f, index)?;
        write!(
            f,
            "{{{},{},",
            octets_text(key.as_bytes()),
            value.type_name()
        )?;
        put_term(f, value)?;
        f.write_str("}")?;
    }
    f.write_str("]")
}

fn put_comma(f: &mut fmt::Formatter<'_>, index: usize) -> fmt::Result {
    if index > 0 { f.write_str(",") } else { Ok(()) }
}

/// The fewest digits that name the number, with an exponent where that is shorter, and always beyond the integers that a
/// float can count.
fn float_text(number: f64) -> String {
    const COUNTABLE: f64 = 9_007_199_254_740_992.0;
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        // Erlang has neither infinities nor NaN.
        return scientific;
    };
    let point = if digits.contains('.') { "" } else { ".0" };
    let scientific = format!("{digits}{point}e{exponent}");
    let positional = format!("{number}");
    let positional = if positional.contains('.') {
        positional
    } else {
        positional + ".0"
    };
    if number.abs() >= COUNTABLE || scientific.len() < positional.len() {
        scientific
    } else {
        positional
    }
}
