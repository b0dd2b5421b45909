"""Quorum queues that hold messages back which came back, in RabbitMQ's own words."""

import time

import pytest

pytestmark = [pytest.mark.settling]


def _queue(channel, name, on, least_millis, most_millis) -> str:
    queue = name()
    arguments = {
        "x-queue-type": "quorum",
        "x-delayed-retry-type": on,
        "x-delayed-retry-min": least_millis,
        "x-delayed-retry-max": most_millis,
    }
    channel.declare_queue(queue, durable=True, arguments=arguments)
    return queue


def test_waits_grow_with_failures_up_to_the_longest(channel, name):
    queue = _queue(channel, name, "failed", 300, 500)
    channel.publish("", queue, "m")
    tag = channel.await_message(queue, no_ack=False).delivery_tag
    for least in (0.3, 0.5, 0.5):
        began = time.monotonic()
        channel.reject(tag)
        message = channel.await_message(queue, no_ack=False)
        # The broker's clock may be some milliseconds off.
        assert message.redelivered and time.monotonic() - began >= least - 0.02
        tag = message.delivery_tag
    assert message.headers.plain()["x-delivery-count"] == 3


def test_only_failures_wait_where_failures_are_named(channel, name):
    queue = _queue(channel, name, "failed", 60000, 60000)
    channel.publish("", queue, "m")
    channel.nack(channel.await_message(queue, no_ack=False).delivery_tag)
    channel.reject(channel.await_message(queue, no_ack=False).delivery_tag)
    channel.expect_depth(queue, 0)


def test_what_has_waited_stands_in_front_in_the_order_of_its_time(channel, name):
    queue = _queue(channel, name, "all", 400, 1000)
    channel.publish_all("", queue, ["one", "two", "three"])
    one, two = channel.get(queue), channel.get(queue)
    channel.nack(two.delivery_tag)
    # So that the other one's time comes later.
    time.sleep(0.05)
    channel.nack(one.delivery_tag)
    channel.expect_depth(queue, 3)
    assert [channel.get(queue, no_ack=True).body for _ in range(3)] == [b"two", b"one", b"three"]
