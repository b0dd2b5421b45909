//! Arguments of methods, read and written one after the other.

use bytes::{BufMut, Bytes, BytesMut};
use nom::Parser;
use nom::number::complete::{be_u8, be_u16, be_u32, be_u64};

use super::MethodError;
use crate::ids::{ClassId, DeliveryTag, MethodId};
use crate::primitive::{advance, long_bytes, short_bytes};
use crate::value::{
    FieldTable, LongString, ShortString, ValueError, put_long_bytes, put_short_bytes, slice_of,
};

/// What is found wrong on the way and reported last, since RabbitMQ complains about the layout first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// A short string is not UTF-8.
    Utf8,
    /// A field table cannot be read.
    Table(ValueError),
}

/// An argument of a method. Neighbouring bits share an octet: reader and writer remember the position inside it and every
/// other type closes it, so the table needs no word about packing.
pub(super) trait Argument: Sized {
    /// The type's name in the spec.
    const DOMAIN: &'static str;

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError>;
    fn write(&self, writer: &mut ArgumentWriter<'_>);
}

/// The octet that neighbouring bits are read from; none is open at first and behind every other type.
#[derive(Clone, Copy, Default)]
struct OpenOctet {
    octet: u8,
    bits_left: u8,
}

/// Reads the arguments of one method.
pub(super) struct Arguments<'a> {
    chunk: &'a Bytes,
    class: ClassId,
    method: MethodId,
    all: &'a [u8],
    rest: &'a [u8],
    bits: OpenOctet,
    flaw: Option<Flaw>,
    text_is_checked: bool,
}

impl<'a> Arguments<'a> {
    /// `arguments` is a part of `chunk`, and strings become slices of it.
    pub(super) const fn new(
        chunk: &'a Bytes,
        class: ClassId,
        method: MethodId,
        arguments: &'a [u8],
    ) -> Self {
        Self {
            chunk,
            class,
            method,
            all: arguments,
            rest: arguments,
            bits: OpenOctet {
                octet: 0,
                bits_left: 0,
            },
            flaw: None,
            text_is_checked: true,
        }
    }

    /// The number of the method within its class.
    pub(super) const fn method_id(&self) -> u16 {
        self.method.get()
    }

    /// Lets short strings be any bytes. RabbitMQ checks them everywhere but in basic.publish, and the other methods with
    /// content hand on what was published.
    pub(super) const fn with_any_bytes(mut self, any: bool) -> Self {
        self.text_is_checked = !any;
        self
    }

    pub(super) fn argument<T: Argument>(&mut self) -> Result<T, MethodError> {
        T::read(self)
    }

    /// Whether everything was read, and everything was well-formed.
    pub(super) fn finish(self) -> Result<(), MethodError> {
        if !self.rest.is_empty() {
            return Err(self.malformed());
        }
        match self.flaw {
            None => Ok(()),
            Some(flaw) => Err(self.flawed(flaw)),
        }
    }

    fn take<O>(
        &mut self,
        parser: impl Parser<&'a [u8], Output = O, Error = ValueError>,
    ) -> Result<O, MethodError> {
        self.bits = OpenOctet::default();
        advance(&mut self.rest, parser).map_err(|_| self.malformed())
    }

    #[cold]
    pub(super) const fn unknown(&self) -> MethodError {
        MethodError::Unknown {
            class: self.class,
            method: self.method,
        }
    }

    #[cold]
    fn malformed(&self) -> MethodError {
        let arguments = self.chunk.slice_ref(self.all);
        MethodError::Malformed {
            class: self.class,
            method: self.method,
            arguments,
        }
    }

    #[cold]
    const fn flawed(&self, flaw: Flaw) -> MethodError {
        let Self { class, method, .. } = *self;
        match flaw {
            Flaw::Utf8 => MethodError::MalformedUtf8 { class, method },
            Flaw::Table(error) => MethodError::Table {
                class,
                method,
                error,
            },
        }
    }
}

/// Writes the arguments of one method.
pub(super) struct ArgumentWriter<'a> {
    out: &'a mut BytesMut,
    bits: OpenOctet,
}

impl<'a> ArgumentWriter<'a> {
    pub(super) const fn new(out: &'a mut BytesMut) -> Self {
        Self {
            out,
            bits: OpenOctet {
                octet: 0,
                bits_left: 0,
            },
        }
    }

    pub(super) fn argument<T: Argument>(&mut self, argument: &T) {
        argument.write(self);
    }

    /// Writes the octet of bits that is open, if one is.
    pub(super) fn close(&mut self) -> &mut BytesMut {
        if self.bits.bits_left > 0 {
            self.out.put_u8(self.bits.octet);
        }
        self.bits = OpenOctet::default();
        self.out
    }
}

impl Argument for bool {
    const DOMAIN: &'static str = "bit";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
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

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        arguments.take(be_u8)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u8(*self);
    }
}

impl Argument for u16 {
    const DOMAIN: &'static str = "short";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        arguments.take(be_u16)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u16(*self);
    }
}

impl Argument for u32 {
    const DOMAIN: &'static str = "long";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        arguments.take(be_u32)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u32(*self);
    }
}

impl Argument for DeliveryTag {
    const DOMAIN: &'static str = "longlong";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        arguments.take(be_u64).map(Self::new)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.close().put_u64(self.get());
    }
}

impl Argument for ClassId {
    const DOMAIN: &'static str = "short";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        arguments.argument().map(Self::new)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.argument(&self.get());
    }
}

impl Argument for MethodId {
    const DOMAIN: &'static str = "short";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        arguments.argument().map(Self::new)
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        writer.argument(&self.get());
    }
}

impl Argument for ShortString {
    const DOMAIN: &'static str = "shortstr";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        let bytes = arguments.take(short_bytes)?;
        if arguments.text_is_checked && std::str::from_utf8(bytes).is_err() {
            arguments.flaw.get_or_insert(Flaw::Utf8);
        }
        Ok(Self::from_wire(slice_of(arguments.chunk, bytes)))
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        put_short_bytes(writer.close(), self.as_bytes());
    }
}

impl Argument for LongString {
    const DOMAIN: &'static str = "longstr";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        let bytes = arguments.take(long_bytes)?;
        Ok(Self::from(slice_of(arguments.chunk, bytes)))
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        put_long_bytes(writer.close(), self.as_bytes());
    }
}

impl Argument for FieldTable {
    const DOMAIN: &'static str = "table";

    fn read(arguments: &mut Arguments<'_>) -> Result<Self, MethodError> {
        let payload = arguments.take(long_bytes)?;
        match Self::decode(arguments.chunk, payload) {
            Ok(table) => Ok(table),
            Err(error) => {
                arguments.flaw.get_or_insert(Flaw::Table(error));
                Ok(Self::new())
            }
        }
    }

    fn write(&self, writer: &mut ArgumentWriter<'_>) {
        self.encode(writer.close());
    }
}
