"""basic.qos: prefetch per consumer, and shared by a channel where the broker still offers that."""

import pytest

pytestmark = pytest.mark.consuming


@pytest.fixture
def queue(channel) -> str:
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, [str(number) for number in range(10)])
    return queue


def test_a_prefetch_size_is_not_implemented(connection, channel):
    channel.send("basic.qos", prefetch_size=1)
    connection.expect_close(540, "NOT_IMPLEMENTED - prefetch_size!=0 (1)", "basic.qos")


def test_prefetch_limits_the_unacked_messages_of_a_consumer(channel, queue):
    channel.prefetch(3)
    channel.consume(queue)
    assert channel.bodies(3) == ["0", "1", "2"]
    channel.expect_nothing(queue)


def test_zero_is_no_limit(channel, queue):
    channel.prefetch(1)
    channel.prefetch(0)
    channel.consume(queue)
    assert len(channel.bodies(10)) == 10


def test_the_largest_prefetch_is_accepted(channel, queue):
    channel.prefetch(65535)
    channel.consume(queue)
    assert len(channel.bodies(10)) == 10


def test_without_qos_there_is_no_limit(channel, queue):
    channel.consume(queue)
    assert len(channel.bodies(10)) == 10


@pytest.mark.parametrize("settle", ["ack", "nack", "reject"])
def test_settling_makes_room(channel, queue, settle):
    channel.prefetch(2)
    channel.consume(queue)
    channel.deliveries(2)
    channel.expect_nothing(queue)
    if settle == "ack":
        channel.ack(1)
    elif settle == "nack":
        channel.nack(1, requeue=False)
    else:
        channel.reject(1, requeue=False)
    assert channel.bodies(1) == ["2"]
    channel.expect_nothing(queue)


def test_an_ack_of_several_makes_room_for_several(channel, queue):
    channel.prefetch(4)
    channel.consume(queue)
    channel.deliveries(4)
    channel.ack(3, multiple=True)
    assert channel.bodies(3) == ["4", "5", "6"]
    channel.expect_nothing(queue)


def test_recover_makes_room(channel, queue):
    channel.prefetch(2)
    channel.consume(queue)
    channel.deliveries(2)
    channel.call("basic.recover", requeue=True)
    assert channel.bodies(2) == ["0", "1"]
    channel.expect_nothing(queue)


def test_each_consumer_has_its_own_limit(channel, queue):
    channel.prefetch(2)
    for tag in ("a", "b"):
        channel.consume(queue, tag)
    tags = [delivery.consumer_tag for delivery in channel.deliveries(4)]
    assert sorted(tags) == ["a", "a", "b", "b"]
    channel.expect_nothing(queue)


def test_a_new_limit_is_for_new_consumers(channel, queue):
    channel.prefetch(1)
    channel.consume(queue, "early")
    channel.deliveries(1)
    channel.prefetch(3)
    channel.expect_nothing(queue)
    channel.consume(queue, "late")
    assert [delivery.consumer_tag for delivery in channel.deliveries(3)] == ["late"] * 3
    channel.expect_nothing(queue)


def test_messages_taken_by_get_do_not_count(channel, queue):
    held = [channel.get(queue) for _ in range(3)]
    assert all(held)
    channel.prefetch(2)
    channel.consume(queue)
    assert channel.bodies(2) == ["3", "4"]
    channel.expect_nothing(queue)


def test_a_consumer_without_acks_has_no_limit(channel, queue):
    channel.prefetch(1)
    channel.consume(queue, no_ack=True)
    assert len(channel.bodies(10)) == 10


def test_channels_have_their_own_limits(connection, channel, queue):
    other = connection.channel()
    channel.prefetch(1)
    other.consume(queue)
    assert len(other.bodies(10)) == 10


def test_prefetch_1_leaves_work_to_the_idle(connection, channel, queue):
    busy, idle = connection.channel(), connection.channel()
    for consumer in (busy, idle):
        consumer.prefetch(1)
        consumer.consume(queue)
    busy.deliveries(1)
    for _ in range(9):
        idle.ack(idle.expect("basic.deliver").delivery_tag)
    busy.expect_nothing(queue)


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_prefetch_limits_consumers_of_other_queue_types(channel, name, kind):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.publish_all("", queue, [str(number) for number in range(10)])
    channel.prefetch(2)
    channel.consume(queue, arguments={"x-stream-offset": "first"} if kind == "stream" else {})
    assert channel.bodies(2) == ["0", "1"]
    if kind == "quorum":
        channel.expect_depth(queue, 8)
    channel.expect_nothing(queue)
    channel.ack(1)
    assert channel.bodies(1) == ["2"]


def test_a_global_prefetch_is_accepted_and_limits(channel, queue):
    channel.prefetch(2, shared=True)
    channel.consume(queue, "a")
    assert channel.bodies(2) == ["0", "1"]
    channel.expect_nothing(queue)
    channel.consume(queue, "b")
    # RabbitMQ 4.3 takes it as a limit per consumer; releases before as one of the channel.
    channel.send("queue.declare", queue=queue, passive=True)
    ready = channel.answer("queue.declare-ok").message_count
    assert ready in (6, 8)
    assert channel.bodies(8 - ready) == ["2", "3"][: 8 - ready]
    channel.expect_nothing(queue)


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_global_prefetch_is_one_of_each_consumer_on_other_queue_types(channel, name, kind):
    # Where RabbitMQ's deprecated feature is permitted, as in releases before 4.3, such consumers are refused.
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.publish_all("", queue, [str(number) for number in range(10)])
    channel.prefetch(1)
    channel.prefetch(2, shared=True)
    for tag in ("a", "b"):
        channel.consume(queue, tag, arguments={"x-stream-offset": "first"} if kind == "stream" else {})
    tags = [delivery.consumer_tag for delivery in channel.deliveries(4)]
    assert sorted(tags) == ["a", "a", "b", "b"]
    channel.expect_nothing(queue)
    channel.ack(1)
    channel.deliveries(1)
    channel.expect_nothing(queue)
