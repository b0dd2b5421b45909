"""basic.qos(global=true): one limit shared by the consumers of a channel.

RabbitMQ 4.3 does this only where its deprecated feature `global_qos` is permitted, so these tests run on a node with

    deprecated_features.permit.global_qos = true

(`LEVERET_ORACLE_CONF` of conformance/oracle) and are beyond one without.
"""

from collections.abc import Callable

import pytest

from .client import Channel, Connection

pytestmark = pytest.mark.consuming


def shares(connect: Callable[..., Connection]) -> bool:
    connection = connect()
    channel = connection.channel()
    queue = filled(channel)
    channel.prefetch(1, shared=True)
    for _ in range(2):
        channel.consume(queue)
    # Whatever was delivered before the answer is left unread.
    depth = channel.depth(queue)
    connection.close()
    return depth == 9


@pytest.fixture(autouse=True)
def shared_limits(broker, connect) -> None:
    if broker.is_rabbitmq and not shares(connect):
        pytest.skip("beyond: RabbitMQ with global_qos denied, as it is by default")


@pytest.fixture
def queue(channel) -> str:
    return filled(channel)


def filled(channel: Channel, prefix: str = "", count: int = 10, **arguments) -> str:
    queue = channel.exclusive_queue(**arguments)
    channel.publish_all("", queue, [f"{prefix}{number}" for number in range(count)])
    return queue


def test_consumers_of_a_queue_share_it(channel, queue):
    channel.prefetch(3, shared=True)
    for tag in ("a", "b"):
        channel.consume(queue, tag)
    channel.deliveries(3)
    channel.expect_nothing(queue)
    channel.ack(2, multiple=True)
    channel.deliveries(2)
    channel.expect_nothing(queue)
    assert channel.depth(queue) == 5


def test_consumers_of_several_queues_share_it(channel):
    queues = [filled(channel, prefix) for prefix in ("x", "y")]
    channel.prefetch(3, shared=True)
    for queue in queues:
        channel.consume(queue)
    assert channel.bodies(3) == ["x0", "x1", "x2"]
    channel.expect_nothing(queues[1])
    channel.ack(3, multiple=True)
    # Which queue is asked first is anybody's guess.
    bodies = channel.bodies(3)
    assert len({body[0] for body in bodies}) <= 2
    channel.expect_nothing(queues[1])
    assert sum(channel.depth(queue) for queue in queues) == 14


def test_a_queue_that_had_no_share_is_served_when_another_ends(channel):
    first, second = (filled(channel, prefix, 3) for prefix in ("x", "y"))
    channel.prefetch(3, shared=True)
    channel.consume(first, "first")
    channel.consume(second, "second")
    assert channel.bodies(3) == ["x0", "x1", "x2"]
    channel.ack(3, multiple=True)
    assert channel.bodies(3) == ["y0", "y1", "y2"]


@pytest.mark.parametrize("settle", ["ack", "nack", "requeue", "reject", "recover"])
def test_settling_makes_room(channel, queue, settle):
    channel.prefetch(2, shared=True)
    channel.consume(queue)
    channel.deliveries(2)
    channel.expect_nothing(queue)
    if settle == "ack":
        channel.ack(1)
    elif settle == "nack":
        channel.nack(1, requeue=False)
    elif settle == "requeue":
        channel.nack(1)
    elif settle == "reject":
        channel.reject(1, requeue=False)
    else:
        channel.call("basic.recover", requeue=True)
    came_back = {"requeue": ["0"], "recover": ["0", "1"]}.get(settle, [])
    bodies = channel.bodies(len(came_back) or 1)
    # In RabbitMQ what comes back and the word that there is room are two messages to the queue, and race.
    assert bodies in (came_back, ["2", "3"][: len(bodies)])
    channel.expect_nothing(queue)


def test_the_limit_of_a_consumer_holds_as_well(channel, queue):
    channel.prefetch(2)
    channel.consume(queue, "a")
    channel.deliveries(2)
    channel.prefetch(3, shared=True)
    channel.consume(queue, "b")
    # Two are held already; the limit of the channel leaves room for one.
    assert [delivery.consumer_tag for delivery in channel.deliveries(1)] == ["b"]
    channel.expect_nothing(queue)


def test_a_limit_of_consumers_outlives_one_of_the_channel(channel, queue):
    channel.prefetch(1)
    channel.prefetch(5, shared=True)
    channel.consume(queue, "a")
    assert channel.bodies(1) == ["0"]
    channel.expect_nothing(queue)
    channel.consume(queue, "b")
    assert channel.bodies(1) == ["1"]
    channel.expect_nothing(queue)


def test_a_limit_of_consumers_ends_one_of_the_channel(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue, "a")
    channel.deliveries(2)
    channel.expect_nothing(queue)
    channel.prefetch(1)
    assert channel.bodies(8) == [str(number) for number in range(2, 10)]


def test_a_limit_holds_for_consumers_that_are_there(channel, queue):
    channel.prefetch(1)
    channel.consume(queue, "a")
    channel.deliveries(1)
    channel.prefetch(1, shared=True)
    channel.consume(queue, "b")
    channel.expect_nothing(queue)
    channel.ack(1)
    assert channel.bodies(1) == ["1"]
    channel.expect_nothing(queue)


def test_raising_it_hands_out_more(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue)
    channel.deliveries(2)
    channel.expect_nothing(queue)
    channel.prefetch(5, shared=True)
    assert channel.bodies(3) == ["2", "3", "4"]
    channel.expect_nothing(queue)


