"""basic.consume and basic.deliver."""

import re

import pytest

from .test_queue_declare import locked

pytestmark = pytest.mark.consuming


def _in_exclusive_use(channel, queue) -> str:
    return f"ACCESS_REFUSED - queue '{queue}' in vhost '{channel.vhost}' in exclusive use"


# --- tags


def test_consume_ok_returns_the_tag(channel):
    queue = channel.exclusive_queue()
    assert channel.consume(queue, "my tag") == "my tag"


def test_consume_ok_comes_before_the_first_delivery(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["body"])
    channel.send("basic.consume", queue=queue, consumer_tag="t")
    channel.expect("basic.consume-ok")
    channel.expect("basic.deliver")


def test_an_empty_tag_is_replaced(channel):
    queue = channel.exclusive_queue()
    tags = {channel.consume(queue) for _ in range(10)}
    assert len(tags) == 10
    assert all(re.fullmatch(r"amq\.ctag-[A-Za-z0-9_-]{22}", tag) for tag in tags)


@pytest.mark.parametrize("tag", ["x" * 255, "tag with spaces", "мётка", "\x00", "amq.mine"], ids=repr)
def test_any_tag_may_be_chosen(channel, tag):
    queue = channel.exclusive_queue()
    assert channel.consume(queue, tag) == tag
    channel.publish("", queue, "body")
    assert channel.expect("basic.deliver").consumer_tag == tag


def test_a_tag_in_use_on_the_channel_ends_the_connection(connection, channel):
    channel.consume(channel.exclusive_queue(), "t1")
    channel.send("basic.consume", queue=channel.exclusive_queue(), consumer_tag="t1")
    connection.expect_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 't1'", "basic.consume")


def test_a_tag_in_use_is_noticed_before_a_missing_queue(connection, channel):
    channel.consume(channel.exclusive_queue(), "t1")
    channel.send("basic.consume", queue="there-is-no-such-queue", consumer_tag="t1")
    connection.expect_close(530, "NOT_ALLOWED - attempt to reuse consumer tag 't1'", "basic.consume")


def test_another_channel_may_use_the_same_tag(connection):
    one, two = connection.channel(), connection.channel()
    queue = one.exclusive_queue()
    assert one.consume(queue, "t") == two.consume(queue, "t") == "t"


def test_a_tag_is_free_after_a_cancel(channel):
    queue = channel.exclusive_queue()
    for _ in range(3):
        channel.consume(queue, "t")
        channel.call("basic.cancel", consumer_tag="t")


def test_a_tag_is_free_after_the_brokers_cancel(channel, name):
    for _ in range(3):
        queue = channel.exclusive_queue()
        channel.consume(queue, "t")
        channel.call("queue.delete", queue=queue)
        assert channel.expect("basic.cancel").consumer_tag == "t"


# --- refusals


def test_a_missing_queue_is_not_found(channel, name):
    queue = name()
    channel.send("basic.consume", queue=queue)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "basic.consume")


def test_line_ends_in_the_queue_name_are_not_removed(channel):
    queue = channel.exclusive_queue()
    channel.send("basic.consume", queue=queue + "\n")
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}\n' in vhost '{channel.vhost}'", "basic.consume")


def test_another_connections_exclusive_queue_is_locked(connect, channel):
    queue = connect().channel().exclusive_queue()
    channel.send("basic.consume", queue=queue)
    channel.expect_close(405, locked(channel, queue), "basic.consume")


# --- exclusive consumers


def test_an_exclusive_consumer_wants_the_queue_for_itself(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue)
    channel.send("basic.consume", queue=queue, exclusive=True)
    channel.expect_close(403, _in_exclusive_use(channel, queue), "basic.consume")


@pytest.mark.parametrize("exclusive", [False, True])
def test_nobody_consumes_beside_an_exclusive_consumer(connection, exclusive):
    owner, other = connection.channel(), connection.channel()
    queue = owner.exclusive_queue()
    owner.consume(queue, exclusive=True)
    other.send("basic.consume", queue=queue, exclusive=exclusive)
    other.expect_close(403, _in_exclusive_use(other, queue), "basic.consume")


def test_the_queue_is_free_after_its_exclusive_consumer(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, "t", exclusive=True)
    channel.call("basic.cancel", consumer_tag="t")
    channel.consume(queue)


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_other_queue_types_ignore_the_exclusive_flag(channel, name, kind):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.prefetch(1)
    for _ in range(2):
        channel.consume(queue, exclusive=True)


def test_an_exclusive_consumer_of_a_single_active_consumer_queue_is_refused(channel):
    queue = channel.exclusive_queue(x_single_active_consumer=True)
    channel.send("basic.consume", queue=queue, exclusive=True)
    channel.expect_close(403, _in_exclusive_use(channel, queue), "basic.consume")


# --- arguments


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("priority", [0, -10, 10, 2**40])
def test_any_integer_is_a_consumer_priority(channel, name, kind, priority):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.consume(queue, arguments={"x-priority": priority})


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_consumer_priority_is_an_integer(channel, name, kind):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.send("basic.consume", queue=queue, arguments={"x-priority": "high"})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-priority' {where}: \"expected integer, got longstr\""
    channel.expect_close(406, text, "basic.consume")


def test_a_negative_consumer_timeout_is_refused(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "quorum"})
    channel.send("basic.consume", queue=queue, arguments={"x-consumer-timeout": -1})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-consumer-timeout' {where}: {{value_negative,-1}}"
    channel.expect_close(406, text, "basic.consume")


