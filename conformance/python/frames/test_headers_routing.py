"""Headers exchanges: which headers match which binding arguments."""

import pytest

from .wire import Value

pytestmark = pytest.mark.routing


def _is_routed(channel, name, arguments, headers, key="", binding_key="") -> bool:
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="headers")
    channel.bind(queue, exchange, binding_key, arguments)
    channel.publish(exchange, key, "body", {} if headers is None else {"headers": headers})
    return channel.drain(queue) == ["body"]


# Binding arguments, message headers, whether they match. Headers `None`: the message has no table.
BY_X_MATCH = [
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}, False),
    ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 3}, False),
    ({"x-match": "all", "a": 1}, None, False),
    ({"a": 1, "b": 2}, {"a": 1, "b": 2}, True),
    ({"a": 1, "b": 2}, {"a": 1}, False),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 1, "b": 3}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"b": 2}, True),
    ({"x-match": "any", "a": 1, "b": 2}, {"a": 2, "b": 1}, False),
    ({"x-match": "any", "a": 1, "b": 2}, {}, False),
    ({"x-match": "any", "a": 1}, None, False),
    # No keys to compare.
    ({}, {"a": 1}, True),
    ({}, {}, True),
    ({}, None, True),
    ({"x-match": "all"}, {"a": 1}, True),
    ({"x-match": "all"}, None, True),
    ({"x-match": "any"}, {"a": 1}, False),
    ({"x-match": "any"}, None, False),
    # Keys that start with x-.
    ({"x-match": "all", "x-a": 1}, {"x-a": 2}, True),
    ({"x-match": "all", "x-a": 1, "b": 1}, {"b": 1}, True),
    ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False),
    ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "all-with-x"}, {}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
    ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 2}, False),
    ({"x-match": "any-with-x"}, {"x-match": "any-with-x"}, False),
    # A value that only asks for presence.
    ({"a": None}, {"a": 1}, True),
    ({"a": None}, {"a": "text"}, True),
    ({"a": None}, {"a": None}, True),
    ({"a": None}, {"b": 1}, False),
    ({"x-match": "any", "a": None, "b": 1}, {"a": "x"}, True),
    # Keys are compared byte by byte.
    ({"a": 1}, {"A": 1}, False),
    ({"ü": 1}, {"ü": 1}, True),
]


def _case(value) -> str:
    return str(value).replace(" ", "")


@pytest.mark.parametrize("arguments, headers, routed", BY_X_MATCH, ids=_case)
def test_x_match_decides_how_many_headers_must_be_equal(channel, name, arguments, headers, routed):
    assert _is_routed(channel, name, arguments, headers) is routed


INTEGERS = [Value(letter, 5) for letter in "bBsuIil"]

EQUAL = (
    [(Value("I", 5), other) for other in INTEGERS]
    + [(one, Value("I", 5)) for one in INTEGERS]
    + [
        (Value("I", -1), Value("l", -1)),
        (Value("S", "x"), Value("x", b"x")),
        (Value("x", b"x"), Value("S", "x")),
        (Value("f", 1.5), Value("d", 1.5)),
        (Value("d", 1.5), Value("f", 1.5)),
        (Value("t", True), Value("t", True)),
        (Value("S", ""), Value("S", "")),
        (Value("A", [1, "x"]), Value("A", [1, "x"])),
        (Value("F", {"k": 1}), Value("F", {"k": 1})),
        (Value("A", []), Value("A", [])),
    ]
)

DIFFERENT = [
    (Value("I", 5), Value("S", "5")),
    (Value("I", 5), Value("d", 5.0)),
    (Value("I", 1), Value("t", True)),
    (Value("I", 0), Value("t", False)),
    (Value("S", "true"), Value("t", True)),
    (Value("S", "x"), Value("S", "X")),
    (Value("S", "x"), Value("S", "x ")),
    (Value("S", ""), Value("V")),
    (Value("t", True), Value("t", False)),
    (Value("d", 0.1), Value("f", 0.1)),
    (Value("A", [1, 2]), Value("A", [2, 1])),
    (Value("A", [1]), Value("I", 1)),
    (Value("F", {"k": 1}), Value("F", {"k": 2})),
]


@pytest.mark.parametrize("bound, sent", EQUAL, ids=_case)
def test_values_are_equal_whatever_their_width(channel, name, bound, sent):
    assert _is_routed(channel, name, {"key": bound}, {"key": sent})


@pytest.mark.parametrize("bound, sent", DIFFERENT, ids=_case)
def test_values_of_another_kind_are_not_equal(channel, name, bound, sent):
    assert not _is_routed(channel, name, {"key": bound}, {"key": sent})


def test_the_routing_key_is_ignored(channel, name):
    assert _is_routed(channel, name, {"a": 1}, {"a": 1}, key="one", binding_key="two")


def test_bindings_with_different_keys_and_equal_arguments_deliver_once(channel):
    queue, mark = channel.exclusive_queue(), {"x-match": "all", "mark": "once"}
    exchange = "amq.headers"
    for key in ("one", "two"):
        channel.bind(queue, exchange, key, mark | {"queue": queue})
    channel.publish(exchange, "", "body", {"headers": {"mark": "once", "queue": queue}})
    assert channel.drain(queue) == ["body"]


@pytest.mark.parametrize("exchange", ["amq.headers", "amq.match"])
def test_the_predeclared_headers_exchanges_route(channel, exchange):
    queue = channel.exclusive_queue()
    channel.bind(queue, exchange, "", {"only-for": queue})
    channel.publish(exchange, "", "body", {"headers": {"only-for": queue}})
    assert channel.drain(queue) == ["body"]


def test_a_timestamp_equals_none(channel, name):
    assert not _is_routed(channel, name, {"key": Value("T", 5)}, {"key": Value("T", 5)})
    assert _is_routed(channel, name, {"key": None}, {"key": Value("T", 5)})


def test_an_empty_table_equals_an_empty_array(channel, name):
    assert _is_routed(channel, name, {"key": {}}, {"key": []})
    assert _is_routed(channel, name, {"key": []}, {"key": {}})
