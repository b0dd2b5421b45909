"""x-priority on consume: lower ones get work only when all higher ones are full."""

import pytest

pytestmark = pytest.mark.consuming

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


@pytest.fixture
def make_queue(channel, name):
    def make_queue(kind: str, **arguments) -> str:
        queue = name()
        channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind} | arguments)
        return queue

    return make_queue


def _tags(deliveries) -> str:
    return "".join(delivery.consumer_tag for delivery in deliveries)


@KINDS
def test_the_highest_is_served_alone_while_it_has_room(channel, make_queue, kind):
    queue = make_queue(kind)
    for tag, priority in (("l", -1), ("h", 10), ("n", 0)):
        channel.consume(queue, tag, arguments={"x-priority": priority})
    channel.publish_all("", queue, "123")
    assert _tags(channel.deliveries(3)) == "hhh"


@KINDS
def test_the_next_lower_gets_what_the_higher_has_no_room_for(channel, make_queue, kind):
    queue = make_queue(kind)
    channel.prefetch(1)
    for tag, priority in (("l", -1), ("h", 10), ("n", 0)):
        channel.consume(queue, tag, arguments={"x-priority": priority})
    channel.publish_all("", queue, "1234")
    assert _tags(channel.deliveries(3)) == "hnl"
    channel.ack(1)
    assert _tags(channel.deliveries(1)) == "h"


def test_equal_priorities_take_turns(channel, make_queue):
    queue = make_queue("classic")
    for tag, priority in (("a", 5), ("x", 1), ("b", 5)):
        channel.consume(queue, tag, arguments={"x-priority": priority})
    channel.publish_all("", queue, "1234")
    assert _tags(channel.deliveries(4)) == "abab"


@KINDS
def test_absent_means_0(channel, make_queue, kind):
    queue = make_queue(kind)
    channel.consume(queue, "m", arguments={"x-priority": -1})
    channel.consume(queue, "d")
    channel.publish_all("", queue, "12")
    assert _tags(channel.deliveries(2)) == "dd"


@KINDS
def test_a_later_consumer_of_higher_priority_goes_first(channel, make_queue, kind):
    queue = make_queue(kind)
    channel.consume(queue, "a")
    channel.publish_all("", queue, "1")
    assert _tags(channel.deliveries(1)) == "a"
    channel.consume(queue, "h", arguments={"x-priority": 1})
    channel.publish_all("", queue, "2")
    assert _tags(channel.deliveries(1)) == "h"


@KINDS
def test_after_the_end_of_the_higher_the_lower_is_served(channel, make_queue, kind):
    queue = make_queue(kind)
    channel.consume(queue, "l")
    channel.consume(queue, "h", arguments={"x-priority": 1})
    channel.call("basic.cancel", consumer_tag="h")
    channel.publish_all("", queue, "1")
    assert _tags(channel.deliveries(1)) == "l"
