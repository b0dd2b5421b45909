"""Message priorities of classic and quorum queues."""

import pytest

pytestmark = pytest.mark.queues


def _queue(channel, name, kind="classic", **arguments) -> str:
    queue = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, durable=True, arguments=named | {"x-queue-type": kind})
    return queue


def _publish(channel, queue, *messages) -> None:
    """Pairs of body and priority; priority `None` means absent."""
    publisher = channel.connection.channel()
    publisher.select_confirms()
    with channel.connection.in_one_write():
        for body, priority in messages:
            publisher.publish("", queue, body, {} if priority is None else {"priority": priority})
    publisher.confirms(1, len(messages))
    publisher.close()


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_higher_priorities_come_first_and_equal_ones_in_order(channel, name, kind):
    queue = _queue(channel, name, kind, **({"x_max_priority": 10} if kind == "classic" else {}))
    _publish(channel, queue, ("a1", 1), ("b1", 5), ("a2", 1), ("c1", 9), ("b2", 5), ("a3", 1))
    channel.consume(queue, no_ack=True)
    assert channel.bodies(6) == ["c1", "b1", "b2", "a1", "a2", "a3"]


def test_an_absent_priority_is_the_lowest_on_classic_queues(channel, name):
    queue = _queue(channel, name, x_max_priority=10)
    _publish(channel, queue, ("absent", None), ("zero", 0), ("one", 1))
    assert channel.drain(queue) == ["one", "absent", "zero"]


def test_an_absent_priority_is_4_on_quorum_queues(channel, name):
    queue = _queue(channel, name, "quorum")
    _publish(channel, queue, ("three", 3), ("absent", None), ("four", 4), ("five", 5))
    channel.consume(queue, no_ack=True)
    assert channel.bodies(4) == ["five", "absent", "four", "three"]


@pytest.mark.parametrize("kind, highest", [("classic", 5), ("quorum", 31)])
def test_larger_priorities_count_as_the_highest(channel, name, kind, highest):
    queue = _queue(channel, name, kind, **({"x_max_priority": highest} if kind == "classic" else {}))
    _publish(channel, queue, ("low", highest - 1), ("one", 255), ("two", highest), ("three", 100))
    channel.consume(queue, no_ack=True)
    deliveries = channel.deliveries(4)
    assert [delivery.body for delivery in deliveries] == [b"one", b"two", b"three", b"low"]
    # What was published is delivered.
    assert [delivery.properties["priority"] for delivery in deliveries] == [255, highest, 100, highest - 1]


def test_a_classic_queue_without_the_argument_ignores_priorities(channel, name):
    queue = _queue(channel, name)
    _publish(channel, queue, ("one", 1), ("nine", 9), ("none", None))
    assert channel.drain(queue) == ["one", "nine", "none"]


def test_max_priority_0_ignores_priorities(channel, name):
    queue = _queue(channel, name, x_max_priority=0)
    _publish(channel, queue, ("one", 1), ("nine", 9), ("none", None))
    assert channel.drain(queue) == ["one", "nine", "none"]


def test_255_levels_work(channel, name):
    queue = _queue(channel, name, x_max_priority=255)
    _publish(channel, queue, *((str(level), level) for level in range(256)))
    assert channel.drain(queue) == [str(level) for level in range(255, -1, -1)]


def test_returned_messages_keep_their_priority_on_classic_queues(channel, name):
    queue = _queue(channel, name, x_max_priority=10)
    _publish(channel, queue, ("high", 9), ("low", 1))
    assert channel.get(queue).body == b"high"
    assert channel.get(queue).body == b"low"
    _publish(channel, queue, ("middle", 5))
    channel.nack(2)
    channel.nack(1)
    assert channel.drain(queue) == ["high", "middle", "low"]


def test_returned_messages_come_first_on_quorum_queues(channel, name):
    queue = _queue(channel, name, "quorum")
    _publish(channel, queue, ("high", 9), ("low", 1))
    channel.prefetch(2)
    channel.consume(queue, "t")
    assert channel.bodies(2) == ["high", "low"]
    channel.call("basic.cancel", consumer_tag="t")
    _publish(channel, queue, ("higher", 20))
    channel.nack(2)
    channel.nack(1)
    channel.expect_depth(queue, 3)
    channel.consume(queue, no_ack=True)
    assert [delivery.body for delivery in channel.deliveries(3)] == [b"low", b"high", b"higher"]


def test_prefetched_messages_are_not_reordered(channel, name):
    queue = _queue(channel, name, x_max_priority=10)
    channel.prefetch(1)
    channel.consume(queue)
    _publish(channel, queue, ("low", 1), ("high", 9))
    assert channel.bodies(1) == ["low"]
    channel.expect_nothing(queue)
    channel.ack(1)
    assert channel.bodies(1) == ["high"]


def test_a_dead_lettered_message_keeps_its_priority(channel, name):
    target = _queue(channel, name, x_max_priority=10)
    sick = _queue(channel, name, x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    _publish(channel, target, ("already there", 5))
    _publish(channel, sick, ("late but important", 9))
    channel.reject(channel.get(sick).delivery_tag, requeue=False)
    channel.expect_depth(target, 2)
    assert channel.drain(target) == ["late but important", "already there"]


def test_counts_cover_all_priorities(channel, name):
    queue = _queue(channel, name, x_max_priority=10)
    _publish(channel, queue, ("a", 1), ("b", 5), ("c", 9))
    assert channel.depth(queue) == 3
    assert channel.get(queue).message_count == 2
    assert channel.call("queue.purge", queue=queue).message_count == 2


def test_a_maximum_of_0_has_two_levels(channel, name):
    queue = _queue(channel, name, x_max_priority=0)
    _publish(channel, queue, ("absent", None), ("zero", 0), ("one", 1), ("nine", 9))
    assert channel.drain(queue) == ["one", "nine", "absent", "zero"]


@pytest.mark.parametrize("how", ["nack", "recover"])
def test_what_comes_back_together_is_handed_out_by_priority(channel, name, how):
    queue = _queue(channel, name, x_max_priority=10)
    channel.prefetch(3)
    channel.consume(queue)
    for body, priority in (("low", 1), ("middle", 5), ("high", 9)):
        _publish(channel, queue, (body, priority))
    assert channel.bodies(3) == ["low", "middle", "high"]
    if how == "nack":
        channel.nack(3, multiple=True)
    else:
        channel.call("basic.recover", requeue=True)
    assert channel.bodies(3) == ["high", "middle", "low"]
