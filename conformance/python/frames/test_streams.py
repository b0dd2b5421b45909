"""Streams over AMQP 0-9-1."""

import re
import time

import pytest

from .client import ConnectionClosed
from .wire import Value

pytestmark = pytest.mark.streams


@pytest.fixture
def stream(channel, name) -> str:
    stream = name()
    channel.declare_queue(stream, durable=True, arguments={"x-queue-type": "stream"})
    return stream


@pytest.fixture
def filled(channel, stream) -> str:
    """Ten messages, one chunk each or all in one: the broker decides."""
    channel.publish_all("", stream, [str(number) for number in range(10)])
    return stream


def _consume(channel, stream, offset="first", prefetch=100, tag="t", **arguments) -> None:
    channel.prefetch(prefetch)
    if offset is not None:
        arguments["x-stream-offset"] = offset
    channel.consume(stream, tag, arguments=arguments)


# --- refusals


def test_consuming_needs_a_prefetch(channel, stream):
    channel.send("basic.consume", queue=stream)
    where = f"queue '{stream}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - consumer prefetch count is not set for stream {where}"
    channel.expect_close(406, text, "basic.consume")


def test_consuming_needs_acks(connection, channel, stream):
    channel.prefetch(1)
    channel.send("basic.consume", queue=stream, no_ack=True)
    where = f"queue '{stream}' in vhost '{channel.vhost}'"
    text = f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream {where}"
    connection.expect_close(540, text, "basic.consume")


@pytest.mark.parametrize("offset", ["bogus", "1x", ""])
def test_an_unknown_offset_is_refused(channel, stream, offset):
    channel.prefetch(1)
    channel.send("basic.consume", queue=stream, arguments={"x-stream-offset": offset})
    where = f"for queue '{stream}' in vhost '{channel.vhost}'"
    detail = f'{{invalid_stream_offset_arg,{{longstr,<<"{offset}">>}}}}' if offset else None
    text = f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' {where}: {detail}"
    channel.expect_close(406, text if offset else re.compile(".*invalid_stream_offset_arg.*"), "basic.consume")


def _refused(channel, stream, text, prefetch=1, no_ack=False, **arguments):
    channel.prefetch(prefetch)
    arguments = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.send("basic.consume", queue=stream, no_ack=no_ack, arguments=arguments)
    channel.expect_close(406, "PRECONDITION_FAILED - " + text, "basic.consume")


def test_a_wrong_offset_is_refused_before_an_argument_of_another_type(channel, stream):
    where = f"for queue '{stream}' in vhost '{channel.vhost}'"
    text = f"invalid arg 'x-stream-offset' {where}: {{invalid_stream_offset_arg,{{longstr,<<\"bogus\">>}}}}"
    _refused(channel, stream, text, x_priority="high", x_stream_offset="bogus")


@pytest.mark.parametrize("no_ack", [True, False])
def test_arguments_are_looked_at_before_the_prefetch(channel, stream, no_ack):
    where = f"for queue '{stream}' in vhost '{channel.vhost}' of queue type rabbit_stream_queue"
    _refused(channel, stream, f"invalid arg 'x-priority' {where}", prefetch=0, no_ack=no_ack, x_priority=1)


def test_the_prefetch_is_looked_at_before_the_acks(channel, stream):
    text = f"consumer prefetch count is not set for stream queue '{stream}' in vhost '{channel.vhost}'"
    _refused(channel, stream, text, prefetch=0, no_ack=True)


@pytest.mark.parametrize("value", [1.5, True, None, [1], {"a": 1}], ids=repr)
def test_other_types_are_no_offsets(channel, stream, value):
    channel.prefetch(1)
    channel.send("basic.consume", queue=stream, arguments={"x-stream-offset": value})
    # RabbitMQ falls over it; an error of the channel is better.
    try:
        assert channel.expect("channel.close").reply_code == 406
    except ConnectionClosed as fatal:
        assert fatal.close.code == 541


# --- offsets


def test_first_starts_at_the_beginning(channel, filled):
    _consume(channel, filled)
    assert channel.bodies(10) == [str(number) for number in range(10)]


def test_deliveries_carry_their_offset(channel, filled):
    _consume(channel, filled)
    offsets = [delivery.headers.value("x-stream-offset") for delivery in channel.deliveries(10)]
    assert offsets == [Value("l", number) for number in range(10)]


