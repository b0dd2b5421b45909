"""channel.open, close, flow; access.request; what a closed channel ignores."""

import pytest

from .client import ConnectionClosed
from .wire import HEADER, encode_header

pytestmark = pytest.mark.channels

SECOND_OPEN = "CHANNEL_ERROR - second 'channel.open' seen"
EXPECTED_OPEN = "CHANNEL_ERROR - expected 'channel.open'"
UNIMPLEMENTED = "COMMAND_INVALID - unimplemented method"


def _provoke(channel, queue="there-is-no-such-queue"):
    """A soft error; its channel.close is still unread."""
    channel.send("queue.declare", queue=queue, passive=True)
    return f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'"


# --- open


def test_open_ok_is_empty(connection):
    connection.send(1, "channel.open")
    assert connection.next(1).channel_id == ""


@pytest.mark.parametrize("number", [1, 2, 255, 256, 2047, 65535])
def test_any_number_may_be_opened(connect, number):
    connect().channel(number).expect_nothing()


def test_open_on_an_open_channel_ends_the_connection(connection, channel):
    channel.send("channel.open")
    connection.expect_close(504, SECOND_OPEN, "channel.open")


def test_open_before_close_ok_was_given_ends_the_connection(connection, channel):
    _provoke(channel)
    assert channel.next().name == "channel.close"
    channel.send("channel.open")
    connection.expect_close(504, SECOND_OPEN, "channel.open")


def test_one_channel_more_than_negotiated_ends_the_connection(connect):
    connection = connect(channel_max=3)
    for number in (1, 2, 1000):
        connection.channel(number)
    connection.send(3, "channel.open")
    text = "NOT_ALLOWED - number of channels opened (3) has reached the negotiated channel_max (3)"
    connection.expect_close(530, text, (0, 0))


def test_a_closed_channel_makes_room_for_another(connect):
    connection = connect(channel_max=1)
    for number in (1, 2, 3, 1):
        connection.channel(number).close()


def test_2047_channels_fit_on_a_connection(connection):
    for number in range(1, 2048):
        connection.send(number, "channel.open")
    assert {connection.next(number).name for number in range(1, 2048)} == {"channel.open-ok"}


@pytest.mark.parametrize(
    "method",
    ["queue.declare", "basic.ack", "basic.qos", "channel.close", "channel.close-ok", "channel.flow", "tx.select"],
)
def test_a_method_on_a_channel_that_is_not_open_ends_the_connection(connection, method):
    connection.send(9, method)
    connection.expect_close(504, EXPECTED_OPEN, method)


def test_a_publish_on_a_channel_that_is_not_open_ends_the_connection(connection):
    # RabbitMQ notices when the content is complete.
    connection.send(9, "basic.publish", routing_key="nowhere")
    connection.send_frame(HEADER, 9, encode_header(0))
    connection.expect_close(504, EXPECTED_OPEN, "basic.publish")


def test_a_method_after_close_ok_ends_the_connection(connection, channel):
    channel.close()
    channel.send("queue.declare")
    connection.expect_close(504, EXPECTED_OPEN, "queue.declare")


# --- close by the client


@pytest.mark.parametrize("code, text", [(200, "done"), (0, ""), (404, "NOT_FOUND - mine"), (65535, "x" * 255)])
def test_a_close_is_answered_whatever_its_code_and_text(channel, code, text):
    channel.send("channel.close", reply_code=code, reply_text=text, class_id=1, method_id=2)
    channel.expect("channel.close-ok")


def test_a_number_can_be_reused_after_close(channel):
    for _ in range(20):
        channel.close()
        channel.open()


@pytest.mark.beyond
def test_close_and_open_may_be_pipelined(channel):
    # RabbitMQ is not always done with the close and ends the connection: second 'channel.open' seen.
    for _ in range(20):
        channel.send("channel.close", reply_code=200)
        channel.send("channel.open")
    for _ in range(20):
        channel.expect("channel.close-ok")
        channel.expect("channel.open-ok")


