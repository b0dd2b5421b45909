"""Where returned messages go in the queue."""

import pytest

pytestmark = pytest.mark.settling


@pytest.fixture
def queue(channel) -> str:
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["1", "2", "3", "4", "5", "6"])
    return queue


def _take(channel, queue, count) -> None:
    for number in range(1, count + 1):
        assert channel.get(queue).body == b"%d" % number


@pytest.mark.parametrize(
    "order", [(1, 2, 3, 4), (4, 3, 2, 1), (2, 4, 1, 3), (3, 1, 4, 2)], ids=lambda order: "".join(map(str, order))
)
def test_returned_messages_take_their_old_place(channel, queue, order):
    _take(channel, queue, 4)
    for tag in order:
        channel.nack(tag)
    assert channel.drain(queue) == ["1", "2", "3", "4", "5", "6"]


def test_a_message_returned_late_takes_its_old_place(channel, queue):
    _take(channel, queue, 3)
    channel.nack(3)
    channel.nack(1)
    assert channel.get(queue, no_ack=True).body == b"1"
    channel.nack(2)
    assert channel.drain(queue) == ["2", "3", "4", "5", "6"]


def test_a_returned_message_stands_before_everything_published_later(channel, queue):
    _take(channel, queue, 6)
    channel.publish_all("", queue, ["7", "8"])
    channel.nack(6, multiple=True)
    assert channel.drain(queue) == ["1", "2", "3", "4", "5", "6", "7", "8"]


def test_messages_of_a_closed_channel_take_their_old_place(connection, channel, queue):
    other = connection.channel()
    _take(other, queue, 4)
    other.close()
    channel.expect_depth(queue, 6)
    assert channel.drain(queue) == ["1", "2", "3", "4", "5", "6"]


def test_messages_of_several_closed_channels_take_their_old_places(connection, channel, queue):
    one, two = connection.channel(), connection.channel()
    for number in range(1, 5):
        assert (one if number % 2 else two).get(queue).body == b"%d" % number
    two.close()
    one.close()
    channel.expect_depth(queue, 6)
    assert channel.drain(queue) == ["1", "2", "3", "4", "5", "6"]


def test_recovered_messages_take_their_old_place(channel, queue):
    _take(channel, queue, 3)
    channel.ack(2)
    channel.call("basic.recover", requeue=True)
    assert channel.drain(queue) == ["1", "3", "4", "5", "6"]


def test_only_what_was_handed_out_is_redelivered(channel, queue):
    _take(channel, queue, 3)
    channel.nack(3, multiple=True)
    messages = [channel.get(queue) for _ in range(6)]
    assert [message.redelivered for message in messages] == [True] * 3 + [False] * 3


def test_messages_on_their_way_to_a_consumer_come_back_redelivered(connection, channel, queue):
    other = connection.channel()
    other.consume(queue)
    other.deliveries(1)
    other.close()
    channel.expect_depth(queue, 6)
    messages = [channel.get(queue) for _ in range(6)]
    assert [message.body for message in messages] == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert all(message.redelivered for message in messages)


def test_a_message_returned_several_times_keeps_its_place(channel, queue):
    for tag in range(1, 6):
        assert channel.get(queue).body == b"1"
        channel.nack(tag)
    assert channel.drain(queue) == ["1", "2", "3", "4", "5", "6"]


def test_a_consumer_gets_returned_messages_before_later_ones(channel, queue):
    channel.prefetch(2)
    channel.consume(queue)
    assert channel.bodies(2) == ["1", "2"]
    channel.nack(2, multiple=True)
    assert channel.bodies(2) == ["1", "2"]


def test_quorum_queues_put_returned_messages_first_in_the_order_of_their_return(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.publish_all("", queue, ["1", "2", "3", "4", "5", "6"])
    channel.prefetch(4)
    channel.consume(queue, "t")
    assert channel.bodies(4) == ["1", "2", "3", "4"]
    channel.call("basic.cancel", consumer_tag="t")
    for tag in (3, 1, 4, 2):
        channel.nack(tag)
    channel.expect_depth(queue, 6)
    assert channel.drain(queue) == ["3", "1", "4", "2", "5", "6"]


@pytest.mark.parametrize("end", ["channel closed", "connection lost", "nack of all", "recover"])
def test_quorum_queues_put_what_an_end_returns_first_in_the_order_it_was_handed_out(connect, channel, name, end):
    queue, other = name(), connect()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.publish_all("", queue, ["1", "2", "3"])
    holder = other.channel()
    holder.prefetch(3)
    holder.consume(queue, "t")
    assert holder.bodies(3) == ["1", "2", "3"]
    holder.nack(1)
    assert holder.bodies(1) == ["1"]
    holder.call("basic.cancel", consumer_tag="t")
    if end == "channel closed":
        holder.close()
    elif end == "connection lost":
        other.abort()
    elif end == "nack of all":
        holder.nack(0, multiple=True)
    else:
        holder.call("basic.recover", requeue=True)
    channel.expect_depth(queue, 3)
    assert channel.drain(queue) == ["2", "3", "1"]
