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


QUORUM = {"x-queue-type": "quorum"}


def _with_two_consumers(connection, channel, name, arguments, **limits):
    """Consumer `b` is older than `a` and has 1 and 3, `a` has 2 and 4."""
    queue, holder = name(), connection.channel()
    channel.declare_queue(queue, durable=True, arguments={**arguments, **limits})
    holder.consume(queue, "b")
    holder.consume(queue, "a")
    for number in range(1, 5):
        channel.publish("", queue, str(number))
        assert holder.bodies(1) == [str(number)]
    return queue, holder


@pytest.mark.parametrize("how", ["nack of all", "nack up to a tag", "recover"])
@pytest.mark.parametrize("arguments", [{}, QUORUM], ids=["classic", "quorum"])
def test_what_is_returned_together_comes_back_consumer_by_consumer(connection, channel, name, arguments, how):
    _, holder = _with_two_consumers(connection, channel, name, arguments)
    if how == "recover":
        holder.send("basic.recover-async", requeue=True)
    else:
        holder.nack(0 if how == "nack of all" else 4, multiple=True)
    # First those of `a`, whose tag is the lower one; each is at once with whoever is next.
    assert holder.bodies(4) == ["2", "4", "1", "3"]


def test_what_is_returned_one_by_one_is_with_a_waiting_consumer_at_once(connection, channel, queue):
    _take(channel, queue, 6)
    waiting = connection.channel()
    waiting.consume(queue)
    with connection.in_one_write():
        for tag in (4, 1, 3):
            channel.nack(tag)
    assert waiting.bodies(3) == ["4", "1", "3"]


@pytest.mark.parametrize("end", ["channel closed", "connection lost"])
def test_quorum_queues_put_what_an_end_returns_consumer_by_consumer_and_then_what_was_got(connect, channel, name, end):
    other = connect()
    queue, holder = _with_two_consumers(other, channel, name, QUORUM)
    for tag in ("a", "b"):
        holder.call("basic.cancel", consumer_tag=tag)
    channel.publish_all("", queue, ["5", "6"])
    channel.expect_depth(queue, 2)
    assert holder.get(queue).body == b"5"
    if end == "channel closed":
        holder.close()
    else:
        other.abort()
    channel.expect_depth(queue, 6)
    assert channel.drain(queue) == ["1", "3", "2", "4", "5", "6"]


@pytest.mark.parametrize("arguments", [{}, QUORUM], ids=["classic", "quorum"])
def test_what_comes_back_to_a_full_queue_goes_to_a_waiting_consumer_first_on_quorum_queues_only(
    connection, channel, name, arguments
):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={**arguments, "x-max-length": 1})
    channel.prefetch(2)
    channel.consume(queue, "t")
    for body in ("1", "2"):
        channel.publish("", queue, body)
        assert channel.bodies(1) == [body]
    waiting = connection.channel()
    waiting.consume(queue, "w")
    channel.close()
    expected = ["1", "2"] if arguments else ["2"]
    assert waiting.bodies(len(expected)) == expected
    waiting.expect_nothing(queue)