@pytest.mark.parametrize("offset", [0, 3, 9])
def test_a_number_starts_there(channel, filled, offset):
    _consume(channel, filled, offset)
    assert channel.bodies(10 - offset) == [str(number) for number in range(offset, 10)]


@pytest.mark.parametrize("offset", ["next", None], ids=["next", "absent"])
def test_next_starts_with_what_comes(channel, filled, offset):
    _consume(channel, filled, offset)
    channel.publish_all("", filled, ["new"])
    delivery = channel.expect("basic.deliver")
    assert (delivery.body, delivery.headers.plain()["x-stream-offset"]) == (b"new", 10)


def test_last_starts_at_the_last_chunk(channel, filled):
    _consume(channel, filled, "last")
    first = int(channel.bodies(1)[0])
    # The last chunk holds the last message and perhaps some before it.
    assert channel.bodies(9 - first) == [str(number) for number in range(first + 1, 10)]
    channel.expect_nothing()


@pytest.mark.parametrize("offset", [Value("T", 0), "1h", "1D"], ids=["epoch", "an hour", "a day"])
def test_a_time_starts_at_the_first_chunk_after_it(channel, filled, offset):
    _consume(channel, filled, offset)
    assert channel.bodies(10) == [str(number) for number in range(10)]


def test_a_negative_number_starts_at_the_beginning(channel, filled):
    _consume(channel, filled, -1)
    assert channel.bodies(10) == [str(number) for number in range(10)]


def test_a_time_in_the_future_starts_with_what_comes(channel, filled):
    _consume(channel, filled, Value("T", 4_000_000_000))
    channel.publish_all("", filled, ["new"])
    assert channel.bodies(1) == ["new"]


@pytest.mark.slow
def test_a_short_age_starts_with_what_is_younger(channel, stream):
    channel.publish_all("", stream, ["old"])
    time.sleep(2.5)
    channel.publish_all("", stream, ["young"])
    _consume(channel, stream, "2s")
    assert channel.bodies(1) == ["young"]


def test_an_offset_beyond_the_end_waits_for_it(channel, filled):
    _consume(channel, filled, 12)
    channel.publish_all("", filled, ["10", "11", "12", "13"])
    assert channel.bodies(2) == ["12", "13"]


# --- reading


def test_reading_removes_nothing(connection, filled):
    one, two = connection.channel(), connection.channel()
    for consumer in (one, two):
        _consume(consumer, filled)
        assert consumer.bodies(10) == [str(number) for number in range(10)]
        consumer.ack(10, multiple=True)
    one.call("basic.cancel", consumer_tag="t")
    _consume(one, filled)
    deliveries = one.deliveries(10)
    assert [delivery.body for delivery in deliveries] == [b"%d" % number for number in range(10)]
    assert not any(delivery.redelivered for delivery in deliveries)


def test_every_consumer_sees_everything(channel, filled):
    for tag in ("a", "b"):
        _consume(channel, filled, tag=tag)
    seen = {"a": [], "b": []}
    for delivery in channel.deliveries(20):
        seen[delivery.consumer_tag].append(int(delivery.body))
    assert seen == {"a": list(range(10)), "b": list(range(10))}


@pytest.mark.parametrize("settle", ["ack", "nack", "reject"])
@pytest.mark.parametrize("requeue", [True, False])
def test_settling_only_gives_room(channel, filled, settle, requeue):
    _consume(channel, filled, prefetch=2)
    assert channel.bodies(2) == ["0", "1"]
    if settle == "ack":
        channel.ack(2, multiple=True)
    elif settle == "nack":
        channel.nack(2, multiple=True, requeue=requeue)
    else:
        channel.reject(1, requeue=requeue)
        channel.reject(2, requeue=requeue)
    assert channel.bodies(2) == ["2", "3"]


def test_an_unknown_tag_is_unknown_here_too(channel, filled):
    _consume(channel, filled, prefetch=1)
    channel.deliveries(1)
    channel.ack(99)
    channel.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 99", "basic.ack")


def test_new_messages_are_delivered_as_they_come(channel, stream):
    _consume(channel, stream)
    for number in range(5):
        channel.publish("", stream, str(number))
        assert channel.bodies(1) == [str(number)]


def test_recovered_messages_do_not_come_again(channel, filled):
    _consume(channel, filled, prefetch=2)
    assert channel.bodies(2) == ["0", "1"]
    channel.call("basic.recover", requeue=True)
    assert channel.bodies(2) == ["2", "3"]


