"""x-single-active-consumer: one consumer is served, the next takes over."""

import pytest

pytestmark = pytest.mark.consuming

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


@pytest.fixture
def make_queue(channel, name):
    def make_queue(kind: str) -> str:
        queue = name()
        arguments = {"x-queue-type": kind, "x-single-active-consumer": True}
        channel.declare_queue(queue, durable=True, arguments=arguments)
        return queue

    return make_queue


def _tags(deliveries) -> list[str]:
    return [delivery.consumer_tag for delivery in deliveries]


@KINDS
def test_only_the_first_consumer_is_served(channel, make_queue, kind):
    queue = make_queue(kind)
    for tag in ("first", "second", "third"):
        channel.consume(queue, tag)
    channel.publish_all("", queue, ["1", "2", "3"])
    assert _tags(channel.deliveries(3)) == ["first"] * 3
    channel.expect_nothing(queue)


def test_all_consumers_are_counted(channel, make_queue):
    queue = make_queue("classic")
    for _ in range(3):
        channel.consume(queue)
    assert channel.consumers(queue) == 3


def test_a_quorum_queue_does_not_count_those_that_wait(channel, make_queue):
    queue = make_queue("quorum")
    for tag in ("a", "b", "c"):
        channel.consume(queue, tag)
    assert channel.consumers(queue) == 1
    channel.publish("", queue, "1")
    channel.deliveries(1)
    channel.call("basic.cancel", consumer_tag="a")
    channel.eventually(lambda: channel.consumers(queue) == 2)
    channel.ack(1)
    channel.eventually(lambda: channel.consumers(queue) == 1)


@KINDS
def test_the_next_takes_over_after_a_cancel(channel, make_queue, kind):
    queue = make_queue(kind)
    for tag in ("first", "second", "third"):
        channel.consume(queue, tag, no_ack=True)
    channel.call("basic.cancel", consumer_tag="first")
    channel.publish_all("", queue, ["1"])
    assert _tags(channel.deliveries(1)) == ["second"]
    channel.call("basic.cancel", consumer_tag="second")
    channel.publish_all("", queue, ["2"])
    assert _tags(channel.deliveries(1)) == ["third"]


@KINDS
def test_the_next_takes_over_with_the_unacked_messages_of_a_closed_channel(connection, channel, make_queue, kind):
    queue, first = make_queue(kind), connection.channel()
    first.consume(queue, "first")
    channel.consume(queue, "second")
    channel.publish_all("", queue, ["1", "2", "3"])
    first.deliveries(3)
    first.ack(1)
    first.close()
    deliveries = channel.deliveries(2)
    assert [(delivery.body, delivery.redelivered) for delivery in deliveries] == [(b"2", True), (b"3", True)]


@KINDS
def test_the_next_takes_over_from_a_lost_connection(connect, channel, make_queue, kind):
    queue, lost = make_queue(kind), connect()
    first = lost.channel()
    first.consume(queue, "first")
    channel.consume(queue, "second")
    channel.publish_all("", queue, ["1", "2"])
    first.deliveries(2)
    lost.abort()
    assert [delivery.body for delivery in channel.deliveries(2)] == [b"1", b"2"]


@KINDS
def test_a_full_active_consumer_leaves_the_others_idle(channel, make_queue, kind):
    queue = make_queue(kind)
    channel.prefetch(1)
    for tag in ("first", "second"):
        channel.consume(queue, tag)
    channel.publish_all("", queue, ["1", "2"])
    assert _tags(channel.deliveries(1)) == ["first"]
    channel.expect_depth(queue, 1)
    channel.expect_nothing(queue)
    channel.ack(1)
    assert _tags(channel.deliveries(1)) == ["first"]


def test_a_waiting_consumer_may_be_cancelled(channel, make_queue):
    queue = make_queue("classic")
    for tag in ("first", "second", "third"):
        channel.consume(queue, tag, no_ack=True)
    channel.call("basic.cancel", consumer_tag="second")
    channel.call("basic.cancel", consumer_tag="first")
    channel.publish("", queue, "body")
    assert _tags(channel.deliveries(1)) == ["third"]


def test_deleting_the_queue_cancels_active_and_waiting_consumers(channel, make_queue):
    queue = make_queue("classic")
    for tag in ("first", "second"):
        channel.consume(queue, tag)
    channel.call("queue.delete", queue=queue)
    assert {channel.expect("basic.cancel").consumer_tag for _ in range(2)} == {"first", "second"}


def test_without_the_argument_all_are_served(channel):
    queue = channel.exclusive_queue(x_single_active_consumer=False)
    for tag in ("first", "second"):
        channel.consume(queue, tag)
    channel.publish_all("", queue, ["1", "2"])
    assert sorted(_tags(channel.deliveries(2))) == ["first", "second"]


def test_a_quorum_queue_serves_a_higher_priority_once_the_active_one_is_done(connection, channel, make_queue):
    queue, important = make_queue("quorum"), connection.channel()
    channel.prefetch(2)
    channel.consume(queue, "first")
    channel.publish_all("", queue, ["1", "2", "3"])
    channel.deliveries(2)
    important.consume(queue, "important", arguments={"x-priority": 5})
    channel.ack(1)
    channel.expect_nothing(queue)
    important.expect_nothing(queue)
    channel.ack(2)
    assert _tags(important.deliveries(1)) == ["important"]


def test_whoever_was_to_give_way_gets_nothing_until_all_is_settled_also_if_the_other_is_gone(channel, make_queue):
    queue = make_queue("quorum")
    channel.consume(queue, "first")
    channel.publish_all("", queue, ["1", "2"])
    channel.deliveries(2)
    channel.consume(queue, "important", arguments={"x-priority": 5})
    channel.call("basic.cancel", consumer_tag="important")
    channel.publish("", queue, "3")
    channel.ack(1)
    channel.expect_nothing(queue)
    channel.ack(2)
    assert channel.bodies(1) == ["3"]


def test_an_idle_active_consumer_of_a_quorum_queue_gives_way_at_once(channel, make_queue):
    queue = make_queue("quorum")
    channel.consume(queue, "first")
    channel.consume(queue, "important", arguments={"x-priority": 5})
    channel.publish_all("", queue, ["1"])
    assert _tags(channel.deliveries(1)) == ["important"]


def test_a_classic_queue_stays_with_its_active_consumer(channel, make_queue):
    queue = make_queue("classic")
    channel.consume(queue, "first")
    channel.consume(queue, "important", arguments={"x-priority": 5})
    channel.publish_all("", queue, ["1"])
    assert _tags(channel.deliveries(1)) == ["first"]
