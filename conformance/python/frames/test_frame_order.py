"""Method, content header, body: what may follow what."""

import pytest

from .client import ConnectionClosed
from .wire import BODY, HEADER, HEARTBEAT, METHOD, METHODS, encode_header, encode_method

pytestmark = pytest.mark.framing

NO_METHOD = (0, 0)
EXPECTED_METHOD = "UNEXPECTED_FRAME - expected method frame, got non method frame instead"
EXPECTED_HEADER = "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
EXPECTED_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"

PUBLISH = (METHOD, encode_method("basic.publish", routing_key="nowhere"))
FLOW = (METHOD, encode_method("channel.flow", active=True))
HEADER_OF_2 = (HEADER, encode_header(2))

VIOLATIONS = {
    "header without a method": ([HEADER_OF_2], EXPECTED_METHOD, NO_METHOD),
    "body without a method": ([(BODY, b"x")], EXPECTED_METHOD, NO_METHOD),
    "publish, then a method": ([PUBLISH, FLOW], EXPECTED_HEADER, "basic.publish"),
    "publish, then publish": ([PUBLISH, PUBLISH], EXPECTED_HEADER, "basic.publish"),
    "publish, then a body": ([PUBLISH, (BODY, b"x")], EXPECTED_HEADER, "basic.publish"),
    "header of class 10": (
        [PUBLISH, (HEADER, encode_header(2, class_id=10))],
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead",
        "basic.publish",
    ),
    "header of class 0": (
        [PUBLISH, (HEADER, encode_header(2, class_id=0))],
        "UNEXPECTED_FRAME - expected content header for class 60, got one for class 0 instead",
        "basic.publish",
    ),
    "header with a weight": ([PUBLISH, (HEADER, encode_header(2, weight=1))], EXPECTED_HEADER, "basic.publish"),
    "header, then a method": ([PUBLISH, HEADER_OF_2, FLOW], EXPECTED_BODY, "basic.publish"),
    "header, then a header": ([PUBLISH, HEADER_OF_2, HEADER_OF_2], EXPECTED_BODY, "basic.publish"),
    "half a body, then a method": ([PUBLISH, HEADER_OF_2, (BODY, b"x"), FLOW], EXPECTED_BODY, "basic.publish"),
    "a body for size 0": ([PUBLISH, (HEADER, encode_header(0)), (BODY, b"")], EXPECTED_METHOD, NO_METHOD),
    "a body too many": (
        [PUBLISH, HEADER_OF_2, (BODY, b"xx"), (BODY, b"x")],
        EXPECTED_METHOD,
        NO_METHOD,
    ),
    "a heartbeat on the channel": ([(HEARTBEAT, b"")], "UNEXPECTED_FRAME - type 8, all octets = <<>>", NO_METHOD),
}


@pytest.mark.parametrize("frames, text, method", VIOLATIONS.values(), ids=VIOLATIONS.keys())
def test_the_first_frame_out_of_order_ends_the_connection(connection, channel, frames, text, method):
    for kind, payload in frames:
        channel.send_frame(kind, payload)
    connection.expect_close(505, text, method)


# --- contents that only a broker sends

WITH_CONTENT = ["basic.return", "basic.deliver", "basic.get-ok"]
EXPECTED_CLASS = "UNEXPECTED_FRAME - expected content header for class 60, got one for class 10 instead"
IN_ORDER = {
    "nothing": [(HEADER, encode_header(0))],
    "a body": [HEADER_OF_2, (BODY, b"xx")],
    "a body in parts": [HEADER_OF_2, (BODY, b"x"), (BODY, b""), (BODY, b"x")],
}
OUT_OF_ORDER = {
    "a method": ([FLOW], 505, EXPECTED_HEADER),
    "a body": ([(BODY, b"xx")], 505, EXPECTED_HEADER),
    "a weight": ([(HEADER, encode_header(2, weight=1))], 505, EXPECTED_HEADER),
    "another class": ([(HEADER, encode_header(2, class_id=10))], 505, EXPECTED_CLASS),
    "a method behind the header": ([HEADER_OF_2, FLOW], 505, EXPECTED_BODY),
    "too much of a body": (
        [HEADER_OF_2, (BODY, b"xxx")],
        501,
        "FRAME_ERROR - content body frame exceeds remaining content size",
    ),
}


@pytest.mark.parametrize("frames", IN_ORDER.values(), ids=IN_ORDER.keys())
@pytest.mark.parametrize("method", WITH_CONTENT)
def test_a_content_of_the_broker_is_read_to_its_end_before_it_is_refused(connection, channel, method, frames):
    other = connection.channel()
    channel.send(method)
    for kind, payload in frames:
        # Still the connection lives, on other channels.
        other.call("channel.flow", active=True)
        channel.send_frame(kind, payload)
    connection.expect_close(503, UNIMPLEMENTED, method)


@pytest.mark.parametrize("frames, code, text", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER.keys())
@pytest.mark.parametrize("method", ["basic.publish", *WITH_CONTENT])
def test_a_content_out_of_order_blames_the_method_before_it(connection, channel, method, frames, code, text):
    channel.send(method)
    for kind, payload in frames:
        channel.send_frame(kind, payload)
    connection.expect_close(code, text, method)


