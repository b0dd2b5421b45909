"""basic.cancel in both directions."""

import pytest

from .client import ConnectionClosed
from .wire import Value

pytestmark = pytest.mark.consuming


def test_cancel_ok_returns_the_tag(channel):
    channel.consume(channel.exclusive_queue(), "t")
    assert channel.call("basic.cancel", consumer_tag="t").consumer_tag == "t"


def test_a_cancelled_consumer_gets_nothing_more(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, "t")
    channel.call("basic.cancel", consumer_tag="t")
    channel.publish("", queue, "body")
    channel.expect_nothing(queue)
    assert channel.drain(queue) == ["body"]


def test_no_delivery_follows_cancel_ok(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, [str(number) for number in range(500)])
    channel.consume(queue, "t")
    channel.send("basic.cancel", consumer_tag="t")
    delivered = 0
    while (method := channel.next()).name == "basic.deliver":
        delivered += 1
    assert method.name == "basic.cancel-ok"
    channel.expect_nothing(queue)
    assert channel.depth(queue) == 500 - delivered


@pytest.mark.beyond
def test_consume_and_cancel_are_answered_in_order(channel):
    # RabbitMQ answers a consume that is cancelled at once only sometimes, and later methods before the cancel.
    queue = channel.exclusive_queue()
    for _ in range(20):
        channel.send("basic.consume", queue=queue, consumer_tag="t")
        channel.send("basic.cancel", consumer_tag="t")
        channel.send("channel.flow", active=True)
        for answer in ("basic.consume-ok", "basic.cancel-ok", "channel.flow-ok"):
            channel.expect(answer)


@pytest.mark.parametrize("tag", ["there-is-no-such-tag", ""])
def test_cancelling_an_unknown_tag_is_answered(channel, tag):
    assert channel.call("basic.cancel", consumer_tag=tag).consumer_tag == tag


def test_cancelling_twice_is_answered_twice(channel):
    channel.consume(channel.exclusive_queue(), "t")
    for _ in range(2):
        channel.call("basic.cancel", consumer_tag="t")


def test_a_tag_of_another_channel_is_answered_and_left_alone(connection):
    owner, other = connection.channel(), connection.channel()
    queue = owner.exclusive_queue()
    owner.consume(queue, "t")
    other.call("basic.cancel", consumer_tag="t")
    owner.publish("", queue, "body")
    assert owner.bodies(1) == ["body"]


def test_cancel_without_answer_cancels(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, "t")
    channel.send("basic.cancel", consumer_tag="t", nowait=True)
    channel.publish("", queue, "body")
    channel.expect_nothing(queue)
    assert channel.consumers(queue) == 0


def test_other_consumers_go_on(channel):
    queue = channel.exclusive_queue()
    for tag in ("a", "b"):
        channel.consume(queue, tag)
    channel.call("basic.cancel", consumer_tag="a")
    channel.publish_all("", queue, ["one", "two"])
    assert [delivery.consumer_tag for delivery in channel.deliveries(2)] == ["b", "b"]


# --- by the broker


def test_the_broker_cancels_every_consumer_of_a_deleted_queue(connection):
    channel, other = connection.channel(), connection.channel()
    queue = channel.exclusive_queue()
    tags = {f"t{number}" for number in range(5)}
    for tag in tags:
        channel.consume(queue, tag)
    other.call("queue.delete", queue=queue)
    cancels = [channel.expect("basic.cancel") for _ in tags]
    assert {cancel.consumer_tag for cancel in cancels} == tags
    assert {cancel.nowait for cancel in cancels} == {True}


def test_the_channel_goes_on_after_the_brokers_cancel(channel):
    gone, kept = channel.exclusive_queue(), channel.exclusive_queue()
    channel.consume(gone, "gone")
    channel.consume(kept, "kept")
    channel.call("queue.delete", queue=gone)
    channel.expect("basic.cancel")
    channel.publish("", kept, "body")
    assert channel.bodies(1) == ["body"]


def test_unacked_messages_stay_ackable_after_the_brokers_cancel(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one", "two"])
    channel.consume(queue)
    channel.deliveries(2)
    channel.call("queue.delete", queue=queue)
    channel.expect("basic.cancel")
    channel.ack(1)
    channel.nack(2)
    channel.expect_nothing()


@pytest.mark.parametrize(
    "value, told",
    [(Value("t", True), True), (Value("t", False), False), ("true", False), (1, False), (None, False)],
    ids=["true", "false", "string", "number", "void"],
)
def test_only_a_true_capability_counts(connect, channel, name, value, told):
    consumer, queue = connect(capabilities={"consumer_cancel_notify": value}).channel(), name()
    channel.declare_queue(queue, durable=True)
    consumer.consume(queue, "t")
    channel.call("queue.delete", queue=queue)
    if told:
        assert consumer.expect("basic.cancel").consumer_tag == "t"
    consumer.expect_nothing()


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_broker_cancels_consumers_of_other_queue_types(channel, name, kind):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.prefetch(1)
    channel.consume(queue, "t")
    channel.call("queue.delete", queue=queue)
    cancel = channel.expect("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("t", True)


def test_a_client_may_answer_the_brokers_cancel_or_that_is_fatal(connection, channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, "t")
    channel.call("queue.delete", queue=queue)
    channel.expect("basic.cancel")
    channel.send("basic.cancel-ok", consumer_tag="t")
    try:
        channel.expect_nothing()
    except ConnectionClosed as fatal:
        # RabbitMQ falls over it.
        assert fatal.close.code == 541
