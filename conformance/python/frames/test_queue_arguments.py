"""Arguments of queue.declare: which queue type takes which, and which values."""

import re

import pytest

from .wire import Value

pytestmark = pytest.mark.queues


def _declare(channel, queue, kind, arguments, **flags) -> None:
    channel.send(
        "queue.declare", queue=queue, arguments=arguments | {"x-queue-type": kind}, **(flags or {"durable": True})
    )


def _invalid(channel, queue, key, detail) -> str:
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    return f"PRECONDITION_FAILED - invalid arg '{key}' {where}: {detail}"


# --- which type takes which argument

TAKEN_BY = {
    "x-message-ttl": (1000, "CQ"),
    "x-expires": (60000, "CQ"),
    "x-max-length": (10, "CQ"),
    "x-max-length-bytes": (1000, "CQS"),
    "x-overflow": ("drop-head", "CQ"),
    "x-dead-letter-exchange": ("x", "CQ"),
    "x-dead-letter-strategy": ("at-most-once", "Q"),
    "x-max-priority": (10, "C"),
    "x-single-active-consumer": (True, "CQ"),
    "x-queue-mode": ("lazy", "C"),
    "x-queue-version": (2, "C"),
    "x-queue-leader-locator": ("client-local", "CQS"),
    "x-delivery-limit": (5, "Q"),
    "x-quorum-initial-group-size": (1, "Q"),
    "x-consumer-timeout": (60000, "Q"),
    "x-consumer-disconnected-timeout": (60000, "Q"),
    "x-delayed-retry-type": ("disabled", "Q"),
    "x-delayed-retry-min": (1000, "Q"),
    "x-delayed-retry-max": (2000, "Q"),
    "x-max-in-memory-length": (10, "Q"),
    "x-max-in-memory-bytes": (1000, "Q"),
    "x-max-age": ("1D", "S"),
    "x-stream-max-segment-size-bytes": (1000000, "S"),
    "x-stream-filter-size-bytes": (16, "S"),
    "x-initial-cluster-size": (1, "S"),
}
TYPES = {"C": "classic", "Q": "quorum", "S": "stream"}
MATRIX = [(argument, letter) for argument in TAKEN_BY for letter in TYPES]


