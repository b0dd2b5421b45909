"""Field tables: letters, nesting, and headers from publish to delivery."""

import random
import struct

import pytest

from .client import ConnectionClosed
from .wire import Table, Value, as_value

pytestmark = pytest.mark.framing


def _decoded(table) -> Table:
    """What an encoded table looks like after the way through [`wire`]; letters kept, containers as decoded."""
    pairs = table.items() if isinstance(table, dict) else table
    return Table((key, _decoded_value(as_value(value))) for key, value in pairs)


def _decoded_value(value: Value) -> Value:
    if value.letter == "F":
        return Value("F", _decoded(value.value))
    if value.letter == "A":
        return Value("A", [_decoded_value(as_value(item)) for item in value.value])
    return value


def _through_a_queue(channel, headers) -> Table:
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body", {"headers": headers})
    return channel.await_message(queue).headers


VALUES = {
    "S": [Value("S", "text"), Value("S", ""), Value("S", "x" * 70000), Value("S", "\udcff\udcfe\x00")],
    "x": [Value("x", b"bytes"), Value("x", b""), Value("x", bytes(range(256)))],
    "t": [Value("t", True), Value("t", False)],
    "b": [Value("b", -128), Value("b", 127)],
    "B": [Value("B", 0), Value("B", 255)],
    "s": [Value("s", -32768), Value("s", 32767)],
    "u": [Value("u", 0), Value("u", 65535)],
    "I": [Value("I", -(2**31)), Value("I", 2**31 - 1)],
    "i": [Value("i", 0), Value("i", 2**32 - 1)],
    "l": [Value("l", -(2**63)), Value("l", 2**63 - 1)],
    "f": [Value("f", 0.5), Value("f", -1.5)],
    "d": [Value("d", 0.1), Value("d", -1e300)],
    "D": [Value("D", (0, 0)), Value("D", (2, 12345)), Value("D", (255, 2**32 - 1))],
    "T": [Value("T", 0), Value("T", 1700000000), Value("T", 2**64 - 1)],
    "V": [Value("V")],
    "F": [Value("F", {}), Value("F", {"z": 1, "a": Value("x", b"1"), "m": {"deep": [None]}})],
    "A": [Value("A", []), Value("A", [1, "two", 3.5, None, True, [4], {"five": Value("b", 5)}])],
}


@pytest.mark.parametrize("letter", VALUES)
def test_values_come_back_with_their_letter(channel, letter):
    headers = {f"key-{number}": value for number, value in enumerate(VALUES[letter])}
    assert _through_a_queue(channel, headers) == _decoded(headers)


def test_L_is_signed_and_comes_back_as_l_or_L(channel):
    [(_, value)] = _through_a_queue(channel, {"number": Value("L", -2)})
    assert value in (Value("l", -2), Value("L", -2))


def test_any_non_zero_octet_is_true(channel):
    queue = channel.exclusive_queue()
    truth = b"\x04true" + b"t" + b"\x07"
    channel.publish("", queue, "body", {"headers": truth})
    assert channel.await_message(queue).headers == [("true", Value("t", True))]


@pytest.mark.parametrize(
    "bits",
    [0x7FF0000000000000, 0xFFF0000000000000, 0x8000000000000000],
    ids=["infinity", "minus infinity", "minus zero"],
)
def test_odd_doubles_keep_their_bits_or_are_refused(connection, channel, bits):
    queue = channel.exclusive_queue()
    raw = struct.pack(">Q", bits)
    channel.publish("", queue, "body", {"headers": b"\x03odd" + b"d" + raw})
    channel.send("basic.get", queue=queue, no_ack=True)
    try:
        [(_, value)] = channel.next().headers
        assert struct.pack(">d", value.value) == raw
    except ConnectionClosed as refused:
        assert refused.close.code in (541, 501, 502)


@pytest.mark.parametrize(
    "key",
    ["", "x" * 255, "schlüssel", "a b", "\x00", "\udcff\udcfe"],
    ids=["empty", "255 bytes", "not ASCII", "space", "NUL", "not UTF-8"],
)
def test_any_key_comes_back(channel, key):
    assert _through_a_queue(channel, {key: "value"}) == [(key, Value("S", "value"))]