@pytest.mark.parametrize("method", ["basic.publish", *WITH_CONTENT])
def test_a_content_on_a_channel_that_is_not_open_is_read_to_its_end_too(connection, method):
    other = connection.channel(1)
    connection.send(7, method)
    other.call("channel.flow", active=True)
    connection.send_frame(HEADER, 7, encode_header(2))
    other.call("channel.flow", active=True)
    connection.send_frame(BODY, 7, b"xx")
    connection.expect_close(504, "CHANNEL_ERROR - expected 'channel.open'", method)


@pytest.mark.parametrize("method", ["basic.publish", *WITH_CONTENT])
def test_a_channel_cannot_be_opened_in_the_midst_of_a_content(connection, method):
    connection.send(7, method)
    connection.send(7, "channel.open")
    connection.expect_close(505, EXPECTED_HEADER, method)


@pytest.mark.parametrize("method", ["basic.publish", *WITH_CONTENT])
def test_a_closing_channel_ignores_a_content_and_reads_it_to_its_end(connection, channel, method):
    channel.send("queue.declare", queue="nowhere-at-all", passive=True)
    channel.send(method)
    for kind, payload in IN_ORDER["a body"]:
        channel.send_frame(kind, payload)
    text = f"NOT_FOUND - no queue 'nowhere-at-all' in vhost '{connection.vhost}'"
    channel.expect_close(404, text, "queue.declare")
    channel.open()
    channel.call("channel.flow", active=True)


@pytest.mark.parametrize("method", ["basic.publish", *WITH_CONTENT])
def test_a_closing_channel_knows_the_order_of_a_content(connection, channel, method):
    channel.send("queue.declare", queue="nowhere-at-all", passive=True)
    channel.send(method)
    channel.send("channel.close-ok")
    connection.expect_close(505, EXPECTED_HEADER, method)


def test_more_body_than_announced_ends_the_connection(connection, channel):
    for kind, payload in [PUBLISH, HEADER_OF_2, (BODY, b"xxx")]:
        channel.send_frame(kind, payload)
    text = "FRAME_ERROR - content body frame exceeds remaining content size"
    connection.expect_close(501, text, None)


def test_order_is_checked_before_the_channel_is_known_to_be_closed(connection):
    connection.send_frame(BODY, 9, b"x")
    connection.expect_close(505, EXPECTED_METHOD, NO_METHOD)


def test_empty_body_frames_may_stand_between(channel):
    queue = channel.exclusive_queue()
    channel.send("basic.publish", routing_key=queue)
    channel.send_frame(HEADER, encode_header(4))
    for part in (b"", b"ab", b"", b"", b"cd"):
        channel.send_frame(BODY, part)
    assert channel.await_message(queue).body == b"abcd"


def test_a_body_may_come_in_frames_of_one_byte(channel):
    queue = channel.exclusive_queue()
    body = bytes(range(256))
    channel.send("basic.publish", routing_key=queue)
    channel.send_frame(HEADER, encode_header(len(body)))
    for octet in body:
        channel.send_frame(BODY, bytes([octet]))
    assert channel.await_message(queue).body == body


def test_contents_of_several_channels_may_interleave(connection):
    first, second = connection.channel(), connection.channel()
    queue = first.exclusive_queue()
    frames = [
        lambda channel: channel.send("basic.publish", routing_key=queue),
        lambda channel: channel.send_frame(HEADER, encode_header(2)),
        lambda channel: channel.send_frame(BODY, b"%d" % channel.number),
        lambda channel: channel.send_frame(BODY, b"%d" % channel.number),
    ]
    for send in frames:
        send(first)
        send(second)
    assert {first.await_message(queue).body, first.await_message(queue).body} == {b"11", b"22"}


def test_a_heartbeat_may_come_inside_a_content(connection, channel):
    queue = channel.exclusive_queue()
    channel.send("basic.publish", routing_key=queue)
    connection.send_frame(HEARTBEAT, 0)
    channel.send_frame(HEADER, encode_header(2))
    connection.send_frame(HEARTBEAT, 0)
    channel.send_frame(BODY, b"ab")
    assert channel.await_message(queue).body == b"ab"


# --- methods in the wrong direction

SERVER_ONLY = sorted(
    {name for name in METHODS if name.endswith("-ok") and not name.startswith("connection.")}
    | {"basic.deliver", "basic.return", "basic.get-empty"}
)
ALLOWED_ANSWERS = {"basic.cancel-ok", "channel.close-ok"}


@pytest.mark.parametrize("method", [name for name in SERVER_ONLY if name not in ALLOWED_ANSWERS])
def test_a_method_that_only_the_broker_sends_is_not_implemented(connection, channel, method):
    channel.send(method)
    if METHODS[method].has_content:
        channel.send_frame(HEADER, encode_header(0))
    connection.expect_close(503, UNIMPLEMENTED, method)


def test_credit_of_old_brokers_is_not_implemented(connection, channel):
    channel.send_frame(METHOD, b"\x00\x3c\x00\xc8" + b"\x03tag" + b"\x00\x00\x00\x01" + b"\x00")
    connection.expect_close(503, UNIMPLEMENTED, (60, 200))


def test_cancel_ok_without_a_cancel_is_tolerated_or_fatal(connection, channel):
    channel.send("basic.cancel-ok", consumer_tag="t")
    try:
        channel.expect_nothing()
    except ConnectionClosed as fatal:
        # RabbitMQ falls over it.
        assert fatal.close.code == 541


def test_sending_a_body_in_the_wrong_place_leaves_other_connections_alone(connect):
    healthy, broken = connect(), connect()
    broken.send_frame(BODY, 1, b"x")
    broken.expect_close(505, EXPECTED_METHOD, NO_METHOD)
    assert healthy.is_healthy()
