//! The values that arguments, headers and tables are made of.
//!
//! RabbitMQ reads the type letters of field tables differently from the text of AMQP 0-9-1; clients follow RabbitMQ.
//!
//! ```text
//!   table    length (4)  { key: short string   letter (1)   value }*
//!   array    length (4)  {                     letter (1)   value }*
//!
//!   S longstr     length (4), bytes        t bool             1 octet, not zero is true
//!   x binary      length (4), bytes        T timestamp        8 octets, seconds
//!   b byte             1 octet,  signed    D decimal          scale (1), value (4)
//!   B unsignedbyte     1 octet             f float            4 octets
//!   s short            2 octets, signed    d double           8 octets
//!   u unsignedshort    2 octets            V void             nothing
//!   I signedint        4 octets, signed    F table            a table
//!   i unsignedint      4 octets            A array            an array
//!   l long, also L     8 octets, signed
//! ```

use std::fmt;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

mod canonical;
mod encoded_table;
mod equivalence;
mod field_table;
mod long_string;
mod raw;
mod read;
mod short_string;
mod term_text;
mod write;

pub use encoded_table::EncodedTable;
pub use equivalence::equivalent;
pub use field_table::FieldTable;
pub use long_string::LongString;
pub use raw::{RawTable, RawValue, raw_values};
pub use short_string::{ShortString, TooLong};

pub(crate) use read::slice_of;
pub(crate) use write::{put_long_bytes, put_short_bytes};

/// How many tables and arrays may be nested in each other, the outermost included.
///
/// RabbitMQ knows no bound. Every level of nesting is a level of recursion here, and this many fit on any stack.
pub const TABLE_DEPTH_MAX: usize = 128;

/// How many entries and elements a table may have, those of nested tables and arrays included.
///
/// An entry can be as short as two octets on the wire and takes some dozens in memory: without a bound a frame could cost
/// many times its length.
pub const TABLE_ENTRIES_MAX: usize = 65_536;

/// Why bytes are not a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The bytes end before the value does.
    #[error("a value reaches beyond its end")]
    Truncated,
    /// Bytes are left behind the value.
    #[error("bytes are left behind the last value")]
    Trailing,
    /// RabbitMQ knows no field table type with this letter.
    #[error("unknown field table type {}", letter.escape_ascii())]
    UnknownType {
        /// The letter that was sent.
        letter: u8,
    },
    /// More levels than [`TABLE_DEPTH_MAX`].
    #[error("tables are nested in more than {TABLE_DEPTH_MAX} levels")]
    TooDeep,
    /// More entries than [`TABLE_ENTRIES_MAX`].
    #[error("a table has more than {TABLE_ENTRIES_MAX} entries")]
    TooManyEntries,
}

/// Seconds since 1970. RabbitMQ passes any 64 bits through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub u64);

/// A number of `value` divided by ten to the power of `scale`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// How many decimal places `value` has.
    pub scale: u8,
    /// All digits, without the point.
    pub value: u32,
}

/// One typed value of a field table.
///
/// Two values are equal when they have the same type and the same bits; see [`equivalent`] for the looser comparison of a
/// second declare.
#[derive(Debug, Clone)]
pub enum FieldValue {
    /// `S`: text by intention, bytes by law.
    LongString(LongString),
    /// `x`: bytes.
    Bytes(Bytes),
    /// `t`.
    Bool(bool),
    /// `b`.
    Byte(i8),
    /// `B`.
    UnsignedByte(u8),
    /// `s`, which other brokers read as a short string.
    Short(i16),
    /// `u`.
    UnsignedShort(u16),
    /// `I`.
    Int(i32),
    /// `i`.
    UnsignedInt(u32),
    /// `l`, and `L` on reading.
    Long(i64),
    /// `f`.
    Float(f32),
    /// `d`.
    Double(f64),
    /// `D`.
    Decimal(Decimal),
    /// `T`.
    Timestamp(Timestamp),
    /// `V`.
    Void,
    /// `F`.
    Table(FieldTable),
    /// `A`.
    Array(Vec<Self>),
}

impl FieldValue {
    /// A long string of the given text.
    pub fn text(text: impl Into<LongString>) -> Self {
        Self::LongString(text.into())
    }

    /// The letter that stands for the type on the wire.
    pub const fn letter(&self) -> u8 {
        match self {
            Self::LongString(_) => b'S',
            Self::Bytes(_) => b'x',
            Self::Bool(_) => b't',
            Self::Byte(_) => b'b',
            Self::UnsignedByte(_) => b'B',
            Self::Short(_) => b's',
            Self::UnsignedShort(_) => b'u',
            Self::Int(_) => b'I',
            Self::UnsignedInt(_) => b'i',
            Self::Long(_) => b'l',
            Self::Float(_) => b'f',
            Self::Double(_) => b'd',
            Self::Decimal(_) => b'D',
            Self::Timestamp(_) => b'T',
            Self::Void => b'V',
            Self::Table(_) => b'F',
            Self::Array(_) => b'A',
        }
    }

