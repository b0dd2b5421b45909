"""Frames that are broken, and frames cut at odd places."""

import re
import uuid

import pytest

from .client import Close, Dropped
from .wire import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    Frame,
    Value,
    encode_header,
    encode_method,
    encode_properties,
)

pytestmark = pytest.mark.framing


# --- the envelope


def test_a_payload_of_frame_max_bytes_is_accepted(connect):
    connection = connect(frame_max=8192)
    channel = connection.channel()
    queue = channel.exclusive_queue()
    channel.send("basic.publish", routing_key=queue)
    channel.send_frame(HEADER, encode_header(8192))
    channel.send_frame(BODY, b"x" * 8192)
    assert channel.await_message(queue).body == b"x" * 8192


@pytest.mark.parametrize("frame_max", [8192, 131072])
def test_a_payload_above_frame_max_is_fatal(connect, frame_max):
    connection = connect(frame_max=frame_max)
    channel = connection.channel()
    channel.send("basic.publish", routing_key="nowhere")
    channel.send_frame(HEADER, encode_header(frame_max + 1))
    channel.send_frame(BODY, b"x" * (frame_max + 1))
    detail = f"{{frame_too_large,{frame_max + 1},{frame_max - 8}}}"
    connection.expect_close(501, f"FRAME_ERROR - type 3, all octets = <<>>: {detail}", (0, 0))


def test_a_huge_size_is_refused_before_its_payload_comes(connection):
    connection.write(b"\x01\x00\x00\xff\xff\xff\xff")
    detail = "{frame_too_large,4294967295,131064}"
    connection.expect_close(501, f"FRAME_ERROR - type 1, all octets = <<>>: {detail}", (0, 0))


@pytest.mark.parametrize("kind, payload", [(4, b"abc"), (HEARTBEAT, b"x"), (METHOD, b"")])
def test_behind_a_frame_of_no_kind_the_close_ok_is_read(connection, kind, payload):
    connection.send_frame(kind, 0, payload)
    assert connection.expect("connection.close").reply_code == 501
    connection.send(0, "connection.close-ok")
    # At once, and not after some seconds, as where no frame can be found any more.
    connection.expect_end(timeout=2.0)


@pytest.mark.parametrize("end", [0xCD, 0x00, 0xFF])
def test_a_wrong_end_byte_is_fatal(connection, channel, end):
    connection.write(Frame(METHOD, 1, encode_method("channel.flow", active=True)).encode(end))
    text = rf"FRAME_ERROR - type 1, all octets = <<0,20,0,20,1>>: \{{invalid_frame_end_marker,\s*{end}\}}"
    connection.expect_close(501, re.compile(text, re.S), (0, 0))


@pytest.mark.parametrize("kind", [0, 4, 5, 6, 7, 9, 255])
def test_an_unknown_frame_type_is_fatal(connection, kind):
    connection.send_frame(kind, 0, b"abc")
    connection.expect_close(501, f'FRAME_ERROR - type {kind}, all octets = <<"abc">>: unknown_frame', (0, 0))


def test_only_the_first_octets_of_an_unknown_frame_are_told(connection):
    connection.send_frame(4, 0, bytes(range(20)))
    octets = ",".join(str(octet) for octet in range(16))
    connection.expect_close(501, f"FRAME_ERROR - type 4, first 16 octets = <<{octets}>>: unknown_frame", (0, 0))


def test_an_unknown_frame_type_is_fatal_on_a_channel_too(connection, channel):
    connection.send_frame(4, channel.number, b"abc")
    connection.expect_close(501, 'FRAME_ERROR - type 4, all octets = <<"abc">>: unknown_frame', (0, 0))


def test_a_heartbeat_with_a_payload_is_an_unknown_frame(connection):
    connection.send_frame(HEARTBEAT, 0, b"x")
    connection.expect_close(501, 'FRAME_ERROR - type 8, all octets = <<"x">>: unknown_frame', (0, 0))


def test_a_channel_number_may_be_above_channel_max(connect):
    connection = connect(channel_max=2)
    for number in (65535, 3):
        connection.channel(number).expect_nothing()


# --- frames cut and joined