def test_unacked_messages_are_back_after_close_ok(connection):
    holder, other = connection.channel(), connection.channel()
    queue = holder.exclusive_queue()
    holder.publish_all("", queue, ["one", "two"])
    holder.consume(queue)
    holder.deliveries(2)
    holder.close()
    other.expect_depth(queue, 2)
    messages = [other.get(queue), other.get(queue)]
    assert [(message.body, message.redelivered) for message in messages] == [(b"one", True), (b"two", True)]


@pytest.mark.beyond
def test_unacked_messages_are_back_before_close_ok(connection):
    # RabbitMQ is sometimes a moment late.
    holder, other = connection.channel(), connection.channel()
    queue = other.exclusive_queue()
    for _ in range(50):
        other.publish("", queue, "body")
        holder.consume(queue, "t")
        holder.deliveries(1)
        holder.call("basic.cancel", consumer_tag="t")
        holder.close()
        assert other.get(queue, no_ack=True)
        holder.open()


def test_consumers_end_with_their_channel(connection):
    consumer, other = connection.channel(), connection.channel()
    queue = consumer.exclusive_queue()
    consumer.consume(queue)
    assert other.consumers(queue) == 1
    consumer.close()
    other.eventually(lambda: other.consumers(queue) == 0)


def test_delivery_tags_start_from_1_on_a_reopened_channel(channel):
    queue = channel.exclusive_queue()
    for _ in range(2):
        channel.publish("", queue, "body")
        assert channel.await_message(queue).delivery_tag == 1
        channel.close()
        channel.open()


def test_a_reopened_channel_is_in_normal_mode(channel):
    channel.call("tx.select")
    channel.close()
    channel.open()
    channel.call("confirm.select")


def test_a_reopened_channel_remembers_no_queue(channel):
    channel.exclusive_queue()
    channel.close()
    channel.open()
    channel.send("queue.purge", queue="")
    channel.expect_close(404, "NOT_FOUND - no previously declared queue", "queue.purge")


# --- close by the broker


def test_a_soft_error_leaves_the_other_channels_alone(connection):
    broken, healthy = connection.channel(), connection.channel()
    queue = healthy.exclusive_queue()
    healthy.consume(queue, "t")
    broken.expect_close(404, _provoke(broken), "queue.declare")
    healthy.publish("", queue, "body")
    assert healthy.expect("basic.deliver").consumer_tag == "t"


def test_everything_is_ignored_between_the_brokers_close_and_close_ok(connection, name):
    channel, other, queue = connection.channel(), connection.channel(), name()
    _provoke(channel)
    channel.send("queue.declare", queue=queue, durable=True)
    channel.publish("", queue, "body")
    channel.publish("there-is-no-such-exchange", "", "body" * 100)
    channel.send("basic.ack", delivery_tag=99)
    channel.send("tx.commit")
    assert channel.next().name == "channel.close"
    channel.send("queue.declare", queue=queue, durable=True)
    channel.send("channel.close-ok")
    channel.open()
    channel.expect_nothing()
    assert not other.queue_exists(queue)


def test_the_number_is_free_at_once_after_the_clients_close_ok(channel):
    for _ in range(20):
        channel.expect_close(404, _provoke(channel), "queue.declare")
        channel.open()


def test_crossing_closes_need_both_answers(connection, channel):
    _provoke(channel)
    channel.send("channel.close", reply_code=200)
    assert channel.next().name == "channel.close"
    channel.expect("channel.close-ok")
    # The broker's own close is still open, so the number is not free.
    channel.send("channel.open")
    connection.expect_close(504, SECOND_OPEN, "channel.open")


def test_after_crossing_closes_and_close_ok_the_number_is_free(channel):
    _provoke(channel)
    channel.send("channel.close", reply_code=200)
    assert channel.next().name == "channel.close"
    channel.expect("channel.close-ok")
    channel.send("channel.close-ok")
    channel.open()


def test_close_ok_on_an_open_channel_ends_the_connection(connection, channel):
    channel.send("channel.close-ok")
    connection.expect_close(503, UNIMPLEMENTED, "channel.close-ok")


def test_unacked_messages_are_back_when_the_broker_closes_the_channel(connection):
    holder, other = connection.channel(), connection.channel()
    queue = holder.exclusive_queue()
    holder.publish_all("", queue, ["one"])
    holder.consume(queue)
    holder.deliveries(1)
    _provoke(holder)
    assert holder.next().name == "channel.close"
    # Without close-ok.
    assert other.await_message(queue).redelivered


