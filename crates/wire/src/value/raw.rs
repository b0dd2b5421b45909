//! Tables as they stand on the wire, walked without building anything.

use nom::Parser;
use nom::combinator::map;
use nom::number::complete::{
    be_f32, be_f64, be_i8, be_i16, be_i32, be_i64, be_u8, be_u16, be_u32, be_u64,
};
use nom::sequence::pair;

use super::{Decimal, TABLE_DEPTH_MAX, TABLE_ENTRIES_MAX, Timestamp, ValueError};
use crate::primitive::{Parsed, advance, long_bytes, short_bytes};

/// One typed value, its bytes still where they were received. Numbers are read, nested values are not looked into.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RawValue<'a> {
    /// `S`.
    LongString(&'a [u8]),
    /// `x`.
    Bytes(&'a [u8]),
    /// `t`.
    Bool(bool),
    /// `b`.
    Byte(i8),
    /// `B`.
    UnsignedByte(u8),
    /// `s`.
    Short(i16),
    /// `u`.
    UnsignedShort(u16),
    /// `I`.
    Int(i32),
    /// `i`.
    UnsignedInt(u32),
    /// `l` and `L`.
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
    /// `F`: the entries.
    Table(RawTable<'a>),
    /// `A`: the elements, each a letter and a value.
    Array(&'a [u8]),
}

/// A letter, then a value of that type.
pub(super) fn raw_value(input: &[u8]) -> Parsed<'_, RawValue<'_>> {
    let (input, letter) = be_u8(input)?;
    match letter {
        b'S' => map(long_bytes, RawValue::LongString).parse(input),
        b'x' => map(long_bytes, RawValue::Bytes).parse(input),
        b't' => map(be_u8, |octet| RawValue::Bool(octet != 0)).parse(input),
        b'b' => map(be_i8, RawValue::Byte).parse(input),
        b'B' => map(be_u8, RawValue::UnsignedByte).parse(input),
        b's' => map(be_i16, RawValue::Short).parse(input),
        b'u' => map(be_u16, RawValue::UnsignedShort).parse(input),
        b'I' => map(be_i32, RawValue::Int).parse(input),
        b'i' => map(be_u32, RawValue::UnsignedInt).parse(input),
        b'l' | b'L' => map(be_i64, RawValue::Long).parse(input),
        b'f' => map(be_f32, RawValue::Float).parse(input),
        b'd' => map(be_f64, RawValue::Double).parse(input),
        b'D' => map(pair(be_u8, be_u32), |(scale, value)| {
            RawValue::Decimal(Decimal { scale, value })
        })
        .parse(input),
        b'T' => map(be_u64, |secs| RawValue::Timestamp(Timestamp(secs))).parse(input),
        b'V' => Ok((input, RawValue::Void)),
        b'F' => map(long_bytes, |payload| RawValue::Table(RawTable(payload))).parse(input),
        b'A' => map(long_bytes, RawValue::Array).parse(input),
        letter => Err(nom::Err::Failure(ValueError::UnknownType { letter })),
    }
}

/// The payload of a table: what follows its four octets of length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawTable<'a>(&'a [u8]);

impl<'a> RawTable<'a> {
    /// Takes the bytes as they are; nothing is looked at yet.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }

    /// The bytes as they are.
    pub const fn payload(self) -> &'a [u8] {
        self.0
    }

    /// The entries in their order. The iterator ends behind the first error.
    pub const fn entries(self) -> RawEntries<'a> {
        RawEntries { rest: self.0 }
    }

    /// The first value under the key, if the entries up to it are well-formed.
    pub fn get(self, key: &[u8]) -> Option<RawValue<'a>> {
        self.entries()
            .map_while(Result::ok)
            .find(|(known, _)| *known == key)
            .map(|(_, value)| value)
    }

    /// Whether [`super::FieldTable::decode`] would succeed, found out without building the table.
    pub fn check(self) -> Result<(), ValueError> {
        self.check_within(TABLE_ENTRIES_MAX)
    }

    /// The same with another number of entries, instead of [`TABLE_ENTRIES_MAX`].
    pub(crate) fn check_within(self, entries_max: usize) -> Result<(), ValueError> {
        Check::within(entries_max).table(self.0, 0)
    }
}

/// The values of an array's payload in their order. The iterator ends behind the first error.
pub fn raw_values(payload: &[u8]) -> impl Iterator<Item = Result<RawValue<'_>, ValueError>> {
    let mut rest = payload;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let value = advance(&mut rest, raw_value);
        if value.is_err() {
            rest = &[];
        }
        Some(value)
    })
}

/// The entries of a [`RawTable`].
#[derive(Debug, Clone)]
pub struct RawEntries<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for RawEntries<'a> {
    type Item = Result<(&'a [u8], RawValue<'a>), ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = advance(&mut self.rest, pair(short_bytes, raw_value));
        if entry.is_err() {
            self.rest = &[];
        }
        Some(entry)
    }
}

/// Counts what was seen in all levels, so that reading and checking stop at the same bounds.
pub(super) struct Check {
    entries_left: usize,
}

impl Check {
    pub(super) const fn within(entries_max: usize) -> Self {
        Self {
            entries_left: entries_max,
        }
    }

    /// One more level of nesting below `depth` others.
    pub(super) fn level(depth: usize) -> Result<usize, ValueError> {
        if depth >= TABLE_DEPTH_MAX {
            return Err(ValueError::TooDeep);
        }
        Ok(depth + 1)
    }

    /// One more entry or element.
    pub(super) fn entry(&mut self) -> Result<(), ValueError> {
        let left = self.entries_left.checked_sub(1);
        self.entries_left = left.ok_or(ValueError::TooManyEntries)?;
        Ok(())
    }

    fn table(&mut self, mut payload: &[u8], depth: usize) -> Result<(), ValueError> {
        let depth = Self::level(depth)?;
        while !payload.is_empty() {
            self.entry()?;
            advance(&mut payload, short_bytes)?;
            let value = advance(&mut payload, raw_value)?;
            self.nested(value, depth)?;
        }
        Ok(())
    }

    fn array(&mut self, mut payload: &[u8], depth: usize) -> Result<(), ValueError> {
        let depth = Self::level(depth)?;
        while !payload.is_empty() {
            self.entry()?;
            let value = advance(&mut payload, raw_value)?;
            self.nested(value, depth)?;
        }
        Ok(())
    }

    fn nested(&mut self, value: RawValue<'_>, depth: usize) -> Result<(), ValueError> {
        match value {
            RawValue::Table(table) => self.table(table.0, depth),
            RawValue::Array(payload) => self.array(payload, depth),
            _ => Ok(()),
        }
    }
}
