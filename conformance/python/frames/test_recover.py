"""basic.recover and basic.recover-async."""

import pytest

pytestmark = pytest.mark.settling


@pytest.fixture
def queue(channel) -> str:
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["1", "2", "3"])
    return queue


@pytest.mark.parametrize("method", ["basic.recover", "basic.recover-async"])
def test_without_requeue_it_is_not_implemented(connection, channel, method):
    channel.send(method, requeue=False)
    connection.expect_close(540, "NOT_IMPLEMENTED - requeue=false", method)


def test_recover_redelivers_with_new_tags(channel, queue):
    channel.consume(queue)
    channel.deliveries(3)
    channel.send("basic.recover", requeue=True)
    channel.expect("basic.recover-ok")
    again = channel.deliveries(3)
    assert [(delivery.body, delivery.delivery_tag, delivery.redelivered) for delivery in again] == [
        (b"1", 4, True),
        (b"2", 5, True),
        (b"3", 6, True),
    ]


def test_recover_async_redelivers_without_an_answer(channel, queue):
    channel.consume(queue)
    channel.deliveries(3)
    channel.send("basic.recover-async", requeue=True)
    assert channel.bodies(3) == ["1", "2", "3"]
    channel.expect_nothing(queue)


def test_recovered_tags_are_unknown(channel, queue):
    channel.get(queue)
    channel.call("basic.recover", requeue=True)
    channel.ack(1)
    channel.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack")


def test_recover_leaves_settled_messages_alone(channel, queue):
    channel.consume(queue)
    channel.deliveries(3)
    channel.ack(2)
    channel.call("basic.recover", requeue=True)
    assert channel.bodies(2) == ["1", "3"]
    channel.expect_nothing(queue)


def test_recover_covers_messages_taken_by_get(channel, queue):
    channel.get(queue)
    channel.get(queue)
    channel.call("basic.recover", requeue=True)
    assert channel.drain(queue) == ["1", "2", "3"]


def test_recover_leaves_other_channels_alone(connection, channel, queue):
    other = connection.channel()
    other.get(queue)
    channel.get(queue)
    channel.call("basic.recover", requeue=True)
    assert channel.drain(queue) == ["2", "3"]


def test_recover_with_nothing_unacked_is_answered(channel):
    channel.call("basic.recover", requeue=True)
    channel.expect_nothing()


def test_recovered_messages_may_go_to_another_consumer(connection, channel, queue):
    channel.consume(queue, "t")
    channel.deliveries(3)
    channel.call("basic.cancel", consumer_tag="t")
    other = connection.channel()
    other.consume(queue)
    channel.call("basic.recover", requeue=True)
    assert [(delivery.body, delivery.redelivered) for delivery in other.deliveries(3)] == [
        (b"1", True),
        (b"2", True),
        (b"3", True),
    ]