def test_an_empty_table_stays_an_empty_table(channel):
    assert _through_a_queue(channel, {}) == []


def test_absent_headers_stay_absent(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body", {"message_id": "m"})
    assert channel.await_message(queue).properties == {"message_id": "m"}


@pytest.mark.parametrize("depth", [10, 100])
def test_tables_and_arrays_nest_deeply(channel, depth):
    value = Value("S", "bottom")
    for level in range(depth):
        value = Value("F", {"down": value}) if level % 2 else Value("A", [value])
    headers = {"top": value}
    assert _through_a_queue(channel, headers) == _decoded(headers)


def test_many_headers_come_back(channel):
    headers = {f"key-{number:04}": number for number in range(2000)}
    assert _through_a_queue(channel, headers) == _decoded(headers)


UNSORTED = [("z", 1), ("a", {"z": 1, "a": 2}), ("m", [{"z": 1, "a": 2}]), ("B", "x"), ("b", "y")]


def test_headers_come_back_in_their_order_or_sorted_by_key(channel):
    sent, received = _decoded(UNSORTED), _through_a_queue(channel, UNSORTED)
    # RabbitMQ sorts the top level, not what is nested.
    assert received in (sent, sent.sorted())


@pytest.mark.beyond
def test_headers_come_back_in_their_order(channel):
    assert _through_a_queue(channel, UNSORTED) == _decoded(UNSORTED)


def test_of_duplicate_keys_the_first_survives_or_all(channel):
    headers = [("k", "first"), ("a", 1), ("k", "second")]
    received = _through_a_queue(channel, headers)
    assert received in (_decoded(headers), _decoded([("a", 1), ("k", "first")]))


def test_random_tables_come_back(channel):
    seed = random.randrange(2**32)
    dice = random.Random(seed)

    def value(depth: int) -> Value:
        letter = dice.choice("StbBsuIildTVFAxD" if depth else "StbBsuIildTV")
        if letter == "F":
            return Value("F", {f"k{n}": value(depth - 1) for n in range(dice.randrange(4))})
        if letter == "A":
            return Value("A", [value(depth - 1) for _ in range(dice.randrange(4))])
        return dice.choice([known for known in VALUES[letter] if len(str(known)) < 1000])

    for _ in range(50):
        headers = {f"key-{number}": value(4) for number in range(dice.randrange(1, 6))}
        assert _through_a_queue(channel, headers) == _decoded(headers), f"seed {seed}"


@pytest.mark.parametrize("letter", VALUES)
def test_any_letter_is_taken_in_queue_arguments(channel, letter):
    channel.declare_queue(exclusive=True, arguments={"unknown-to-brokers": VALUES[letter][0]})


@pytest.mark.parametrize("letter", VALUES)
def test_any_letter_is_taken_in_binding_arguments(channel, letter):
    queue = channel.exclusive_queue()
    arguments = {"unknown-to-brokers": VALUES[letter][0]}
    channel.bind(queue, "amq.direct", queue, arguments)
    channel.publish("amq.direct", queue, "body")
    assert channel.get(queue).body == b"body"
    channel.unbind(queue, "amq.direct", queue, arguments)
    channel.publish("amq.direct", queue, "body", mandatory=True)
    channel.expect("basic.return")


def test_the_order_of_keys_makes_no_other_binding(channel):
    queue = channel.exclusive_queue()
    channel.bind(queue, "amq.direct", queue, [("a", 1), ("b", 2)])
    channel.unbind(queue, "amq.direct", queue, [("b", 2), ("a", 1)])
    channel.publish("amq.direct", queue, "body", mandatory=True)
    channel.expect("basic.return")


def test_another_letter_makes_another_binding(channel):
    queue = channel.exclusive_queue()
    channel.bind(queue, "amq.direct", queue, {"a": Value("I", 1)})
    channel.unbind(queue, "amq.direct", queue, {"a": Value("l", 1)})
    channel.publish("amq.direct", queue, "body", mandatory=True)
    # Still bound.
    assert channel.get(queue).body == b"body"
