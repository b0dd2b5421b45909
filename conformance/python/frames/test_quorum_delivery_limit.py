"""Counting deliveries of quorum queues, and the limit to them; the ack timeout."""

import re

import pytest

from .client import Close
from .wire import Value

pytestmark = [pytest.mark.quorum, pytest.mark.dead_lettering]


def _queue(channel, name, **arguments) -> str:
    queue = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, durable=True, arguments=named | {"x-queue-type": "quorum"})
    return queue


def _counts(message) -> dict[str, Value]:
    """The counters among the headers, each with its letter."""
    headers = message.properties.get("headers", [])
    return {key: value for key, value in headers if key in ("x-acquired-count", "x-delivery-count")}


def test_a_first_delivery_has_no_counts(channel, name):
    queue = _queue(channel, name)
    channel.publish("", queue, "body")
    assert _counts(channel.await_message(queue)) == {}


@pytest.mark.parametrize(
    "end, counts",
    [
        ("nack", {"x-acquired-count": 2}),
        ("recover", {"x-acquired-count": 2}),
        ("reject", {"x-acquired-count": 2, "x-delivery-count": 2}),
        ("channel closed", {"x-acquired-count": 2, "x-delivery-count": 2}),
        ("connection lost", {"x-acquired-count": 2, "x-delivery-count": 2}),
    ],
)
def test_each_way_back_counts_in_its_way(connect, channel, name, end, counts):
    queue = _queue(channel, name)
    channel.publish("", queue, "body")
    for _ in range(2):
        connection = connect()
        holder = connection.channel()
        tag = holder.await_message(queue, no_ack=False).delivery_tag
        if end == "nack":
            holder.nack(tag)
        elif end == "recover":
            holder.call("basic.recover", requeue=True)
        elif end == "reject":
            holder.reject(tag)
        elif end == "channel closed":
            holder.close()
        else:
            connection.abort()
    message = channel.await_message(queue)
    assert message.redelivered
    assert _counts(message) == {key: Value("l", count) for key, count in counts.items()}


def test_classic_queues_count_nothing(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag)
    assert _counts(channel.get(queue)) == {}


def test_own_headers_stay_beside_the_counts(channel, name):
    queue = _queue(channel, name)
    channel.publish("", queue, "body", {"headers": {"mine": 1}})
    channel.reject(channel.await_message(queue, no_ack=False).delivery_tag)
    headers = channel.await_message(queue).headers.plain()
    assert headers == {"mine": 1, "x-acquired-count": 1, "x-delivery-count": 1}


def _reject_until_dead(channel, queue, dead) -> int:
    """Rejects again and again; returns the number of deliveries until the message is dead."""
    deliveries = 0
    channel.consume(queue, "t")
    channel.consume(dead, "dead", no_ack=True)
    while (delivery := channel.expect("basic.deliver")).consumer_tag == "t":
        deliveries += 1
        assert deliveries < 100
        channel.reject(delivery.delivery_tag)
    headers = delivery.headers.plain()
    assert [(death["reason"], death["count"]) for death in headers["x-death"]] == [("delivery_limit", 1)]
    return deliveries


@pytest.mark.parametrize("limit, deliveries", [(0, 1), (2, 3), (5, 6), (None, 21)], ids=str)
def test_a_message_dies_when_its_count_would_exceed_the_limit(channel, name, limit, deliveries):
    dead = channel.exclusive_queue()
    arguments = {} if limit is None else {"x_delivery_limit": limit}
    queue = _queue(channel, name, x_dead_letter_exchange="", x_dead_letter_routing_key=dead, **arguments)
    channel.publish("", queue, "body")
    assert _reject_until_dead(channel, queue, dead) == deliveries


def test_a_negative_limit_is_none(channel, name):
    queue = _queue(channel, name, x_delivery_limit=-1)
    channel.publish("", queue, "body")
    channel.consume(queue)
    for _ in range(40):
        channel.reject(channel.expect("basic.deliver").delivery_tag)
    assert channel.expect("basic.deliver").headers.plain()["x-delivery-count"] == 40


def test_nacks_do_not_kill(channel, name):
    queue = _queue(channel, name, x_delivery_limit=2)
    channel.publish("", queue, "body")
    channel.consume(queue)
    for _ in range(10):
        channel.nack(channel.expect("basic.deliver").delivery_tag)
    assert channel.bodies(1) == ["body"]


def test_without_a_dead_letter_exchange_the_message_is_dropped(channel, name):
    queue = _queue(channel, name, x_delivery_limit=1)
    channel.publish_all("", queue, ["dies", "lives"])
    channel.prefetch(1)
    channel.consume(queue)
    for _ in range(2):
        delivery = channel.expect("basic.deliver")
        assert delivery.body == b"dies"
        channel.reject(delivery.delivery_tag)
    assert channel.bodies(1) == ["lives"]


# --- the ack timeout


def _overdue(channel, queue) -> int:
    """Lets a consumer run into its timeout; returns the tag of its delivery."""
    channel.consume(queue, "t", arguments={"x-consumer-timeout": 1000})
    channel.publish("", queue, "body")
    tag = channel.expect("basic.deliver").delivery_tag
    cancel = channel.expect("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("t", True)
    return tag


def test_an_overdue_consumer_is_cancelled_and_its_messages_return(connection, channel, name):
    queue, other = _queue(channel, name), connection.channel()
    _overdue(channel, queue)
    again = other.await_message(queue)
    assert (again.body, again.redelivered) == (b"body", True)
    channel.publish("", queue, "for nobody")
    other.expect_depth(queue, 1)
    channel.expect_nothing()


def test_a_late_ack_is_no_error(connection, channel, name):
    queue, other = _queue(channel, name), connection.channel()
    tag = _overdue(channel, queue)
    other.await_message(queue)
    channel.ack(tag)
    channel.expect_nothing()


@pytest.mark.beyond
def test_a_late_ack_does_not_bring_the_consumer_back(connection, channel, name):
    # RabbitMQ goes on to deliver to the consumer that it has cancelled.
    queue, other = _queue(channel, name), connection.channel()
    tag = _overdue(channel, queue)
    other.await_message(queue)
    channel.ack(tag)
    channel.publish("", queue, "for nobody")
    other.expect_depth(queue, 1)
    channel.expect_nothing()


def test_an_overdue_consumer_that_cannot_be_cancelled_loses_its_channel(connect, channel, name):
    queue = _queue(channel, name, x_consumer_timeout=1000)
    consumer = connect(capabilities={}).channel()
    consumer.consume(queue)
    channel.publish("", queue, "body")
    consumer.expect("basic.deliver")
    text = re.compile(
        r"PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out\. Timeout value used: -?\d+ ms\. "
        r"This timeout value can be configured, see consumers doc guide to learn more"
    )
    consumer.expect_outcome(Close(406, text, (0, 0)))
    assert channel.await_message(queue).redelivered