    /// What RabbitMQ calls the type in its reply texts.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::LongString(_) => "longstr",
            Self::Bytes(_) => "binary",
            Self::Bool(_) => "bool",
            Self::Byte(_) => "byte",
            Self::UnsignedByte(_) => "unsignedbyte",
            Self::Short(_) => "short",
            Self::UnsignedShort(_) => "unsignedshort",
            Self::Int(_) => "signedint",
            Self::UnsignedInt(_) => "unsignedint",
            Self::Long(_) => "long",
            Self::Float(_) => "float",
            Self::Double(_) => "double",
            Self::Decimal(_) => "decimal",
            Self::Timestamp(_) => "timestamp",
            Self::Void => "void",
            Self::Table(_) => "table",
            Self::Array(_) => "array",
        }
    }

    /// The number, if the type is one of the integers; widths do not matter to anyone who reads an argument.
    pub fn as_integer(&self) -> Option<i64> {
        match *self {
            Self::Byte(number) => Some(number.into()),
            Self::UnsignedByte(number) => Some(number.into()),
            Self::Short(number) => Some(number.into()),
            Self::UnsignedShort(number) => Some(number.into()),
            Self::Int(number) => Some(number.into()),
            Self::UnsignedInt(number) => Some(number.into()),
            Self::Long(number) => Some(number),
            _ => None,
        }
    }

    /// The number, if the type is float or double.
    pub fn as_float(&self) -> Option<f64> {
        match *self {
            Self::Float(number) => Some(number.into()),
            Self::Double(number) => Some(number),
            _ => None,
        }
    }

    /// The truth value, if the type is bool; a string "true" is none.
    pub fn as_bool(&self) -> Option<bool> {
        match *self {
            Self::Bool(truth) => Some(truth),
            _ => None,
        }
    }

    /// The bytes, if the type is longstr or binary.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::LongString(string) => Some(string.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The table, if the type is table.
    pub fn as_table(&self) -> Option<&FieldTable> {
        match self {
            Self::Table(table) => Some(table),
            _ => None,
        }
    }

    /// The elements, if the type is array.
    pub fn as_array(&self) -> Option<&[Self]> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// A copy that keeps no read buffer alive; for what outlives the method it came with.
    #[must_use]
    pub fn detach(&self) -> Self {
        match self {
            Self::LongString(string) => Self::LongString(string.detach()),
            Self::Bytes(bytes) => Self::Bytes(Bytes::copy_from_slice(bytes)),
            Self::Table(table) => Self::Table(table.detach()),
            Self::Array(elements) => Self::Array(elements.iter().map(Self::detach).collect()),
            scalar => scalar.clone(),
        }
    }
}

impl PartialEq for FieldValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::LongString(a), Self::LongString(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Byte(a), Self::Byte(b)) => a == b,
            (Self::UnsignedByte(a), Self::UnsignedByte(b)) => a == b,
            (Self::Short(a), Self::Short(b)) => a == b,
            (Self::UnsignedShort(a), Self::UnsignedShort(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::UnsignedInt(a), Self::UnsignedInt(b)) => a == b,
            (Self::Long(a), Self::Long(b)) => a == b,
            // By bits, so that equality agrees with `Hash` and a value is always equal to itself.
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Double(a), Self::Double(b)) => a.to_bits() == b.to_bits(),
            (Self::Decimal(a), Self::Decimal(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Void, Self::Void) => true,
            (Self::Table(a), Self::Table(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for FieldValue {}

impl Hash for FieldValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.letter().hash(state);
        match self {
            Self::LongString(string) => string.hash(state),
            Self::Bytes(bytes) => bytes.hash(state),
            Self::Bool(truth) => truth.hash(state),
            Self::Byte(number) => number.hash(state),
            Self::UnsignedByte(number) => number.hash(state),
            Self::Short(number) => number.hash(state),
            Self::UnsignedShort(number) => number.hash(state),
            Self::Int(number) => number.hash(state),
            Self::UnsignedInt(number) => number.hash(state),
            Self::Long(number) => number.hash(state),
            Self::Float(number) => number.to_bits().hash(state),
            Self::Double(number) => number.to_bits().hash(state),
            Self::Decimal(decimal) => decimal.hash(state),
            Self::Timestamp(timestamp) => timestamp.hash(state),
            Self::Void => {}
            Self::Table(table) => table.hash(state),
            Self::Array(elements) => elements.hash(state),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