@pytest.mark.parametrize(
    "kind, argument, value",
    [
        ("stream", "x-priority", 1),
        ("classic", "x-consumer-timeout", 1000),
        ("stream", "x-consumer-timeout", 1000),
        ("classic", "x-stream-offset", "first"),
        ("quorum", "x-stream-offset", "first"),
        ("classic", "x-stream-filter", "a"),
        ("quorum", "x-stream-filter", "a"),
        ("classic", "x-stream-match-unfiltered", True),
        ("quorum", "x-stream-match-unfiltered", True),
    ],
)
def test_an_argument_of_another_queue_type_is_refused(channel, name, kind, argument, value):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.prefetch(1)
    channel.send("basic.consume", queue=queue, arguments={argument: value})
    where = f"for queue '{queue}' in vhost '{channel.vhost}' of queue type rabbit_{kind}_queue"
    channel.expect_close(406, f"PRECONDITION_FAILED - invalid arg '{argument}' {where}", "basic.consume")


@pytest.mark.parametrize(
    "kind, foreign",
    [
        ("classic", {"x-stream-filter": "a", "x-stream-offset": "next"}),
        ("quorum", {"x-stream-match-unfiltered": True, "x-stream-filter": "a"}),
        ("stream", {"x-consumer-timeout": "abc", "x-priority": -1}),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True], ids=["", "reversed"])
def test_of_several_arguments_of_other_queue_types_the_first_one_sent_is_named(channel, name, kind, foreign, is_reversed):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.prefetch(1)
    keys = list(foreign)[::-1] if is_reversed else list(foreign)
    channel.send("basic.consume", queue=queue, arguments={key: foreign[key] for key in keys})
    where = f"for queue '{queue}' in vhost '{channel.vhost}' of queue type rabbit_{kind}_queue"
    channel.expect_close(406, f"PRECONDITION_FAILED - invalid arg '{keys[0]}' {where}", "basic.consume")


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_unknown_arguments_are_accepted(channel, name, kind):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.prefetch(1)
    channel.consume(queue, arguments={"x-cancel-on-ha-failover": True, "foo": {"bar": [1]}})


# --- delivery


def test_a_delivery_tells_what_the_publish_told(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, "t")
    channel.publish("", queue, "body", {"message_id": "m"})
    delivery = channel.expect("basic.deliver")
    assert delivery.arguments == {
        "consumer_tag": "t",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": queue,
    }
    assert (delivery.body, delivery.properties) == (b"body", {"message_id": "m"})


def test_delivery_tags_count_all_deliveries_of_a_channel(channel):
    one, two = channel.exclusive_queue(), channel.exclusive_queue()
    channel.publish("", one, "got")
    assert channel.get(one).delivery_tag == 1
    channel.consume(one, no_ack=True)
    channel.consume(two)
    channel.publish("", one, "delivered without ack")
    assert channel.expect("basic.deliver").delivery_tag == 2
    channel.publish("", two, "delivered")
    assert channel.expect("basic.deliver").delivery_tag == 3
    channel.ack(1)
    channel.publish("", two, "delivered")
    assert channel.expect("basic.deliver").delivery_tag == 4


def test_delivery_tags_go_on_after_a_cancel(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, "t")
    channel.publish("", queue, "one")
    channel.deliveries(1)
    channel.call("basic.cancel", consumer_tag="t")
    channel.consume(queue, "t")
    channel.publish("", queue, "two")
    assert channel.expect("basic.deliver").delivery_tag == 2


def test_equal_consumers_take_turns_in_the_order_of_their_arrival(channel):
    queue = channel.exclusive_queue()
    for tag in "abc":
        channel.consume(queue, tag)
    channel.publish_all("", queue, [str(number) for number in range(9)])
    deliveries = channel.deliveries(9)
    assert "".join(delivery.consumer_tag for delivery in deliveries) == "abcabcabc"
    assert [delivery.body for delivery in deliveries] == [b"%d" % number for number in range(9)]


def test_no_local_is_ignored(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue, no_local=True)
    channel.publish("", queue, "my own")
    assert channel.bodies(1) == ["my own"]


def test_one_consumer_sees_the_order_of_the_queue(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, [str(number) for number in range(300)])
    channel.prefetch(10)
    channel.consume(queue)
    for number in range(300):
        delivery = channel.expect("basic.deliver")
        assert delivery.body == b"%d" % number
        channel.ack(delivery.delivery_tag)


def test_a_consumer_without_acks_leaves_nothing_behind(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["one", "two"])
    channel.consume(queue, "t", no_ack=True)
    channel.deliveries(2)
    channel.call("basic.cancel", consumer_tag="t")
    channel.close()
    channel.open()
    assert channel.get(queue) is None


def test_a_body_of_several_frames_is_delivered_whole(channel):
    queue = channel.exclusive_queue()
    channel.consume(queue)
    body = bytes(range(256)) * 2000
    channel.publish("", queue, body)
    assert channel.expect("basic.deliver").body == body


def test_a_consumer_gets_what_was_there_before_and_what_comes_after(channel):
    queue = channel.exclusive_queue()
    channel.publish_all("", queue, ["before"])
    channel.consume(queue)
    channel.publish("", queue, "after")
    assert channel.bodies(2) == ["before", "after"]
