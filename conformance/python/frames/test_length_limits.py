"""x-max-length, x-max-length-bytes, x-overflow."""

import pytest

pytestmark = pytest.mark.expiry

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


def _queue(channel, name, kind="classic", **arguments) -> str:
    queue = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, durable=True, arguments=named | {"x-queue-type": kind})
    return queue


def _answers(channel, queue, bodies) -> list[str]:
    """ack or nack for each publish, one after the other."""
    publisher = channel.connection.channel()
    publisher.select_confirms()
    answers = []
    for number, body in enumerate(bodies, 1):
        publisher.publish("", queue, body)
        answers.append(publisher.confirms(number, number)[number])
    publisher.close()
    return answers


# --- drop-head


@KINDS
def test_the_oldest_messages_make_room(channel, name, kind):
    queue = _queue(channel, name, kind, x_max_length=3)
    assert _answers(channel, queue, "123456") == ["ack"] * 6
    channel.expect_depth(queue, 3)
    assert channel.drain(queue) == ["4", "5", "6"]


@KINDS
def test_dropped_messages_are_dead_lettered(channel, name, kind):
    dead = channel.exclusive_queue()
    queue = _queue(channel, name, kind, x_max_length=2, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish_all("", queue, "12345")
    channel.expect_depth(dead, 3)
    assert channel.drain(dead) == ["1", "2", "3"]


@KINDS
def test_bytes_are_counted_too(channel, name, kind):
    queue = _queue(channel, name, kind, x_max_length_bytes=1000)
    channel.publish_all("", queue, ["a" * 300, "b" * 300, "c" * 300, "d" * 300, "e"])
    channel.expect_depth(queue, 4)
    assert [body[0] for body in channel.drain(queue)] == ["b", "c", "d", "e"]


def test_properties_are_not_counted(channel, name):
    # Of classic queues.
    queue = _queue(channel, name, x_max_length_bytes=10)
    channel.publish_all("", queue, ["aaaa", "bbbb"], {"headers": {"long": "x" * 100}, "message_id": "m" * 50})
    assert channel.depth(queue) == 2


def test_whichever_limit_is_hit_first_counts(channel, name):
    by_count = _queue(channel, name, x_max_length=2, x_max_length_bytes=100)
    by_bytes = _queue(channel, name, x_max_length=100, x_max_length_bytes=2)
    for queue in (by_count, by_bytes):
        channel.publish_all("", queue, "1234")
        assert channel.drain(queue) == ["3", "4"]


def test_unacked_messages_are_free(channel, name):
    queue = _queue(channel, name, x_max_length=2)
    channel.publish_all("", queue, "12")
    assert [channel.get(queue).body, channel.get(queue).body] == [b"1", b"2"]
    channel.publish_all("", queue, "34")
    assert channel.depth(queue) == 2


def test_a_requeue_over_the_limit_drops_the_oldest(channel, name):
    dead = channel.exclusive_queue()
    queue = _queue(channel, name, x_max_length=2, x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish_all("", queue, "12")
    assert [channel.get(queue).body, channel.get(queue).body] == [b"1", b"2"]
    channel.publish_all("", queue, "34")
    channel.nack(2, multiple=True)
    channel.expect_depth(dead, 2)
    assert (channel.drain(dead), channel.drain(queue)) == (["1", "2"], ["3", "4"])


def test_limit_0_keeps_nothing(channel, name):
    queue = _queue(channel, name, x_max_length=0)
    assert _answers(channel, queue, "12") == ["ack", "ack"]
    assert channel.depth(queue) == 0


def test_limit_0_delivers_to_a_waiting_consumer(channel, name):
    queue = _queue(channel, name, x_max_length=0)
    channel.consume(queue)
    channel.publish("", queue, "body")
    assert channel.bodies(1) == ["body"]


def test_a_single_message_above_the_bytes_is_dropped(channel, name):
    queue = _queue(channel, name, x_max_length_bytes=3)
    assert _answers(channel, queue, ["four"]) == ["ack"]
    assert channel.depth(queue) == 0


# --- reject-publish


def test_the_new_message_is_refused(channel, name):
    queue = _queue(channel, name, x_max_length=2, x_overflow="reject-publish")
    assert _answers(channel, queue, "1234") == ["ack", "ack", "nack", "nack"]
    assert channel.drain(queue) == ["1", "2"]


def test_without_confirms_it_is_refused_silently(channel, name):
    queue = _queue(channel, name, x_max_length=1, x_overflow="reject-publish")
    for body in ("1", "2"):
        channel.publish("", queue, body, mandatory=True)
    channel.expect_nothing(queue)
    assert channel.drain(queue) == ["1"]


def test_a_refused_message_is_not_dead_lettered(channel, name):
    dead = channel.exclusive_queue()
    queue = _queue(
        channel,
        name,
        x_max_length=1,
        x_overflow="reject-publish",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=dead,
    )
    assert _answers(channel, queue, "12") == ["ack", "nack"]
    channel.expect_nothing(dead)
    assert channel.depth(dead) == 0


def test_room_is_used_again(channel, name):
    queue = _queue(channel, name, x_max_length=1, x_overflow="reject-publish")
    assert _answers(channel, queue, "12") == ["ack", "nack"]
    assert channel.drain(queue) == ["1"]
    assert _answers(channel, queue, "3") == ["ack"]


def test_a_single_message_above_the_bytes_is_refused(channel, name):
    queue = _queue(channel, name, x_max_length_bytes=3, x_overflow="reject-publish")
    assert _answers(channel, queue, ["four", "one"]) == ["nack", "ack"]


def test_other_queues_keep_what_one_refuses(channel, name):
    exchange, full, taking = name(), _queue(channel, name, x_max_length=0, x_overflow="reject-publish"), name()
    channel.declare_queue(taking, durable=True)
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    for queue in (full, taking):
        channel.bind(queue, exchange)
    channel.publish(exchange, "", "body")
    channel.expect_nothing(taking)
    assert channel.drain(taking) == ["body"]


def test_a_quorum_queue_refuses_at_the_latest_a_little_above_the_limit(channel, name):
    queue = _queue(channel, name, "quorum", x_max_length=2, x_overflow="reject-publish")
    answers = _answers(channel, queue, "12345678")
    taken = answers.count("ack")
    # RabbitMQ notices one message late.
    assert 2 <= taken <= 4 and answers == ["ack"] * taken + ["nack"] * (8 - taken)
    channel.expect_depth(queue, taken)
    assert channel.drain(queue) == list("12345678"[:taken])


# --- reject-publish-dlx


def test_the_new_message_is_refused_and_dead_lettered(channel, name):
    dead = channel.exclusive_queue()
    queue = _queue(
        channel,
        name,
        x_max_length=1,
        x_overflow="reject-publish-dlx",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key=dead,
    )
    assert _answers(channel, queue, "123") == ["ack", "nack", "nack"]
    channel.expect_depth(dead, 2)
    message = channel.get(dead)
    assert (message.body, message.headers.plain()["x-first-death-reason"]) == (b"2", "maxlen")
    assert channel.drain(queue) == ["1"]


def test_without_a_dead_letter_exchange_it_is_refused(channel, name):
    queue = _queue(channel, name, x_max_length=1, x_overflow="reject-publish-dlx")
    assert _answers(channel, queue, "12") == ["ack", "nack"]


# --- priorities


@KINDS
def test_the_highest_priority_is_dropped_first(channel, name, kind):
    arguments = {"x_max_priority": 9} if kind == "classic" else {}
    queue = _queue(channel, name, kind, x_max_length=3, **arguments)
    for priority, body in [(1, "low"), (9, "high"), (5, "middle"), (1, "new")]:
        channel.publish_all("", queue, [body], {"priority": priority})
    channel.expect_depth(queue, 3)
    assert sorted(channel.drain(queue)) == ["low", "middle", "new"]


# --- what counts in a quorum queue: a body, and the properties as they were published

_PROPERTIES = pytest.mark.parametrize(
    "properties, size",
    [
        ({}, 2),
        ({"delivery_mode": 2}, 3),
        ({"message_id": "m" * 10, "expiration": "600000"}, 2 + 11 + 7),
        ({"headers": {"k": "v"}}, 2 + 4 + 8),
        ({"headers": {"k": "v", "BCC": ["nobody"]}}, 2 + 4 + 8),
        ({"headers": {"x-death": "mine"}}, 2 + 4 + 17),
    ],
    ids=["none", "mode", "strings", "headers", "bcc", "x-death"],
)


def _quorum_queues_around(channel, name, size) -> tuple[str, str]:
    """One that has just enough room for this many bytes, and one that has not."""
    return tuple(_queue(channel, name, "quorum", x_max_length_bytes=limit) for limit in (size, size - 1))


@_PROPERTIES
def test_properties_count_in_a_quorum_queue(channel, name, properties, size):
    wide, narrow = _quorum_queues_around(channel, name, size + 4)
    channel.publish_all("", wide, ["body"], properties)
    channel.publish_all("", narrow, ["body"], properties)
    assert channel.drain(narrow) == []
    assert channel.drain(wide) == ["body"]


@_PROPERTIES
def test_a_dead_letter_counts_in_a_quorum_queue_as_it_was_published(channel, name, properties, size):
    for kind in ("classic", "quorum"):
        wide, narrow = _quorum_queues_around(channel, name, size + 4)
        for queue in (narrow, wide):
            source = _queue(channel, name, kind, x_dead_letter_exchange="", x_dead_letter_routing_key=queue)
            channel.publish_all("", source, ["body"], properties)
            channel.reject(channel.await_message(source, no_ack=False).delivery_tag, requeue=False)
        channel.expect_depth(wide, 1)
        last = _queue(channel, name, kind, x_dead_letter_exchange="", x_dead_letter_routing_key=narrow)
        channel.publish_all("", last, [""], {})
        # Behind the one that had no room.
        channel.reject(channel.await_message(last, no_ack=False).delivery_tag, requeue=False)
        channel.expect_depth(narrow, 1)
        assert channel.drain(narrow) == [""]
        assert channel.drain(wide) == ["body"]
