"""Bytes of AMQP 0-9-1 and back: frames, methods, field tables, content headers.

Nothing here opens a socket. The methods come from the project's copy of the protocol definition, so this file knows
no method by name. Encoding never refuses: wrong types, odd letters and lying lengths are what tests are made of.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"

_SPEC_FILE = Path(__file__).resolve().parents[3] / "spec" / "amqp-rabbitmq-0.9.1.json"
SPEC = json.loads(_SPEC_FILE.read_text(encoding="utf-8"))


# --- frames ---------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    kind: int
    channel: int
    payload: bytes

    def encode(self, end: int = FRAME_END) -> bytes:
        return struct.pack(">BHI", self.kind, self.channel, len(self.payload)) + self.payload + bytes([end])


def take_frame(buffer: bytearray) -> Frame | None:
    """Takes one whole frame off the front of `buffer`; `None` means that more bytes are needed."""
    if len(buffer) < 7:
        return None
    kind, channel, size = struct.unpack_from(">BHI", buffer)
    if len(buffer) < 7 + size + 1:
        return None
    assert buffer[7 + size] == FRAME_END, f"frame of the broker ends with {buffer[7 + size]:#x}"
    payload = bytes(buffer[7 : 7 + size])
    del buffer[: 7 + size + 1]
    return Frame(kind, channel, payload)


# --- field tables ---------------------------------------------------------------------------------------------------


class Value(NamedTuple):
    """A field value with its type letter; with a letter this file does not know, `value` is the raw bytes."""

    letter: str
    value: Any = None


_NUMBERS = {
    "t": ">?", "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I",
    "l": ">q", "L": ">q", "f": ">f", "d": ">d", "T": ">Q",
}  # fmt: skip


def text(raw: bytes) -> str:
    """Bytes as text that turns back into the same bytes, whatever they are."""
    return raw.decode("utf-8", "surrogateescape")


def raw(text_or_bytes: str | bytes) -> bytes:
    if isinstance(text_or_bytes, bytes):
        return text_or_bytes
    return text_or_bytes.encode("utf-8", "surrogateescape")


def as_value(thing: Any) -> Value:
    """The letter a usual client would choose for a Python value."""
    match thing:
        case Value():
            return thing
        case None:
            return Value("V")
        case bool():
            return Value("t", thing)
        case int():
            return Value("I" if -(2**31) <= thing < 2**31 else "l", thing)
        case float():
            return Value("d", thing)
        case str() | bytes():
            return Value("S", thing)
        case dict():
            return Value("F", thing)
        case list() | tuple():
            return Value("A", thing)
    raise TypeError(f"no field-table letter for {thing!r}")


def encode_value(thing: Any) -> bytes:
    letter, value = as_value(thing)
    tag = letter.encode("latin-1")
    if letter in _NUMBERS:
        return tag + struct.pack(_NUMBERS[letter], value)
    if letter in "Sx":
        return tag + longstr(value)
    if letter == "D":
        scale, digits = value
        return tag + struct.pack(">BI", scale, digits)
    if letter == "V":
        return tag
    if letter == "F":
        return tag + encode_table(value)
    if letter == "A":
        return tag + longstr(b"".join(encode_value(item) for item in value))
    return tag + (value or b"")


def table_items(table: dict | Iterable[tuple]) -> bytes:
    """The inside of a table, without its length."""
    pairs = table.items() if isinstance(table, dict) else table
    return b"".join(shortstr(key) + encode_value(value) for key, value in pairs)


def encode_table(table: dict | Iterable[tuple] | bytes) -> bytes:
    """A table with its length; bytes are taken as the inside of the table, as they are."""
    return longstr(table if isinstance(table, bytes) else table_items(table))


class Table(list):
    """Decoded table: pairs of key and typed [`Value`], in the order they came."""

    def keys(self) -> list[str]:
        return [key for key, _ in self]

    def __contains__(self, key: object) -> bool:
        return any(name == key for name, _ in self)

    def value(self, key: str) -> Value:
        return next(value for name, value in self if name == key)

    def plain(self) -> dict:
        """Without letters, for tests that do not care about them."""
        return {key: plain(value) for key, value in self}

    def sorted(self) -> Table:
        """By key; RabbitMQ sorts the top level of a table."""
        return Table(sorted(self, key=lambda pair: raw(pair[0])))


def plain(value: Value) -> Any:
    if value.letter == "F":
        return value.value.plain()
    if value.letter == "A":
        return [plain(item) for item in value.value]
    return value.value


class Reader:
    """Takes typed values off the front of a payload."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        assert self.at + size <= len(self.data), f"broker sent a payload that is too short: {self.data!r}"
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack(code, self.take(struct.calcsize(code)))[0]

    def short_string(self) -> str:
        return text(self.take(self.number(">B")))

    def long_string(self) -> bytes:
        return self.take(self.number(">I"))

    def is_done(self) -> bool:
        return self.at == len(self.data)

    def table(self) -> Table:
        inside, pairs = Reader(self.long_string()), Table()
        while not inside.is_done():
            key = inside.short_string()
            pairs.append((key, inside.value()))
        return pairs

    def value(self) -> Value:
        letter = self.take(1).decode("latin-1")
        if letter in _NUMBERS:
            return Value(letter, self.number(_NUMBERS[letter]))
        if letter == "S":
            return Value(letter, text(self.long_string()))
        if letter == "x":
            return Value(letter, self.long_string())
        if letter == "D":
            return Value(letter, (self.number(">B"), self.number(">I")))
        if letter == "V":
            return Value(letter)
        if letter == "F":
            return Value(letter, self.table())
        if letter == "A":
            inside, items = Reader(self.long_string()), []
            while not inside.is_done():
                items.append(inside.value())
            return Value(letter, items)
        raise AssertionError(f"broker sent the field-table letter {letter!r}")


