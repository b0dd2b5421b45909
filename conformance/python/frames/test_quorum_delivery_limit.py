"""Counting deliveries of quorum queues, and the limit to them; the ack timeout."""

import re

import pytest

from .client import Close
from .wire import Value

pytestmark = [pytest.mark.quorum, pytest.mark.dead_lettering]


OVERDUE = re.compile(
    r"PRECONDITION_FAILED - delivery acknowledgement on channel \d timed out\. Timeout value used: -?\d+ ms\. "
    r"This timeout value can be configured, see consumers doc guide to learn more"
)


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


# RabbitMQ 4.3.6 on one node shows an empty queue for more than ten seconds after a kill.
@pytest.mark.beyond
def test_a_kill_does_not_begin_the_counts_anew(restartable_broker, connect, name):
    channel = connect().channel()
    queue = _queue(channel, name)
    channel.publish("", queue, "body")
    channel.nack(channel.await_message(queue, no_ack=False).delivery_tag)
    channel.reject(channel.await_message(queue, no_ack=False).delivery_tag)
    # Its confirm says that what was before it is kept too.
    channel.publish_all("", queue, ["later"], {"delivery_mode": 2})
    restartable_broker.kill()
    channel = connect().channel()
    message = channel.await_message(queue, no_ack=False)
    assert (message.body, message.redelivered) == (b"body", True)
    assert message.headers.plain() == {"x-acquired-count": 2, "x-delivery-count": 1}


@pytest.mark.beyond
@pytest.mark.parametrize("counting, deliveries", [("target", 5), ("all", 3)])
def test_a_classic_queue_that_counts_has_a_limit_too(channel, name, counting, deliveries):
    dead, queue = channel.exclusive_queue(), name()
    arguments = {
        "x-attempt-counting": counting,
        "x-delivery-limit": 2,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    channel.declare_queue(queue, durable=True, arguments=arguments)
    channel.publish("", queue, "body")
    channel.consume(queue, "t")
    channel.consume(dead, "dead", no_ack=True)
    for attempt in range(deliveries):
        delivery = channel.expect("basic.deliver")
        assert delivery.consumer_tag == "t"
        (channel.reject if attempt % 2 == 0 else channel.nack)(delivery.delivery_tag)
    delivery = channel.expect("basic.deliver")
    assert delivery.consumer_tag == "dead"
    assert delivery.headers.plain()["x-first-death-reason"] == "delivery_limit"


@pytest.mark.beyond
def test_an_unknown_counting_is_refused(channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-attempt-counting": "some"})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-attempt-counting' {where}: invalid_attempt_counting"
    channel.expect_close(406, text, "queue.declare")


# --- the ack timeout


def test_a_message_taken_by_get_is_overdue_too_and_costs_the_channel(connection, channel, name):
    queue, other = _queue(channel, name, x_consumer_timeout=1000), connection.channel()
    other.publish("", queue, "body")
    other.await_message(queue, no_ack=False)
    other.expect_outcome(Close(406, OVERDUE, (0, 0)))
    assert channel.await_message(queue).redelivered


def test_what_a_consumer_says_counts_before_what_its_queue_says(connection, channel, name):
    queue, other = _queue(channel, name, x_consumer_timeout=500), connection.channel()
    channel.consume(queue, "patient", arguments={"x-consumer-timeout": 60000})
    channel.publish("", queue, "body")
    channel.deliveries(1)
    # One of the queue's own timeout, which comes later, is overdue first.
    other.consume(queue, "hasty")
    channel.publish_all("", queue, ["1", "2"])
    assert other.answer("basic.cancel").consumer_tag == "hasty"
    channel.call("basic.cancel", consumer_tag="patient")


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


def test_a_timeout_counts_as_taken_but_not_as_delivered(connection, channel, name):
    queue, other = _queue(channel, name), connection.channel()
    _overdue(channel, queue)
    assert _counts(other.await_message(queue)) == {"x-acquired-count": Value("l", 1)}


def test_a_smaller_timeout_of_a_policy_counts_before_that_of_the_queue(connect, api, vhost):
    definition = {"pattern": "^q$", "definition": {"consumer-timeout": 1000}, "apply-to": "quorum_queues"}
    assert api.put(f"policies/{vhost}/p", definition).status == 201
    channel = connect(vhost=vhost).channel()
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": "quorum", "x-consumer-timeout": 60000})
    channel.consume("q", "t")
    channel.publish("", "q", "body")
    channel.deliveries(1)
    assert channel.expect("basic.cancel").consumer_tag == "t"


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
    consumer.expect_outcome(Close(406, OVERDUE, (0, 0)))
    assert channel.await_message(queue).redelivered