def test_lowering_it_takes_nothing_back(channel, queue):
    channel.prefetch(4, shared=True)
    channel.consume(queue)
    channel.deliveries(4)
    channel.prefetch(2, shared=True)
    channel.ack(2, multiple=True)
    channel.expect_nothing(queue)
    channel.ack(3)
    assert channel.bodies(1) == ["4"]
    channel.expect_nothing(queue)


def test_zero_ends_it(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue)
    channel.deliveries(2)
    channel.prefetch(0, shared=True)
    assert len(channel.bodies(8)) == 8


def test_messages_from_before_it_count(channel, queue):
    channel.consume(queue, "a")
    channel.deliveries(10)
    other = filled(channel)
    channel.prefetch(3, shared=True)
    channel.consume(other, "b")
    channel.expect_nothing(other)
    channel.ack(7, multiple=True)
    channel.expect_nothing(other)
    channel.ack(8)
    channel.deliveries(1)
    channel.expect_nothing(other)


def test_messages_of_get_do_not_count(channel, queue):
    channel.prefetch(3, shared=True)
    for _ in range(2):
        channel.get(queue)
    channel.consume(queue)
    assert channel.bodies(3) == ["2", "3", "4"]
    channel.expect_nothing(queue)
    channel.ack(1)
    channel.expect_nothing(queue)


def test_a_consumer_without_acks_takes_none_of_it(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue, no_ack=True)
    assert len(channel.bodies(10)) == 10


def test_a_consumer_without_acks_gets_nothing_while_it_is_used_up(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue, "a")
    channel.deliveries(2)
    channel.call("basic.cancel", consumer_tag="a")
    other = filled(channel, "o")
    channel.consume(other, no_ack=True)
    channel.expect_nothing(other)
    channel.ack(1)
    assert len(channel.bodies(10)) == 10


def test_ending_a_consumer_leaves_what_it_holds(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue, "a")
    channel.deliveries(2)
    channel.call("basic.cancel", consumer_tag="a")
    channel.consume(queue, "b")
    channel.expect_nothing(queue)
    channel.ack(1)
    assert [each.consumer_tag for each in channel.deliveries(1)] == ["b"]
    channel.expect_nothing(queue)


def test_deleting_a_queue_frees_nothing(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue, "a")
    channel.deliveries(2)
    other = filled(channel, "o")
    channel.consume(other, "b")
    channel.call("queue.delete", queue=queue)
    channel.expect("basic.cancel")
    channel.expect_nothing(other)
    channel.ack(1)
    assert channel.bodies(1) == ["o0"]
    channel.expect_nothing(other)


def test_other_channels_have_nothing_to_do_with_it(connection, channel, queue):
    other = connection.channel()
    channel.prefetch(2, shared=True)
    channel.consume(queue)
    channel.deliveries(2)
    other.consume(queue)
    assert len(other.bodies(8)) == 8


def test_a_full_channel_leaves_messages_to_another(connection, channel, queue):
    full, other = channel, connection.channel()
    full.prefetch(1, shared=True)
    full.consume(queue, "a")
    full.consume(queue, "b")
    full.deliveries(1)
    other.prefetch(1)
    other.consume(queue)
    for _ in range(9):
        other.ack(other.expect("basic.deliver").delivery_tag)
    full.expect_nothing(queue)


def test_a_higher_priority_does_not_block_a_lower_one_while_the_channel_is_full(connection, channel, queue):
    low = connection.channel()
    low.prefetch(1)
    channel.prefetch(1, shared=True)
    channel.consume(queue, "high", arguments={"x-priority": 5})
    channel.deliveries(1)
    low.consume(queue, "low")
    assert low.bodies(1) == ["1"]
    channel.ack(1)
    assert channel.bodies(1) == ["2"]
    low.ack(1)
    assert low.bodies(1) == ["3"]


def test_a_single_active_consumer_of_a_full_channel_stays_active(connection, channel):
    queue = filled(channel, x_single_active_consumer=True)
    other = connection.channel()
    channel.prefetch(1, shared=True)
    channel.consume(queue)
    other.consume(queue)
    channel.deliveries(1)
    channel.expect_nothing(queue)
    other.expect_nothing(queue)
    channel.ack(1)
    assert channel.bodies(1) == ["1"]


def test_acks_of_a_transaction_make_room_at_the_commit(channel, queue):
    channel.call("tx.select")
    channel.prefetch(1, shared=True)
    channel.consume(queue)
    channel.deliveries(1)
    channel.ack(1)
    channel.expect_nothing(queue)
    channel.call("tx.rollback")
    channel.expect_nothing(queue)
    channel.ack(1)
    channel.expect_nothing(queue)
    channel.call("tx.commit")
    assert channel.bodies(1) == ["1"]
    channel.expect_nothing(queue)


def test_a_new_channel_of_the_same_number_has_no_limit(connection, channel, queue):
    channel.prefetch(1, shared=True)
    channel.consume(queue)
    channel.deliveries(1)
    channel.close()
    again = connection.channel(channel.number)
    again.consume(queue)
    assert len(again.bodies(10)) == 10


def test_a_message_that_comes_later_is_handed_out_when_there_is_room(channel):
    queue = channel.exclusive_queue()
    channel.prefetch(1, shared=True)
    channel.consume(queue)
    channel.publish_all("", queue, ["0", "1"])
    assert channel.bodies(1) == ["0"]
    channel.expect_nothing(queue)
    channel.ack(1)
    assert channel.bodies(1) == ["1"]
    channel.ack(2)
    channel.publish_all("", queue, ["2"])
    assert channel.bodies(1) == ["2"]
