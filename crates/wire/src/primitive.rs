//! Parsers of the basic types.
//!
//! All of them are complete parsers: behind a whole frame, missing bytes are an error and never a reason to wait.

use nom::bytes::complete::take;
use nom::combinator::flat_map;
use nom::error::{ErrorKind, ParseError};
use nom::number::complete::{be_u8, be_u32};
use nom::{IResult, Parser};

use crate::value::ValueError;

/// What a parser of this crate answers: the rest of the input and the value.
pub(crate) type Parsed<'a, O> = IResult<&'a [u8], O, ValueError>;

impl ParseError<&[u8]> for ValueError {
    /// The complete parsers fail in one way only: the input is too short.
    fn from_error_kind(_input: &[u8], _kind: ErrorKind) -> Self {
        Self::Truncated
    }

    fn append(_input: &[u8], _kind: ErrorKind, inner: Self) -> Self {
        inner
    }
}

/// A length octet, then that many bytes, not necessarily UTF-8.
///
/// `flat_map` over the complete `take`: `length_data` answers `Incomplete` even behind complete parsers.
pub(crate) fn short_bytes(input: &[u8]) -> Parsed<'_, &[u8]> {
    flat_map(be_u8, take).parse(input)
}

/// Four octets of length, then that many bytes: a long string, or the payload of a table or array.
pub(crate) fn long_bytes(input: &[u8]) -> Parsed<'_, &[u8]> {
    flat_map(be_u32, take).parse(input)
}

/// Runs a parser on the input and moves the input on to what the parser left over.
pub(crate) fn advance<'a, O>(
    input: &mut &'a [u8],
    mut parser: impl Parser<&'a [u8], Output = O, Error = ValueError>,
) -> Result<O, ValueError> {
    match parser.parse(input) {
        Ok((rest, value)) => {
            *input = rest;
            Ok(value)
        }
        Err(nom::Err::Error(error) | nom::Err::Failure(error)) => Err(error),
        Err(nom::Err::Incomplete(_)) => Err(ValueError::Truncated),
    }
}
