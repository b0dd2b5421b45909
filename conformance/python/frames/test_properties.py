"""Message properties, bodies and their sizes."""

import re

import pytest

from .client import Close
from .wire import HEADER, Value, encode_header

pytestmark = pytest.mark.framing

ALL = {
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "headers": {"a": 1},
    "delivery_mode": 2,
    "priority": 9,
    "correlation_id": "correlation",
    "reply_to": "reply",
    "expiration": "100000",
    "message_id": "message",
    "timestamp": 1700000000,
    "type": "type",
    "user_id": "",
    "app_id": "app",
    "cluster_id": "cluster",
}


def _through_a_queue(channel, properties, body=b"body"):
    queue = channel.exclusive_queue()
    channel.publish("", queue, body, properties)
    return channel.await_message(queue)


def test_all_properties_come_back(channel, endpoint):
    sent = {**ALL, "user_id": endpoint.user}
    received = _through_a_queue(channel, sent).properties
    assert received == {**sent, "headers": [("a", Value("I", 1))]}


@pytest.mark.parametrize("name", ALL)
def test_each_property_comes_back_alone(channel, endpoint, name):
    value = endpoint.user if name == "user_id" else ALL[name]
    received = _through_a_queue(channel, {name: value}).properties
    assert received == {name: [("a", Value("I", 1))] if name == "headers" else value}


def test_absent_properties_stay_absent(channel):
    assert _through_a_queue(channel, {}).properties == {}


@pytest.mark.parametrize(
    "name",
    ["content_type", "content_encoding", "correlation_id", "reply_to", "message_id", "type", "app_id", "cluster_id"],
)
def test_empty_strings_stay_present(channel, name):
    assert _through_a_queue(channel, {name: ""}).properties == {name: ""}


@pytest.mark.parametrize("name", ["content_type", "correlation_id", "message_id", "type", "app_id"])
def test_strings_need_not_be_utf_8(channel, name):
    assert _through_a_queue(channel, {name: "\udcff\x00\udcfe"}).properties == {name: "\udcff\x00\udcfe"}


@pytest.mark.parametrize("name", ["correlation_id", "message_id", "reply_to"])
def test_strings_may_have_255_bytes(channel, name):
    assert _through_a_queue(channel, {name: "x" * 255}).properties == {name: "x" * 255}


@pytest.mark.parametrize("mode", [0, 1, 2, 3, 255])
def test_any_delivery_mode_comes_back(channel, mode):
    assert _through_a_queue(channel, {"delivery_mode": mode}).properties == {"delivery_mode": mode}


@pytest.mark.parametrize("priority", [0, 1, 10, 255])
def test_any_priority_comes_back(channel, priority):
    assert _through_a_queue(channel, {"priority": priority}).properties == {"priority": priority}


@pytest.mark.parametrize("timestamp", [0, 1, 2**31, 2**63, 2**64 - 1])
def test_any_timestamp_comes_back(channel, timestamp):
    assert _through_a_queue(channel, {"timestamp": timestamp}).properties == {"timestamp": timestamp}


def test_flag_bit_1_is_ignored(channel):
    assert _through_a_queue(channel, b"\x00\x02").properties == {}


def test_the_flag_for_further_flags_is_not_supported(connection, channel):
    channel.publish("", "nowhere", "body", b"\x00\x01\x00\x00")
    connection.expect_outcome(Close(541, re.compile("INTERNAL_ERROR.*", re.S)), better=[Close(501)])


@pytest.mark.parametrize("size", [0, 1, 8183, 8184, 8185, 131064, 131065, 1_000_000])
def test_bodies_of_any_size_come_back(channel, size):
    body = bytes(number % 251 for number in range(size))
    assert _through_a_queue(channel, {}, body).body == body


def test_a_body_is_split_to_the_frame_max_of_its_reader(connect, channel):
    queue, body = channel.exclusive_queue(), bytes(range(256)) * 100
    channel.bind(queue, "amq.direct", queue)
    other = connect(frame_max=8192).channel()
    other.publish("amq.direct", queue, body)
    assert channel.await_message(queue).body == body
    back = other.exclusive_queue()
    channel.publish("", back, body)
    # The client checks every body frame against its own frame_max.
    assert other.await_message(back).body == body


def test_a_body_of_the_maximum_size_is_accepted(channel):
    body = b"x" * 16777216
    assert _through_a_queue(channel, {}, body).body == body


def test_a_body_above_the_maximum_size_is_read_and_refused(channel):
    channel.publish("", "nowhere", b"x" * 16777217)
    text = "PRECONDITION_FAILED - message size 16777217 is larger than configured max size 16777216"
    channel.expect_close(406, text, "basic.publish")
    channel.open()
    channel.expect_nothing()


def test_the_announced_size_alone_refuses_nothing(connection, channel):
    channel.send("basic.publish", routing_key="nowhere")
    channel.send_frame(HEADER, encode_header(536870912))
    # Still waiting for the body.
    assert connection.is_healthy()
