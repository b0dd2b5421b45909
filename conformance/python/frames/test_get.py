"""basic.get."""

import pytest

from .test_queue_declare import locked

pytestmark = pytest.mark.consuming


def test_get_ok_tells_what_the_publish_told_and_what_is_left(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one", "two", "three"], {"message_id": "m"})
    message = channel.get(queue)
    assert message.arguments == {
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": queue,
        "message_count": 2,
    }
    assert (message.body, message.properties) == (b"one", {"message_id": "m"})


def test_the_count_is_of_ready_messages(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one", "two", "three"])
    assert [channel.get(queue).message_count for _ in range(3)] == [2, 1, 0]


def test_an_empty_queue_is_get_empty(channel):
    channel.send("basic.get", queue=channel.exclusive_queue())
    assert channel.expect("basic.get-empty").cluster_id == ""


def test_a_queue_with_unacked_messages_only_is_get_empty(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one"])
    assert channel.get(queue)
    assert channel.get(queue) is None


def test_a_message_taken_with_ack_stays_until_acked(connection):
    channel, other = connection.channel(), connection.channel()
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one"])
    assert not channel.get(queue).redelivered
    channel.close()
    assert other.await_message(queue, no_ack=False).redelivered
    other.ack(1)
    other.close()
    other.open()
    assert other.get(queue) is None


def test_a_message_taken_without_ack_is_gone(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one"])
    assert channel.get(queue, no_ack=True).body == b"one"
    channel.close()
    channel.open()
    assert channel.get(queue) is None


def test_a_missing_queue_is_not_found(channel, name):
    queue = name()
    channel.send("basic.get", queue=queue)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "basic.get")


def test_another_connections_exclusive_queue_is_locked(connect, channel):
    queue = connect().channel().exclusive_queue()
    channel.send("basic.get", queue=queue)
    channel.expect_close(405, locked(channel, queue), "basic.get")


def test_get_works_beside_an_exclusive_consumer(connection):
    consumer, other = connection.channel(), connection.channel()
    queue = consumer.exclusive_queue()
    consumer.prefetch(1)
    consumer.consume(queue, exclusive=True)
    consumer.publish_all("", queue, ["consumed", "got"])
    assert consumer.bodies(1) == ["consumed"]
    assert other.get(queue).body == b"got"


def test_get_works_on_a_single_active_consumer_queue(channel):
    queue = channel.exclusive_queue(x_single_active_consumer=True)
    channel.publish_all("", queue, ["body"])
    assert channel.get(queue).body == b"body"


def test_get_is_refused_on_a_quorum_queue_with_a_single_active_consumer(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum", "x-single-active-consumer": True})
    channel.send("basic.get", queue=queue)
    text = (
        f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '{channel.vhost}'. "
        'basic.get operations are not supported by <<"quorum">> queues with single active consumer'
    )
    channel.expect_close(405, text if len(text) <= 255 else text[:252] + "...", "basic.get")


def test_get_is_not_implemented_on_a_stream(connection, channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "stream"})
    channel.send("basic.get", queue=queue)
    where = f"queue '{queue}' in vhost '{channel.vhost}'"
    connection.expect_close(540, f"NOT_IMPLEMENTED - basic.get not supported by stream queues {where}", "basic.get")


def test_get_takes_messages_of_a_quorum_queue(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.publish_all("", queue, ["one", "two"])
    message = channel.await_message(queue, no_ack=False)
    assert (message.body, message.redelivered, message.delivery_tag) == (b"one", False, 1)
    channel.ack(1)
    assert channel.await_message(queue).body == b"two"
    channel.eventually(lambda: channel.get(queue) is None)


def test_a_large_body_is_whole(channel):
    queue, body = channel.exclusive_queue(), bytes(range(256)) * 2000
    channel.publish("", queue, body)
    assert channel.get(queue).body == body


def _quorum(channel, name, **arguments):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum", **arguments})
    return queue


def test_whoever_holds_a_message_of_a_quorum_queue_is_counted_as_a_consumer(connection, channel, name):
    queue = _quorum(channel, name)
    channel.publish_all("", queue, ["1", "2", "3"])
    channel.expect_depth(queue, 3)
    assert channel.get(queue).delivery_tag == 1
    assert channel.get(queue).delivery_tag == 2
    channel.get(queue, no_ack=True)
    assert channel.consumers(queue) == 2
    channel.ack(1)
    channel.eventually(lambda: channel.consumers(queue) == 1)
    channel.consume(queue, "t")
    channel.publish("", queue, "4")
    channel.deliveries(1)
    assert channel.consumers(queue) == 2
    channel.call("basic.cancel", consumer_tag="t")
    assert channel.consumers(queue) == 2
    channel.ack(4)
    channel.eventually(lambda: channel.consumers(queue) == 1)
    channel.nack(2)
    channel.eventually(lambda: channel.consumers(queue) == 0)