def test_what_an_ended_channel_held_is_not_missed(connection, filled):
    one = connection.channel()
    _consume(one, filled, prefetch=3)
    one.deliveries(3)
    one.close()
    two = connection.channel()
    _consume(two, filled, prefetch=100)
    assert not any(delivery.redelivered for delivery in two.deliveries(10))


def test_a_deleted_stream_cancels_its_consumers(channel, filled):
    _consume(channel, filled, prefetch=3)
    channel.deliveries(3)
    channel.call("queue.delete", queue=filled)
    assert channel.expect("basic.cancel").consumer_tag == "t"
    channel.ack(3, multiple=True)
    channel.expect_nothing()


def test_a_cancelled_consumer_gets_nothing_more(channel, filled):
    _consume(channel, filled, prefetch=1)
    channel.deliveries(1)
    channel.call("basic.cancel", consumer_tag="t")
    channel.ack(1)
    channel.publish_all("", filled, ["more"])
    channel.expect_nothing()


# --- filters


@pytest.fixture
def chosen(channel, stream) -> str:
    """Messages with a value to be chosen by and without; each confirmed, so that each is a chunk of RabbitMQ's."""
    channel.select_confirms()
    for number, value in enumerate(["a", "b", None, "a", "c"], start=1):
        channel.publish("", stream, value or "none", {"headers": {"x-stream-filter-value": value} if value else {}})
        channel.confirms(number, number)
    return stream


CHOICES = {
    "one": ({"x-stream-filter": "a"}, "a a"),
    "several": ({"x-stream-filter": ["b", "c"]}, "b c"),
    "members that are no strings": ({"x-stream-filter": ["a", 5]}, "a a"),
    "with those that say nothing": ({"x-stream-filter": "a", "x-stream-match-unfiltered": True}, "a none a"),
    "no bool": ({"x-stream-filter": "a", "x-stream-match-unfiltered": "yes"}, "a a"),
    "empty": ({"x-stream-filter": ""}, "none"),
    "nothing to choose by": ({"x-stream-match-unfiltered": True}, "a b none a c"),
    "number": ({"x-stream-filter": 5}, "a b none a c"),
    "bytes": ({"x-stream-filter": Value("x", b"a")}, "a b none a c"),
}


@pytest.mark.parametrize("arguments, wanted", CHOICES.values(), ids=CHOICES.keys())
def test_a_filter_chooses_by_the_value_of_a_message(channel, chosen, arguments, wanted):
    _consume(channel, chosen, **arguments)
    bodies = channel.bodies(len(wanted.split()))
    assert bodies == wanted.split()
    # What comes now and is not wanted is passed over too; to some every value is.
    channel.publish_all("", chosen, ["last"], {"headers": {"x-stream-filter-value": "b"}})
    channel.publish_all("", chosen, ["end"], {"headers": {"x-stream-filter-value": bodies[0]}} if "none" != bodies[0] else {})
    is_wanted = "b" in bodies
    assert channel.bodies(1 + is_wanted) == ["last", "end"][1 - is_wanted :]


def test_what_a_filter_leaves_out_costs_no_room(channel, chosen):
    _consume(channel, chosen, prefetch=1, **{"x-stream-filter": "a"})
    for tag, offset in ((1, 0), (2, 3)):
        delivery = channel.expect("basic.deliver")
        assert (delivery.delivery_tag, delivery.headers.plain()["x-stream-offset"]) == (tag, offset)
        channel.ack(tag)
    channel.expect_nothing(chosen)


@pytest.mark.beyond
def test_a_filter_chooses_message_by_message(channel, stream):
    # RabbitMQ chooses chunks: some that are not wanted come along.
    bodies = [f"{number % 7}" for number in range(700)]
    with channel.connection.in_one_write():
        for body in bodies:
            channel.publish("", stream, body, {"headers": {"x-stream-filter-value": body}})
    _consume(channel, stream, prefetch=1000, **{"x-stream-filter": ["3"]})
    assert channel.bodies(100) == ["3"] * 100
    channel.expect_nothing(stream)


def test_a_value_that_is_no_string_is_none_or_fatal(channel, stream):
    channel.publish("", stream, "number", {"headers": {"x-stream-filter-value": 5}})
    try:
        _consume(channel, stream, **{"x-stream-filter": "a", "x-stream-match-unfiltered": True})
        assert channel.bodies(1) == ["number"]
    except ConnectionClosed as fatal:
        # RabbitMQ falls over it.
        assert fatal.close.code == 541


# --- messages