@pytest.mark.parametrize("argument, letter", MATRIX, ids=lambda part: TYPES.get(part, part))
def test_a_queue_type_takes_its_own_arguments_only(channel, name, argument, letter):
    queue, (value, types) = name(), TAKEN_BY[argument]
    kind = TYPES[letter]
    _declare(channel, queue, kind, {argument: value})
    if letter in types:
        channel.expect("queue.declare-ok")
        # It is compared from now on.
        channel.declare_queue(queue, durable=True, arguments={argument: value, "x-queue-type": kind})
    else:
        where = f"for queue '{queue}' in vhost '{channel.vhost}' of queue type rabbit_{kind}_queue"
        channel.expect_close(406, f"PRECONDITION_FAILED - invalid arg '{argument}' {where}", "queue.declare")


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_dead_letter_key_is_taken_with_an_exchange(channel, name, kind):
    arguments = {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": "k"}
    _declare(channel, name(), kind, arguments)
    channel.expect("queue.declare-ok")


@pytest.mark.parametrize("kind", TYPES.values())
def test_unknown_arguments_are_taken_by_all(channel, name, kind):
    _declare(channel, name(), kind, {"foo": 1, "x-ha-policy": "all", "x-made-up": {"a": [1]}})
    channel.expect("queue.declare-ok")


# --- values that are taken

GOOD = [
    ("classic", "x-message-ttl", [0, 1, 315360000000]),
    ("classic", "x-expires", [1, 315360000000]),
    ("classic", "x-max-length", [0, 2**40]),
    ("classic", "x-max-length-bytes", [0, 2**40]),
    ("classic", "x-overflow", ["drop-head", "reject-publish", "reject-publish-dlx"]),
    ("quorum", "x-overflow", ["drop-head", "reject-publish", "reject-publish-dlx"]),
    ("classic", "x-dead-letter-exchange", ["", "there is none", "amq.direct"]),
    ("quorum", "x-dead-letter-strategy", ["at-most-once", "at-least-once"]),
    ("classic", "x-max-priority", [0, 1, 10]),
    ("classic", "x-single-active-consumer", [True, False]),
    ("classic", "x-queue-mode", ["lazy", "default", "nonsense", 5]),
    ("classic", "x-queue-version", [2]),
    ("classic", "x-queue-leader-locator", ["client-local", "balanced", "random", "least-leaders", "min-masters"]),
    ("quorum", "x-queue-leader-locator", ["client-local", "balanced", "random", "least-leaders", "min-masters"]),
    ("quorum", "x-delivery-limit", [0, 1, -1, 1000000, "a string"]),
    ("quorum", "x-quorum-initial-group-size", [1, 3]),
    ("quorum", "x-consumer-timeout", [0, 60000]),
    ("quorum", "x-delayed-retry-type", ["disabled", "all", "failed", "returned", "nonsense"]),
    ("quorum", "x-max-in-memory-length", [0]),
    ("stream", "x-max-age", ["1Y", "2M", "3D", "4h", "5m", "6s"]),
    ("stream", "x-max-length-bytes", [0, 2**40]),
    ("stream", "x-stream-max-segment-size-bytes", [1000000, 3000000000]),
    ("stream", "x-stream-filter-size-bytes", [16, 255]),
]


@pytest.mark.parametrize(
    "kind, argument, value",
    [(kind, argument, value) for kind, argument, values in GOOD for value in values],
)
def test_a_value_in_range_is_taken(channel, name, kind, argument, value):
    _declare(channel, name(), kind, {argument: value})
    channel.expect("queue.declare-ok")


@pytest.mark.parametrize("letter", "bBsuIilL")
def test_any_integer_letter_is_an_integer(channel, name, letter):
    _declare(channel, name(), "classic", {"x-message-ttl": Value(letter, 100)})
    channel.expect("queue.declare-ok")


# --- values that are refused

NO_INTEGER = '"expected integer, got longstr"'

BAD = [
    ("classic", "x-message-ttl", -1, "{value_negative,-1}"),
    ("classic", "x-message-ttl", 315360000001, "{value_too_large,315360000001}"),
    ("classic", "x-message-ttl", "100", NO_INTEGER),
    ("quorum", "x-message-ttl", -1, "{value_negative,-1}"),
    ("classic", "x-expires", 0, "{value_zero,0}"),
    ("classic", "x-expires", -5, "{value_negative,-5}"),
    ("classic", "x-expires", 315360000001, "{value_too_large,315360000001}"),
    ("classic", "x-expires", "100", NO_INTEGER),
    ("quorum", "x-expires", 0, "{value_zero,0}"),
    ("classic", "x-max-length", -1, "{value_negative,-1}"),
    ("classic", "x-max-length", "5", NO_INTEGER),
    ("quorum", "x-max-length", -1, "{value_negative,-1}"),
    ("classic", "x-max-length-bytes", -1, "{value_negative,-1}"),
    ("stream", "x-max-length-bytes", -1, "{value_negative,-1}"),
    ("classic", "x-overflow", "nope", "invalid_overflow"),
    ("classic", "x-overflow", 5, "{unacceptable_type,signedint}"),
    ("quorum", "x-overflow", "nope", "invalid_overflow"),
    ("classic", "x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("quorum", "x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
    ("quorum", "x-dead-letter-strategy", "nope", "invalid_dlx_strategy"),
    ("quorum", "x-dead-letter-strategy", 5, "{unacceptable_type,signedint}"),
    ("classic", "x-max-priority", -1, "{value_negative,-1}"),
    ("classic", "x-max-priority", 256, "{max_value_exceeded,256}"),
    ("classic", "x-max-priority", "5", NO_INTEGER),
    ("classic", "x-single-active-consumer", "true", "{unacceptable_type,longstr}"),
    ("classic", "x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
    ("classic", "x-queue-version", 1, "\"unsupported queue version '1'\""),
    ("classic", "x-queue-version", 3, "\"unsupported queue version '3'\""),
    ("classic", "x-queue-leader-locator", "nope", "invalid_queue_locator_arg"),
    ("quorum", "x-quorum-initial-group-size", 0, "{value_zero,0}"),
    ("quorum", "x-quorum-initial-group-size", -1, "{value_negative,-1}"),
    ("quorum", "x-consumer-timeout", -1, "{value_negative,-1}"),
    ("quorum", "x-consumer-disconnected-timeout", -1, "{value_negative,-1}"),
    ("quorum", "x-max-in-memory-length", -5, "{value_negative,-5}"),
    ("quorum", "x-max-in-memory-bytes", -5, "{value_negative,-5}"),
    ("stream", "x-max-age", "1", "invalid_max_age"),
    ("stream", "x-max-age", "0D", "invalid_max_age"),
    ("stream", "x-max-age", "1x", "invalid_max_age"),
    ("stream", "x-max-age", "", "invalid_max_age"),
    ("stream", "x-max-age", 5, "{unacceptable_type,signedint}"),
    ("stream", "x-initial-cluster-size", 0, "{value_zero,0}"),
]


@pytest.mark.parametrize("kind, argument, value, detail", BAD, ids=lambda part: str(part)[:24])
def test_a_value_out_of_range_is_refused(channel, name, kind, argument, value, detail):
    queue = name()
    _declare(channel, queue, kind, {argument: value})
    channel.expect_close(406, _invalid(channel, queue, argument, detail), "queue.declare")


@pytest.mark.parametrize(
    "value, kind",
    [
        (Value("S", "5"), "longstr"),
        (Value("x", b"5"), "binary"),
        (Value("t", True), "bool"),
        (Value("f", 5.0), "float"),
        (Value("d", 5.0), "double"),
        (Value("T", 5), "timestamp"),
        (Value("V"), "void"),
        (Value("F", {}), "table"),
        (Value("A", []), "array"),
        (Value("D", (0, 5)), "decimal"),
    ],
    ids=lambda part: part if isinstance(part, str) else part.letter,
)
def test_the_text_names_the_type_that_is_no_integer(channel, name, value, kind):
    queue = name()
    _declare(channel, queue, "classic", {"x-max-length": value})
    text = _invalid(channel, queue, "x-max-length", f'"expected integer, got {kind}"')
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("value, kind", [(5, "signedint"), (Value("x", b"name"), "binary")])
def test_a_dead_letter_exchange_is_a_string(channel, name, value, kind):
    queue = name()
    _declare(channel, queue, "classic", {"x-dead-letter-exchange": value})
    where = f"in queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid type '{kind}' for arg 'x-dead-letter-exchange' {where}"
    channel.expect_close(406, text, "queue.declare")


def test_a_dead_letter_key_is_a_string(channel, name):
    queue = name()
    _declare(channel, queue, "classic", {"x-dead-letter-exchange": "x", "x-dead-letter-routing-key": 5})
    text = _invalid(channel, queue, "x-dead-letter-routing-key", "{unacceptable_type,signedint}")
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("value", [3000000001, 2**40])
def test_a_stream_segment_has_a_largest_size(channel, name, value):
    _declare(channel, name(), "stream", {"x-stream-max-segment-size-bytes": value})
    text = "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("value", [15, 256])
def test_a_stream_filter_has_its_range(channel, name, value):
    _declare(channel, name(), "stream", {"x-stream-filter-size-bytes": value})
    text = "PRECONDITION_FAILED - Invalid value for x-stream-filter-size-bytes"
    channel.expect_close(406, text, "queue.declare")


def test_a_master_locator_is_denied(connection, channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-master-locator": "client-local"})
    text = re.compile(r"INTERNAL_ERROR - Feature `queue_master_locator` is deprecated\.\n.*", re.S)
    connection.expect_close(541, text, "queue.declare")


def test_values_are_checked_before_whose_they_are(channel, name):
    queue = name()
    _declare(channel, queue, "classic", {"x-max-age": "1D", "x-expires": -1})
    channel.expect_close(406, _invalid(channel, queue, "x-expires", "{value_negative,-1}"), "queue.declare")


def test_of_several_arguments_of_other_types_the_first_one_sent_is_named(channel, name):
    queue = name()
    _declare(channel, queue, "classic", {"x-max-age": "1D", "x-delivery-limit": 5})
    where = f"for queue '{queue}' in vhost '{channel.vhost}' of queue type rabbit_classic_queue"
    channel.expect_close(406, f"PRECONDITION_FAILED - invalid arg 'x-max-age' {where}", "queue.declare")


def test_of_several_arguments_of_other_types_the_first_of_the_alphabet_is_named_without_a_type(channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, arguments={"x-max-age": "1D", "x-delivery-limit": 5})
    where = f"for queue '{queue}' in vhost '{channel.vhost}' of queue type rabbit_classic_queue"
    channel.expect_close(406, f"PRECONDITION_FAILED - invalid arg 'x-delivery-limit' {where}", "queue.declare")


# --- comparing

COMPARED = [
    ("classic", "x-max-length", 5, 6),
    ("classic", "x-message-ttl", 5000, 6000),
    ("classic", "x-expires", 60000, 70000),
    ("classic", "x-overflow", "drop-head", "reject-publish"),
    ("classic", "x-max-priority", 5, 6),
    ("classic", "x-queue-mode", "lazy", "default"),
    ("quorum", "x-delivery-limit", 5, 6),
    ("quorum", "x-dead-letter-strategy", "at-most-once", "at-least-once"),
]


@pytest.mark.parametrize("kind, argument, first, again", COMPARED)
def test_another_value_is_not_equivalent(channel, name, kind, argument, first, again):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={argument: first, "x-queue-type": kind})
    _declare(channel, queue, kind, {argument: again})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    difference = f"received '{again}' but current is '{first}'"
    text = f"PRECONDITION_FAILED - inequivalent arg '{argument}' {where}: {difference}"
    channel.expect_close(406, text, "queue.declare")


def test_ages_are_compared_as_milliseconds(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "1D"})
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "stream", "x-max-age": "24h"})
    _declare(channel, queue, "stream", {"x-max-age": "2D"})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    difference = "received '172800000' but current is '86400000'"
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-max-age' {where}: {difference}"
    channel.expect_close(406, text, "queue.declare")