# --- methods --------------------------------------------------------------------------------------------------------


def shortstr(value: str | bytes) -> bytes:
    data = raw(value)
    return struct.pack(">B", len(data)) + data


def longstr(value: str | bytes) -> bytes:
    data = raw(value)
    return struct.pack(">I", len(data)) + data


_FIXED = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q", "timestamp": ">Q"}
_EMPTY = {"shortstr": "", "longstr": "", "table": {}, "bit": False}


class Argument(NamedTuple):
    name: str
    kind: str
    default: Any


class MethodSpec(NamedTuple):
    name: str
    class_id: int
    method_id: int
    arguments: tuple[Argument, ...]
    has_content: bool

    @property
    def ids(self) -> tuple[int, int]:
        return self.class_id, self.method_id


def _argument(entry: dict) -> Argument:
    domains = dict(SPEC["domains"])
    kind = domains[entry["domain"]] if "domain" in entry else entry["type"]
    default = entry.get("default-value", _EMPTY.get(kind, 0))
    return Argument(entry["name"].replace("-", "_"), kind, default)


METHODS = {
    f"{cls['name']}.{method['name']}": MethodSpec(
        f"{cls['name']}.{method['name']}",
        cls["id"],
        method["id"],
        tuple(_argument(entry) for entry in method["arguments"]),
        method.get("content", False),
    )
    for cls in SPEC["classes"]
    for method in cls["methods"]
}
METHOD_BY_IDS = {spec.ids: spec for spec in METHODS.values()}


def encode_arguments(arguments: Iterable[tuple[str, Any]]) -> bytes:
    """Pairs of wire type and value, neighbouring bits sharing octets."""
    out, bits = b"", []

    def close_octet() -> bytes:
        octets = [sum(bit << i for i, bit in enumerate(bits[at : at + 8])) for at in range(0, len(bits), 8)]
        bits.clear()
        return bytes(octets)

    for kind, value in arguments:
        if kind == "bit":
            bits.append(bool(value))
            continue
        out += close_octet()
        if kind in _FIXED:
            out += struct.pack(_FIXED[kind], value)
        else:
            out += {"shortstr": shortstr, "longstr": longstr, "table": encode_table}[kind](value)
    return out + close_octet()