def test_consumers_end_when_the_broker_closes_the_channel(connection):
    consumer, other = connection.channel(), connection.channel()
    queue = consumer.exclusive_queue()
    consumer.consume(queue)
    _provoke(consumer)
    assert consumer.next().name == "channel.close"
    other.eventually(lambda: other.consumers(queue) == 0)


def test_no_confirm_comes_after_the_brokers_close(channel):
    queue = channel.exclusive_queue()
    channel.select_confirms()
    channel.publish("there-is-no-such-exchange", queue, "body")
    channel.publish("", queue, "body")
    text = f"NOT_FOUND - no exchange 'there-is-no-such-exchange' in vhost '{channel.vhost}'"
    channel.expect_close(404, text, "basic.publish")
    channel.open()
    channel.expect_nothing(queue)
    assert channel.depth(queue) == 0


# --- flow and access


def test_flow_true_is_answered(channel):
    assert channel.call("channel.flow", active=True).active is True


def test_flow_false_is_not_implemented(connection, channel):
    channel.send("channel.flow", active=False)
    connection.expect_close(540, "NOT_IMPLEMENTED - active=false", "channel.flow")


def test_access_request_gets_ticket_1(channel):
    answer = channel.call("access.request", realm="/data", read=True, write=True, active=True)
    assert answer.ticket == 1


def test_tickets_are_ignored(channel):
    queue = channel.call("queue.declare", ticket=65535, exclusive=True).queue
    channel.call("queue.purge", ticket=7, queue=queue)


# --- the remembered queue


@pytest.mark.parametrize(
    "method", ["queue.bind", "queue.unbind", "queue.purge", "queue.delete", "basic.consume", "basic.get"]
)
def test_an_empty_name_needs_a_declared_queue(channel, method):
    exchange = {"exchange": "amq.direct"} if method in ("queue.bind", "queue.unbind") else {}
    channel.send(method, queue="", **exchange)
    channel.expect_close(404, "NOT_FOUND - no previously declared queue", method)


def test_an_empty_name_means_the_queue_declared_last(channel):
    channel.exclusive_queue()
    second = channel.exclusive_queue()
    channel.publish("", second, "body")
    assert channel.get("").body == b"body"
    assert channel.call("queue.purge", queue="").message_count == 0
    channel.consume("", "t")
    assert channel.consumers(second) == 1


def test_a_passive_declare_is_remembered(connection):
    first, second = connection.channel(), connection.channel()
    queue = first.exclusive_queue()
    second.call("queue.declare", queue=queue, passive=True)
    assert second.call("queue.delete", queue="").message_count == 0
    assert not first.queue_exists(queue)


def test_a_declare_without_answer_is_remembered(channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, exclusive=True, nowait=True)
    channel.publish("", queue, "body")
    assert channel.get("").body == b"body"


def test_a_failed_declare_is_not_remembered(channel):
    channel.expect_close(404, _provoke(channel), "queue.declare")
    channel.open()
    channel.send("basic.get", queue="")
    channel.expect_close(404, "NOT_FOUND - no previously declared queue", "basic.get")


def test_an_empty_binding_key_with_an_empty_name_is_the_queues_name(channel):
    queue = channel.exclusive_queue()
    channel.bind("", "amq.direct", "")
    channel.publish("amq.direct", queue, "body")
    assert channel.get(queue).body == b"body"
    channel.unbind("", "amq.direct", "")
    channel.publish("amq.direct", queue, "body", mandatory=True)
    channel.expect("basic.return")


def test_an_empty_binding_key_with_a_name_stays_empty(channel):
    queue = channel.exclusive_queue()
    channel.bind(queue, "amq.direct", "")
    channel.publish("amq.direct", queue, "body", mandatory=True)
    channel.expect("basic.return")
    channel.unbind(queue, "amq.direct", "")


