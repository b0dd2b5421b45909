"""Methods on channel 0 while the connection is running, and how connections end."""

import re

import pytest

from .client import SILENT_DROP, Close
from .wire import BODY, HEADER, METHOD, METHODS, Frame, encode_header

pytestmark = pytest.mark.connection

UNEXPECTED = "CHANNEL_ERROR - unexpected method in connection state running"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"

SERVED_ON_CHANNEL_0 = {"connection.close", "connection.update-secret"}


# --- what does not belong on channel 0


@pytest.mark.parametrize("method", sorted(METHODS.keys() - SERVED_ON_CHANNEL_0))
def test_any_other_method_on_channel_0_is_a_state_violation(connection, method):
    connection.send(0, method)
    connection.expect_close(504, UNEXPECTED, method)


def test_a_content_header_on_channel_0_is_an_unexpected_frame(connection):
    connection.send_frame(HEADER, 0, encode_header(0))
    octets = "0,60,0,0,0,0,0,0,0,0,0,0,0,0"
    connection.expect_close(505, f"UNEXPECTED_FRAME - type 2, all octets = <<{octets}>>", (0, 0))


def test_a_body_on_channel_0_is_an_unexpected_frame(connection):
    connection.send_frame(BODY, 0, b"x")
    connection.expect_close(505, 'UNEXPECTED_FRAME - type 3, all octets = <<"x">>', (0, 0))


@pytest.mark.parametrize("method", sorted(name for name in METHODS if name.startswith("connection.")))
def test_a_connection_method_belongs_on_channel_0(connection, channel, method):
    channel.send(method)
    connection.expect_close(503, UNIMPLEMENTED, method)


# --- update-secret


def test_update_secret_is_answered(connection):
    connection.send(0, "connection.update-secret", new_secret="another", reason="because")
    connection.expect("connection.update-secret-ok")
    assert connection.is_healthy()


# --- closing by the client


@pytest.mark.parametrize("code, text", [(200, "Goodbye"), (0, ""), (541, "INTERNAL_ERROR"), (65535, "x" * 255)])
def test_a_close_is_answered_whatever_its_code_and_text(connection, code, text):
    connection.send(0, "connection.close", reply_code=code, reply_text=text, class_id=9, method_id=9)
    connection.expect("connection.close-ok")


def test_after_close_ok_the_broker_leaves_the_end_of_the_socket_to_the_client(connection):
    connection.send(0, "connection.close")
    connection.expect("connection.close-ok")
    # Answered again, so the socket is still open and read.
    connection.send(0, "connection.close")
    connection.expect("connection.close-ok")


def test_what_follows_the_clients_close_is_not_served(connect, name):
    connection, queue = connect(), name()
    channel = connection.channel()
    connection.send(0, "connection.close")
    channel.send("queue.declare", queue=queue, durable=True)
    connection.expect("connection.close-ok")
    connection.hang_up()
    other = connect().channel()
    other.send("queue.declare", queue=queue, passive=True)
    other.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{other.vhost}'", "queue.declare")


def test_what_came_before_the_clients_close_is_served(connect, name):
    connection, queue = connect(), name()
    channel = connection.channel()
    channel.declare_queue(queue, durable=True)
    for body in ("one", "two", "three"):
        channel.publish("", queue, body)
    connection.close()
    other = connect().channel()
    other.expect_depth(queue, 3)
    assert other.drain(queue) == ["one", "two", "three"]


def test_an_exclusive_queue_goes_with_its_connection(connect, name):
    closed, queue = connect(), name()
    closed.channel().declare_queue(queue, exclusive=True)
    closed.close()
    channel = connect().channel()
    channel.eventually(lambda: not channel.queue_exists(queue))


@pytest.mark.beyond
def test_an_exclusive_queue_is_gone_once_close_ok_is_read(connect, name):
    # RabbitMQ is sometimes a moment late.
    queue = name()
    for _ in range(50):
        connection = connect()
        connection.channel().declare_queue(queue, exclusive=True)
        connection.close()


def test_an_exclusive_queue_goes_with_a_lost_socket(connect, name):
    lost, queue = connect(), name()
    lost.channel().declare_queue(queue, exclusive=True)
    lost.abort()
    channel = connect().channel()
    channel.eventually(lambda: not channel.queue_exists(queue))


def test_unacked_messages_of_a_lost_socket_come_back_redelivered(connect, name):
    lost, queue = connect(), name()
    holder = lost.channel()
    holder.declare_queue(queue, durable=True)
    holder.publish_all("", queue, ["one", "two"])
    holder.consume(queue)
    assert holder.bodies(2) == ["one", "two"]
    lost.abort()
    channel = connect().channel()
    messages = [channel.await_message(queue) for _ in range(2)]
    assert [(message.body, message.redelivered) for message in messages] == [(b"one", True), (b"two", True)]


# --- closing by the broker


def test_after_the_brokers_close_ok_the_socket_ends(connection):
    connection.send(0, "channel.open")
    connection.expect_close(504, UNEXPECTED, "channel.open")
    connection.expect_end(timeout=2)


def test_nothing_but_close_is_served_after_the_brokers_close(connect, name):
    connection, queue = connect(), name()
    channel = connection.channel()
    connection.send(0, "channel.open")
    channel.send("queue.declare", queue=queue, durable=True)
    connection.send_frame(METHOD, 5, b"\x00\x14\x00\x0a\x00")
    connection.expect_close(504, UNEXPECTED, "channel.open")
    connection.expect_end()
    other = connect().channel()
    other.send("queue.declare", queue=queue, passive=True)
    other.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{other.vhost}'", "queue.declare")


def test_crossing_closes_are_both_answered(connection):
    connection.send(0, "channel.open")
    connection.send(0, "connection.close")
    assert connection.expect("connection.close").reply_code == 504
    connection.expect("connection.close-ok")


def test_an_exclusive_queue_goes_when_the_broker_closes_the_connection(connect, name):
    connection, queue = connect(), name()
    connection.channel().declare_queue(queue, exclusive=True)
    connection.send(0, "channel.open")
    connection.expect_close(504, UNEXPECTED, "channel.open")
    channel = connect().channel()
    channel.eventually(lambda: not channel.queue_exists(queue))


def test_a_soft_error_on_channel_0_does_not_exist_so_other_connections_go_on(connect):
    healthy, broken = connect(), connect()
    broken.send(0, "queue.declare")
    broken.expect_close(504, UNEXPECTED, "queue.declare")
    assert healthy.is_healthy()


@pytest.mark.slow
def test_after_a_framing_fault_nothing_more_is_read_and_the_socket_ends(connection):
    connection.write(Frame(METHOD, 0, b"\x00\x0a\x00\x32").encode(end=0))
    connection.expect_outcome(
        Close(
            501,
            re.compile(r"FRAME_ERROR - type 1, all octets = <<0,10,0,50>>: \{invalid_frame_end_marker,\s*0\}", re.S),
            (0, 0),
        )
    )
    connection.expect_end(timeout=SILENT_DROP)