def _small_session(queue: str) -> bytes:
    methods = [
        encode_method("channel.open"),
        encode_method("queue.declare", queue=queue, exclusive=True),
        encode_method("basic.publish", routing_key=queue),
    ]
    frames = [Frame(METHOD, 1, method) for method in methods]
    frames.append(Frame(HEADER, 1, encode_header(6, {"message_id": "m", "headers": {"a": 1}})))
    frames += [Frame(BODY, 1, b"abc"), Frame(BODY, 1, b"def"), Frame(HEARTBEAT, 0, b"")]
    frames.append(Frame(METHOD, 1, encode_method("basic.get", queue=queue, no_ack=True)))
    return b"".join(frame.encode() for frame in frames)


def _expect_small_session(connection) -> None:
    assert [connection.next(1).name for _ in range(2)] == ["channel.open-ok", "queue.declare-ok"]
    message = connection.next(1)
    assert (message.name, message.body, message.properties["message_id"]) == ("basic.get-ok", b"abcdef", "m")


def test_frames_may_come_byte_by_byte(connection, name):
    for octet in _small_session(name()):
        connection.write(bytes([octet]))
    _expect_small_session(connection)


def test_frames_may_be_cut_in_two_anywhere(connection):
    for cut in range(1, len(_small_session(uuid.uuid4().hex))):
        session = _small_session(uuid.uuid4().hex)
        connection.write(session[:cut])
        connection.write(session[cut:])
        _expect_small_session(connection)
        connection.send(1, "channel.close")
        assert connection.next(1).name == "channel.close-ok"


def test_many_frames_may_come_in_one_write(connection, channel):
    queue = channel.exclusive_queue()
    content = Frame(METHOD, 1, encode_method("basic.publish", routing_key=queue)).encode()
    content += Frame(HEADER, 1, encode_header(1)).encode() + Frame(BODY, 1, b"x").encode()
    connection.write(content * 1000 + Frame(METHOD, 1, encode_method("channel.flow", active=True)).encode())
    channel.expect("channel.flow-ok")
    channel.expect_depth(queue, 1000)


def test_half_a_frame_holds_nothing_back_that_came_before_it(connection, channel):
    flow = Frame(METHOD, 1, encode_method("channel.flow", active=True)).encode()
    connection.write(flow + flow[:-1])
    channel.expect("channel.flow-ok")
    connection.write(flow[-1:])
    channel.expect("channel.flow-ok")


# --- methods that do not fit their payload


@pytest.mark.parametrize(
    "method, payload",
    [
        ("queue.declare", b"\x00\x32\x00\x0a\x00\x00"),
        ("queue.declare", b"\x00\x32\x00\x0a\x00\x00\x05ab"),
        ("basic.qos", b"\x00\x3c\x00\x0a"),
        ("basic.ack", b"\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01"),
    ],
    ids=["declare without a name", "name longer than the payload", "nothing", "bit missing"],
)
def test_a_method_that_is_too_short_cannot_be_decoded(connection, channel, method, payload):
    channel.send_frame(METHOD, payload)
    # Names the arguments, or where they are printable, their text.
    connection.expect_close(501, re.compile(r"FRAME_ERROR - cannot decode <<.*>>", re.S), method)


def test_a_method_with_trailing_bytes_cannot_be_decoded(connection, channel):
    channel.send_frame(METHOD, encode_method("channel.flow", active=True) + b"\x00\x01")
    connection.expect_close(501, "FRAME_ERROR - cannot decode <<1,0,1>>", "channel.flow")