def test_a_passive_declare_without_a_name_finds_nothing(channel):
    channel.exclusive_queue()
    channel.send("queue.declare", queue="", passive=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '' in vhost '{channel.vhost}'", "queue.declare")


def test_a_deleted_queue_is_still_remembered(channel):
    queue = channel.exclusive_queue()
    channel.call("queue.delete", queue="")
    assert channel.call("queue.delete", queue="").message_count == 0
    channel.send("basic.get", queue="")
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "basic.get")


# --- nowait


def test_nowait_suppresses_every_ok(channel, name):
    queue, exchange, other = name(), name(), name()
    channel.send("exchange.declare", exchange=exchange, nowait=True)
    channel.send("exchange.declare", exchange=other, nowait=True)
    channel.send("exchange.declare", exchange=other, passive=True, nowait=True)
    channel.send("exchange.bind", source=exchange, destination=other, nowait=True)
    channel.send("queue.declare", queue=queue, exclusive=True, nowait=True)
    channel.send("queue.declare", queue=queue, passive=True, nowait=True)
    channel.send("queue.bind", queue=queue, exchange=other, nowait=True)
    channel.send("queue.purge", queue=queue, nowait=True)
    channel.send("confirm.select", nowait=True)
    channel.send("basic.consume", queue=queue, consumer_tag="t", nowait=True)
    channel.send("basic.cancel", consumer_tag="t", nowait=True)
    channel.send("exchange.unbind", source=exchange, destination=other, nowait=True)
    channel.send("queue.delete", queue=queue, nowait=True)
    channel.send("exchange.delete", exchange=exchange, nowait=True)
    channel.send("exchange.delete", exchange=other, nowait=True)
    channel.expect_nothing()


def test_nowait_takes_effect(channel, name):
    queue, exchange = name(), name()
    channel.send("exchange.declare", exchange=exchange, nowait=True)
    channel.send("queue.declare", queue=queue, exclusive=True, nowait=True)
    channel.send("queue.bind", queue=queue, exchange=exchange, routing_key="k", nowait=True)
    channel.publish(exchange, "k", "body")
    assert channel.get(queue).body == b"body"


def test_nowait_does_not_suppress_errors(channel):
    channel.send("queue.declare", queue="there-is-no-such-queue", passive=True, nowait=True)
    text = f"NOT_FOUND - no queue 'there-is-no-such-queue' in vhost '{channel.vhost}'"
    channel.expect_close(404, text, "queue.declare")


def test_a_consumer_without_answer_gets_an_invented_tag(channel):
    queue = channel.exclusive_queue()
    channel.send("basic.consume", queue=queue, consumer_tag="", nowait=True)
    channel.publish("", queue, "body")
    tag = channel.expect("basic.deliver").consumer_tag
    assert tag.startswith("amq.ctag-")
    channel.call("basic.cancel", consumer_tag=tag)
    assert channel.consumers(queue) == 0


# --- pipelining


def test_answers_come_in_the_order_of_the_methods(channel):
    queue = channel.exclusive_queue()
    channel.send("queue.declare", queue=queue, passive=True)
    channel.send("basic.qos", prefetch_count=1)
    channel.publish("", queue, "body")
    channel.send("basic.get", queue=queue)
    channel.send("queue.purge", queue=queue)
    channel.send("channel.flow", active=True)
    names = [channel.next().name for _ in range(5)]
    assert names == ["queue.declare-ok", "basic.qos-ok", "basic.get-ok", "queue.purge-ok", "channel.flow-ok"]


# --- reply texts


def test_a_reply_text_is_cut_between_characters(connection, channel):
    queue = "ü" * 127
    channel.send("queue.declare", queue=queue, passive=True)
    try:
        closed = channel.expect("channel.close")
    except ConnectionClosed as fatal:
        # RabbitMQ counts characters, writes more than 255 bytes and falls over it.
        assert fatal.close.code == 541
    else:
        assert closed.reply_text == f"NOT_FOUND - no queue '{'ü' * 115}..."


@pytest.mark.parametrize("length", [100, 200, 255])
def test_a_reply_text_is_cut_to_255_characters(channel, length):
    queue = "q" * length
    channel.send("queue.declare", queue=queue, passive=True)
    text = f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'"
    channel.expect_close(404, text if len(text) <= 255 else text[:252] + "...", "queue.declare")