def _through_a_stream(channel, stream, properties, body="body"):
    channel.publish("", stream, body, properties)
    _consume(channel, stream)
    return channel.expect("basic.deliver")


def test_properties_survive_except_the_cluster_id(channel, stream, endpoint):
    sent = {
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "delivery_mode": 2,
        "priority": 9,
        "correlation_id": "correlation",
        "reply_to": "reply",
        "expiration": "100000",
        "message_id": "message",
        "timestamp": 1700000000,
        "type": "type",
        "user_id": endpoint.user,
        "app_id": "app",
    }
    received = _through_a_stream(channel, stream, sent | {"cluster_id": "cluster"}).properties
    received.pop("headers")
    received.pop("cluster_id", None)
    assert received == sent


def test_an_absent_delivery_mode_becomes_1(channel, stream):
    received = _through_a_stream(channel, stream, {"message_id": "m"}).properties
    received.pop("headers")
    assert received == {"message_id": "m", "delivery_mode": 1}


def test_the_offset_replaces_a_header_of_that_name(channel, stream):
    channel.publish("", stream, "first")
    headers = {"a": 1, "x-stream-offset": 77, "b": 2}
    _consume(channel, stream, 1)
    channel.publish("", stream, "second", {"headers": headers})
    assert channel.expect("basic.deliver").headers.plain() == {"a": 1, "b": 2, "x-stream-offset": 1}


@pytest.mark.parametrize("value", ["text", 5, True, 1.5, None, -(2**40), Value("b", 3), Value("T", 7)], ids=repr)
def test_simple_headers_survive(channel, stream, value):
    headers = _through_a_stream(channel, stream, {"headers": {"key": value}}).headers
    assert headers.plain()["key"] == (value.value if isinstance(value, Value) else value)


def test_a_decimal_header_survives_or_is_fatal(channel, stream):
    try:
        headers = _through_a_stream(channel, stream, {"headers": {"key": Value("D", (2, 12345))}}).headers
        assert headers.value("key") == Value("D", (2, 12345))
    except ConnectionClosed as fatal:
        # RabbitMQ falls over it.
        assert fatal.close.code == 541


def test_arrays_and_tables_survive_under_x_keys(channel, stream):
    nested = {"x-array": [1, "two"], "x-table": {"a": 1, "b": [2]}}
    headers = _through_a_stream(channel, stream, {"headers": nested}).headers.plain()
    headers.pop("x-stream-offset")
    assert headers == nested


def test_arrays_and_tables_under_other_keys_survive_or_vanish(channel, stream):
    nested = {"array": [1, "two"], "table": {"a": 1}}
    headers = _through_a_stream(channel, stream, {"headers": nested}).headers.plain()
    headers.pop("x-stream-offset")
    # RabbitMQ keeps no nested values there.
    assert headers in (nested, {})


def test_binary_headers_survive_as_bytes_of_either_letter(channel, stream):
    headers = _through_a_stream(channel, stream, {"headers": {"key": Value("x", b"bytes")}}).headers
    assert headers.value("key") in (Value("x", b"bytes"), Value("S", "bytes"))


def test_bcc_is_removed_here_too(channel, stream):
    headers = _through_a_stream(channel, stream, {"headers": {"BCC": ["other"], "CC": ["another"]}}).headers
    assert "BCC" not in headers


@pytest.mark.slow
def test_the_count_of_messages_comes_in_time(channel, filled):
    channel.expect_depth(filled, 10)


def test_a_large_body_survives(channel, stream):
    body = bytes(range(256)) * 2000
    channel.publish("", stream, body)
    _consume(channel, stream)
    assert channel.expect("basic.deliver").body == body


def test_exchange_and_key_of_the_publish_are_delivered(channel, stream):
    channel.bind(stream, "amq.topic", f"{stream}.#")
    channel.publish("amq.topic", f"{stream}.key", "body")
    _consume(channel, stream)
    delivery = channel.expect("basic.deliver")
    assert (delivery.exchange, delivery.routing_key) == ("amq.topic", f"{stream}.key")


def test_many_messages_keep_their_order(channel, stream):
    bodies = [str(number) for number in range(1000)]
    channel.publish_all("", stream, bodies)
    _consume(channel, stream, prefetch=50)
    seen = []
    while len(seen) < 1000:
        delivery = channel.expect("basic.deliver")
        seen.append(delivery.body.decode())
        if len(seen) % 25 == 0:
            channel.ack(delivery.delivery_tag, multiple=True)
    assert seen == bodies
