//! Arguments of methods, read and written one after the other.

use bytes::{BufMut, Bytes, BytesMut};
use nom::Parser;
use nom::number::complete::{be_u8, be_u16, be_u32, be_u64};

use crate::ids::{ClassId, DeliveryTag, MethodId};
use crate::primitive::{advance, long_bytes, short_bytes};
use crate::value::{
    FieldTable, LongString, ShortString, ValueError, put_long_bytes, put_short_bytes, slice_of,
};

/// What can be wrong with arguments, before anyone knows whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ArgumentError {
    /// No method has the ids.
    UnknownMethod,
    /// Too few bytes, or too many.
    Layout,
    /// A short string is not UTF-8.
    Utf8,
    /// A field table cannot be read.
    Table(ValueError),
}

/// An argument of a method. Neighbouring bits share an octet: reader and writer remember the position inside it and every
/// other type closes it, so the table needs no word about packing.
pub(crate) trait Argument: Sized {
    /// The type's name in the spec.
    const DOMAIN: &'static str;

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError>;
    fn write(&self, writer: &mut ArgumentWriter<'_>);
}

/// The octet that neighbouring bits are read from; none is open at first and behind every other type.
#[derive(Clone, Copy, Default)]
struct OpenOctet {
    octet: u8,
    bits_left: u8,
}

/// Reads the arguments of one method.
pub(crate) struct Arguments<'a> {
    chunk: &'a Bytes,
    rest: &'a [u8],
    bits: OpenOctet,
    /// Found on the way and reported last, since RabbitMQ complains about the layout first.
    failure: Option<ArgumentError>,
    text_is_checked: bool,
}

impl<'a> Arguments<'a> {
    /// `arguments` is a part of `chunk`, and strings become slices of it.
    pub(crate) const fn new(chunk: &'a Bytes, arguments: &'a [u8]) -> Self {
        Self {
            chunk,
            rest: arguments,
            bits: OpenOctet {
                octet: 0,
                bits_left: 0,
            },
            failure: None,
            text_is_checked: true,
        }
    }

    /// Lets short strings be any bytes. RabbitMQ checks them everywhere but in basic.publish, and the other methods with
    /// content hand on what was published.
    pub(crate) const fn with_any_bytes(mut self, any: bool) -> Self {
        self.text_is_checked = !any;
        self
    }

    pub(crate) fn argument<T: Argument>(&mut self) -> Result<T, ArgumentError> {
        T::read(self)
    }

    /// Whether everything was read, and everything was well-formed.
    pub(crate) fn finish(self) -> Result<(), ArgumentError> {
        if !self.rest.is_empty() {
            return Err(ArgumentError::Layout);
        }
        self.failure.map_or(Ok(()), Err)
    }

    fn take<O>(
        &mut self,
        parser: impl Parser<&'a [u8], Output = O, Error = ValueError>,
    ) -> Result<O, ArgumentError> {
        self.bits = OpenOctet::default();
        advance(&mut self.rest, parser).map_err(|_| ArgumentError::Layout)
    }
}

/// Writes the arguments of one method.
pub(crate) struct ArgumentWriter<'a> {
    out: &'a mut BytesMut,
    bits: OpenOctet,
}

impl<'a> ArgumentWriter<'a> {
    pub(crate) const fn new(out: &'a mut BytesMut) -> Self {
        Self {
            out,
            bits: OpenOctet {
                octet: 0,
                bits_left: 0,
            },
        }
    }

    pub(crate) fn argument<T: Argument>(&mut self, argument: &T) {
        argument.write(self);
    }

    /// Writes the octet of bits that is open, if one is.
    pub(crate) fn close(&mut self) -> &mut BytesMut {
        if self.bits.bits_left > 0 {
            self.out.put_u8(self.bits.octet);
        }
        self.bits = OpenOctet::default();
        self.out
    }
}

impl Argument for bool {
    const DOMAIN: &'static str = "bit";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        if arguments.bits.bits_left == 0 {
            let octet = arguments.take(be_u8)?;
            arguments.bits = OpenOctet {
                octet,
                bits_left: 8,
            };
        }
        let bit = arguments.bits.octet & 1 != 0;
        arguments.bits.octet >>= 1;
        arguments.bits.bits_left -= 1;
        Ok(bit)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        if writer.bits.bits_left == 0 {
            writer.bits = OpenOctet {
                octet: 0,
                bits_left: 8,
            };
        }
        let position = 8 - writer.bits.bits_left;
        writer.bits.octet |= u8::from(*self) << position;
        if writer.bits.bits_left == 1 {
            writer.close();
        } else {
            writer.bits.bits_left -= 1;
        }
    }
}

impl Argument for u8 {
    const DOMAIN: &'static str = "octet";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        arguments.take(be_u8)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u8(*self);
    }
}

impl Argument for u16 {
    const DOMAIN: &'static str = "short";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        arguments.take(be_u16)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u16(*self);
    }
}

impl Argument for u32 {
    const DOMAIN: &'static str = "long";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        arguments.take(be_u32)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u32(*self);
    }
}

impl Argument for DeliveryTag {
    const DOMAIN: &'static str = "longlong";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        arguments.take(be_u64).map(Self::new)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u64(self.get());
    }
}

impl Argument for ClassId {
    const DOMAIN: &'static str = "short";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        arguments.argument().map(Self::new)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.argument(&self.get());
    }
}

impl Argument for MethodId {
    const DOMAIN: &'static str = "short";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        arguments.argument().map(Self::new)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.argument(&self.get());
    }
}

impl Argument for ShortString {
    const DOMAIN: &'static str = "shortstr";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        let bytes = arguments.take(short_bytes)?;
        if arguments.text_is_checked && std::str::from_utf8(bytes).is_err() {
            arguments.failure.get_or_insert(ArgumentError::Utf8);
        }
        Ok(Self::from_wire(slice_of(arguments.chunk, bytes)))
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        put_short_bytes(writer.close(), self.as_bytes());
    }
}

impl Argument for LongString {
    const DOMAIN: &'static str = "longstr";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        let bytes = arguments.take(long_bytes)?;
        Ok(Self::from(slice_of(arguments.chunk, bytes)))
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        put_long_bytes(writer.close(), self.as_bytes());
    }
}

impl Argument for FieldTable {
    const DOMAIN: &'static str = "table";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, ArgumentError> {
        let payload = arguments.take(long_bytes)?;
        match Self::decode(arguments.chunk, payload) {
            Ok(table) => Ok(table),
            Err(error) => {
                arguments.failure.get_or_insert(ArgumentError::Table(error));
                Ok(Self::new())
            }
        }
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        self.encode(writer.close());
    }
}
