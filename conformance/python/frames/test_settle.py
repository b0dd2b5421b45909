"""basic.ack, basic.nack and basic.reject."""

import pytest

pytestmark = pytest.mark.settling


@pytest.fixture
def queue(channel) -> str:
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["1", "2", "3", "4", "5"])
    return queue


def _unknown(tag: int) -> str:
    return f"PRECONDITION_FAILED - unknown delivery tag {tag}"


def _expect_left_behind(connection, channel, queue, bodies: list[str]) -> None:
    """What comes back when the channel ends; RabbitMQ sometimes needs a moment for that."""
    channel.close()
    other = connection.channel()
    other.expect_depth(queue, len(bodies))
    assert other.drain(queue) == bodies


# --- ack


def test_an_ack_settles_one_message(connection, channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(3)
    channel.expect_nothing(queue)
    _expect_left_behind(connection, channel, queue, ["1", "2", "4", "5"])


def test_an_ack_of_several_settles_all_up_to_its_tag(connection, channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(3, multiple=True)
    _expect_left_behind(connection, channel, queue, ["4", "5"])


def test_an_ack_of_several_skips_what_is_settled(connection, channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(2)
    channel.nack(1, requeue=False)
    channel.ack(4, multiple=True)
    _expect_left_behind(connection, channel, queue, ["5"])


def test_an_ack_of_tag_0_with_multiple_settles_everything(connection, channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(0, multiple=True)
    channel.expect_nothing(queue)
    _expect_left_behind(connection, channel, queue, [])


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack"])
def test_tag_0_with_multiple_is_fine_when_nothing_is_unacked(channel, method):
    channel.send(method, delivery_tag=0, multiple=True)
    channel.expect_nothing()


def test_multiple_covers_all_queues_and_ways_of_the_channel(connection, channel, queue):
    other_queue = channel.exclusive_queue()
    channel.publish_all("", other_queue, ["other"])
    channel.consume(other_queue)
    channel.deliveries(1)
    assert channel.get(queue).delivery_tag == 2
    channel.ack(2, multiple=True)
    _expect_left_behind(connection, channel, queue, ["2", "3", "4", "5"])
    assert connection.channel().drain(other_queue) == []


def test_multiple_does_not_cover_other_channels(connection, channel, queue):
    other = connection.channel()
    assert channel.get(queue).delivery_tag == other.get(queue).delivery_tag == 1
    channel.ack(1, multiple=True)
    _expect_left_behind(connection, other, queue, ["2", "3", "4", "5"])


def test_acks_may_come_in_any_order(connection, channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    for tag in (5, 1, 4, 2, 3):
        channel.ack(tag)
    channel.expect_nothing(queue)
    _expect_left_behind(connection, channel, queue, [])


# --- nack and reject


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_a_requeued_message_comes_back_redelivered(channel, queue, method):
    assert not channel.get(queue).redelivered
    channel.send(method, delivery_tag=1, requeue=True)
    message = channel.get(queue)
    assert (message.body, message.redelivered, message.delivery_tag) == (b"1", True, 2)


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_a_message_not_requeued_is_gone(connection, channel, queue, method):
    channel.get(queue)
    channel.send(method, delivery_tag=1, requeue=False)
    channel.expect_nothing(queue)
    _expect_left_behind(connection, channel, queue, ["2", "3", "4", "5"])


def test_a_nack_of_several_requeues_all_up_to_its_tag(channel, queue):
    for _ in range(4):
        channel.get(queue)
    channel.nack(3, multiple=True)
    assert channel.drain(queue) == ["1", "2", "3", "5"]


def test_a_nack_of_tag_0_with_multiple_requeues_everything(channel, queue):
    for _ in range(5):
        channel.get(queue)
    channel.nack(0, multiple=True)
    assert channel.drain(queue) == ["1", "2", "3", "4", "5"]


def test_a_nack_of_several_may_drop_them(connection, channel, queue):
    for _ in range(4):
        channel.get(queue)
    channel.nack(3, multiple=True, requeue=False)
    _expect_left_behind(connection, channel, queue, ["4", "5"])


def test_a_requeued_message_is_offered_again_at_once(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body")
    channel.consume(queue)
    for tag in range(1, 11):
        delivery = channel.expect("basic.deliver")
        assert (delivery.delivery_tag, delivery.redelivered) == (tag, tag > 1)
        channel.nack(tag)


def test_a_message_never_handed_out_is_not_redelivered(channel, queue):
    channel.get(queue)
    channel.nack(1)
    flags = [channel.get(queue).redelivered for _ in range(5)]
    assert flags == [True, False, False, False, False]


# --- unknown tags

SETTLES = ["basic.ack", "basic.nack", "basic.reject"]


@pytest.mark.parametrize("method", SETTLES)
@pytest.mark.parametrize("tag", [1, 99, 2**40, 2**64 - 1])
def test_a_tag_never_sent_is_unknown(channel, method, tag):
    channel.send(method, delivery_tag=tag)
    channel.expect_close(406, _unknown(tag), method)


@pytest.mark.parametrize("method", SETTLES)
def test_tag_0_alone_is_unknown(channel, queue, method):
    channel.get(queue)
    channel.send(method, delivery_tag=0)
    channel.expect_close(406, _unknown(0), method)


@pytest.mark.parametrize("first", SETTLES)
@pytest.mark.parametrize("second", SETTLES)
def test_a_settled_tag_is_unknown(channel, queue, first, second):
    channel.get(queue)
    channel.send(first, delivery_tag=1)
    channel.send(second, delivery_tag=1)
    channel.expect_close(406, _unknown(1), second)


def test_a_tag_settled_with_multiple_is_unknown(channel, queue):
    for _ in range(3):
        channel.get(queue)
    channel.ack(2, multiple=True)
    channel.ack(1)
    channel.expect_close(406, _unknown(1), "basic.ack")


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack"])
@pytest.mark.parametrize("tag", [6, 99])
def test_multiple_with_a_tag_that_is_not_out_is_unknown(channel, queue, method, tag):
    channel.consume(queue)
    channel.deliveries(5)
    channel.send(method, delivery_tag=tag, multiple=True)
    channel.expect_close(406, _unknown(tag), method)


def test_multiple_with_a_settled_tag_in_the_middle_is_unknown(channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(3)
    channel.ack(3, multiple=True)
    channel.expect_close(406, _unknown(3), "basic.ack")


def test_an_unknown_tag_settles_nothing(connection, channel, queue):
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(99, multiple=True)
    channel.expect("channel.close")
    other = connection.channel()
    assert [other.await_message(queue).body for _ in range(5)] == [b"1", b"2", b"3", b"4", b"5"]


def test_a_delivery_without_acks_has_no_tag_to_settle(channel, queue):
    channel.consume(queue, no_ack=True)
    channel.deliveries(5)
    channel.ack(1)
    channel.expect_close(406, _unknown(1), "basic.ack")


def test_a_get_without_ack_has_no_tag_to_settle(channel, queue):
    channel.get(queue, no_ack=True)
    channel.ack(1)
    channel.expect_close(406, _unknown(1), "basic.ack")


def test_a_tag_of_another_channel_is_unknown(connection, channel, queue):
    other = connection.channel()
    channel.get(queue)
    other.ack(1)
    other.expect_close(406, _unknown(1), "basic.ack")


def test_an_unknown_tag_leaves_the_connection_open(connection, channel):
    channel.ack(1)
    channel.expect_close(406, _unknown(1), "basic.ack")
    assert connection.is_healthy()


# --- after the end of the consumer


def test_an_ack_after_a_cancel_is_fine(connection, channel, queue):
    channel.consume(queue, "t")
    channel.deliveries(5)
    channel.call("basic.cancel", consumer_tag="t")
    channel.ack(4, multiple=True)
    channel.expect_nothing(queue)
    _expect_left_behind(connection, channel, queue, ["5"])


def test_unacked_messages_stay_with_the_channel_of_a_cancelled_consumer(connection, channel, queue):
    channel.prefetch(2)
    channel.consume(queue, "t")
    channel.deliveries(2)
    channel.call("basic.cancel", consumer_tag="t")
    other = connection.channel()
    assert other.drain(queue) == ["3", "4", "5"]
    channel.close()
    other.expect_depth(queue, 2)
    assert other.drain(queue) == ["1", "2"]


def test_quorum_queues_settle_alike(connection, channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.publish_all("", queue, ["1", "2", "3", "4", "5"])
    channel.consume(queue)
    channel.deliveries(5)
    channel.ack(2, multiple=True)
    channel.nack(3, requeue=False)
    channel.reject(4, requeue=True)
    again = channel.expect("basic.deliver")
    assert (again.body, again.redelivered) == (b"4", True)
    channel.ack(0, multiple=True)
    channel.close()
    other = connection.channel()
    other.expect_depth(queue, 0)