def test_a_bool_is_compared_by_its_word(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-single-active-consumer": True})
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-single-active-consumer": False})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-single-active-consumer' {where}: "
        "received 'false' but current is 'true'"
    )
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("again, shown", [("", "''"), ("undefined", "'undefined'"), (5, "'5'"), (Value("V"), "none")])
def test_a_queue_without_a_type_is_one_of_the_default_type(channel, name, again, shown):
    queue = name()
    channel.declare_queue(queue, durable=True)
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "classic"})
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": again})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' {where}: received {shown} but current is 'classic'"
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("word", ["", "undefined"])
def test_a_word_for_no_type_is_compared_as_it_stands(channel, name, word):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": word})
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": word})
    channel.send("queue.declare", queue=queue, durable=True)
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - inequivalent arg 'x-queue-type' {where}: received 'classic' but current is '{word}'"
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize(
    "kind, shown",
    [
        ("a\n\"\\", '"unsupported queue type \'a\\n\\"\\\\\'"'),
        ("ü", "\"unsupported queue type 'ü'\""),
        ("€", str(list(map(ord, "unsupported queue type '€'"))).replace(" ", "")),
    ],
)
def test_a_text_in_a_refusal_is_told_as_erlang_prints_it(channel, kind, shown):
    channel.send("queue.declare", queue="never-made", exclusive=True, arguments={"x-queue-type": kind})
    where = f"for queue 'never-made' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-type' {where}: {shown}"
    channel.expect_close(406, text if len(text) <= 255 else text[:252] + "...", "queue.declare")


def test_a_negative_queue_version_is_negative_first(channel):
    channel.send("queue.declare", queue="never-made", exclusive=True, arguments={"x-queue-version": -1})
    where = f"for queue 'never-made' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-version' {where}: {{value_negative,-1}}"
    channel.expect_close(406, text, "queue.declare")