def encode_method(name: str, **arguments: Any) -> bytes:
    """Payload of a method frame; arguments that are not given have the protocol's defaults."""
    spec = METHODS[name]
    unknown = arguments.keys() - {argument.name for argument in spec.arguments}
    assert not unknown, f"{name} has no {unknown}"
    values = ((kind, arguments.get(arg, default)) for arg, kind, default in spec.arguments)
    return struct.pack(">HH", *spec.ids) + encode_arguments(values)


@dataclass
class Method:
    """A method of the broker with its arguments as attributes, and the content that came with it."""

    name: str
    arguments: dict[str, Any]
    properties: dict[str, Any] = field(default_factory=dict)
    body: bytes = b""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["arguments"][name]
        except KeyError:
            raise AttributeError(f"{self.__dict__.get('name')} has no {name}") from None

    @property
    def headers(self) -> Table:
        return self.properties["headers"]


def decode_method(payload: bytes) -> Method:
    reader = Reader(payload)
    ids = reader.number(">H"), reader.number(">H")
    assert ids in METHOD_BY_IDS, f"broker sent an unknown method {ids}"
    spec, arguments, bit = METHOD_BY_IDS[ids], {}, 8
    octet = 0
    for name, kind, _ in spec.arguments:
        if kind == "bit":
            if bit == 8:
                octet, bit = reader.number(">B"), 0
            arguments[name] = bool(octet >> bit & 1)
            bit += 1
            continue
        bit = 8
        if kind in _FIXED:
            arguments[name] = reader.number(_FIXED[kind])
        elif kind == "shortstr":
            arguments[name] = reader.short_string()
        elif kind == "longstr":
            arguments[name] = text(reader.long_string())
        else:
            arguments[name] = reader.table()
    assert reader.is_done(), f"{spec.name} of the broker has trailing bytes: {payload!r}"
    return Method(spec.name, arguments)


# --- content --------------------------------------------------------------------------------------------------------

PROPERTIES = tuple(_argument(entry) for cls in SPEC["classes"] if cls["name"] == "basic" for entry in cls["properties"])
"""In flag order: the first one has bit 15."""


def encode_properties(properties: dict[str, Any]) -> bytes:
    """Flag word and the properties that are present."""
    unknown = properties.keys() - {prop.name for prop in PROPERTIES}
    assert not unknown, f"no such properties: {unknown}"
    flags, values = 0, []
    for position, (name, kind, _) in enumerate(PROPERTIES):
        if name in properties:
            flags |= 1 << (15 - position)
            values.append((kind, properties[name]))
    return struct.pack(">H", flags) + encode_arguments(values)


def encode_header(
    body_size: int, properties: dict[str, Any] | bytes = {}, class_id: int = 60, weight: int = 0
) -> bytes:
    """Payload of a content header frame; properties given as bytes start with the flag word."""
    packed = properties if isinstance(properties, bytes) else encode_properties(properties)
    return struct.pack(">HHQ", class_id, weight, body_size) + packed


def decode_header(payload: bytes) -> tuple[int, dict[str, Any]]:
    """Body size and properties of a content header frame of the broker."""
    reader = Reader(payload)
    class_id, weight, body_size = reader.number(">H"), reader.number(">H"), reader.number(">Q")
    assert (class_id, weight) == (60, 0), f"broker sent a content header of class {class_id}, weight {weight}"
    flags, properties = reader.number(">H"), {}
    assert flags & 0b11 == 0, f"broker sent property flags {flags:#06x}"
    for position, (name, kind, _) in enumerate(PROPERTIES):
        if flags >> (15 - position) & 1:
            if kind in _FIXED:
                properties[name] = reader.number(_FIXED[kind])
            else:
                properties[name] = reader.table() if kind == "table" else reader.short_string()
    assert reader.is_done(), f"content header of the broker has trailing bytes: {payload!r}"
    return body_size, properties