@pytest.mark.parametrize(
    "payload",
    [b"\x00\x3c\x00\x05", b"\x00\x3d\x00\x0a", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00"],
    ids=["unknown method", "unknown class", "ones", "zeros"],
)
def test_an_unknown_method_ends_the_connection(connection, channel, payload):
    channel.send_frame(METHOD, payload)
    connection.expect_outcome(Dropped(), better=[Close(503), Close(540)])


def test_an_unknown_method_on_channel_0_ends_the_connection(connection):
    connection.send_frame(METHOD, 0, b"\x00\x0a\x00\x63")
    connection.expect_outcome(Dropped(), better=[Close(503), Close(504), Close(540)])


@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x3c\x00"], ids=["empty", "1 byte", "3 bytes"])
def test_a_payload_without_method_ids_ends_the_connection(connection, channel, payload):
    channel.send_frame(METHOD, payload)
    connection.expect_outcome(Dropped(), better=[Close(501), Close(502), Close(503), Close(541)])


# --- strings and tables


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("queue.declare", {"queue": b"\xff\xfe"}),
        ("queue.bind", {"queue": "q", "exchange": "x", "routing_key": b"\xc3"}),
        ("exchange.declare", {"exchange": b"\xff"}),
        ("basic.consume", {"queue": "q", "consumer_tag": b"\x80"}),
    ],
    ids=["queue", "binding key", "exchange", "consumer tag"],
)
def test_short_strings_of_methods_must_be_utf_8(connection, channel, method, arguments):
    channel.send(method, **arguments)
    connection.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", (0, 0))


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("connection.close", {"reply_text": b"\xff"}),
        ("connection.update-secret", {"reason": b"\xff"}),
        ("queue.declare", {"queue": b"\xff"}),
    ],
    ids=["close", "update-secret", "a method that does not belong there"],
)
def test_a_malformed_string_on_channel_0_names_its_method(connection, method, arguments):
    connection.send(0, method, **arguments)
    connection.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", method)


def test_a_malformed_string_on_a_channel_that_is_not_open_names_none(connection):
    connection.send(9, "queue.declare", queue=b"\xff")
    connection.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", (0, 0))


def test_short_strings_of_methods_may_have_a_nul(channel, name):
    queue = name("\0end")
    assert channel.declare_queue(queue, exclusive=True).queue == queue
    channel.publish("", queue, "body")
    assert channel.get(queue).body == b"body"


def test_the_exchange_of_a_publish_need_not_be_utf_8(channel):
    channel.publish(b"\xff\xfe", "k", "body")
    closed = channel.expect("channel.close")
    # What cannot be shown as text is not shown, but it is a missing exchange.
    assert (closed.reply_code, closed.class_id, closed.method_id) == (404, 60, 40)


def test_the_routing_key_of_a_publish_need_not_be_utf_8(channel):
    channel.publish("", b"\xff\xfe", "body", mandatory=True)
    returned = channel.expect("basic.return")
    assert (returned.reply_code, returned.routing_key.encode("utf-8", "surrogateescape")) == (312, b"\xff\xfe")


@pytest.mark.parametrize("letter", ["U", "N", "C", "Z", "\x00"])
def test_an_unknown_letter_in_message_headers_ends_the_connection(connection, channel, letter):
    channel.publish("", "nowhere", "body", {"headers": {"odd": Value(letter, b"\x00\x00\x00\x00")}})
    better = [Close(501), Close(502)]
    connection.expect_outcome(Close(541, re.compile("INTERNAL_ERROR.*", re.S)), better=better)


def test_an_unknown_letter_in_arguments_ends_the_connection(connection, channel):
    channel.send("queue.declare", queue="", exclusive=True, arguments={"odd": Value("Z", b"\x00")})
    connection.expect_outcome(Dropped(), better=[Close(501), Close(502)])


# --- content headers


@pytest.mark.parametrize(
    "properties",
    [
        b"\x80\x00",
        b"\x80\x00\x05ab",
        b"\x20\x00\x00\x00\x00\x09\x01aI",
        b"\x00\x40\x00\x00",
    ],
    ids=["no content-type", "content-type cut", "headers cut", "timestamp cut"],
)
def test_flags_that_promise_missing_bytes_end_the_connection(connection, channel, properties):
    channel.publish("", "nowhere", "", properties)
    connection.expect_outcome(Close(541, re.compile("INTERNAL_ERROR.*", re.S)), better=[Close(501)])


def test_bytes_behind_the_properties_end_the_connection(connection, channel):
    channel.publish("", "nowhere", "", encode_properties({"message_id": "m"}) + b"\x00")
    connection.expect_outcome(Close(541, re.compile("INTERNAL_ERROR.*", re.S)), better=[Close(501)])


def test_a_body_size_above_the_absolute_maximum_is_refused_at_the_header(connection, channel):
    channel.send("basic.publish", routing_key="nowhere")
    channel.send_frame(HEADER, encode_header(536870913))
    text = "FRAME_ERROR - content body size 536870913 exceeds maximum allowed size 536870912"
    connection.expect_close(501, text, None)
