"""queue.purge and queue.delete."""

import pytest

pytestmark = pytest.mark.queues


def _filled(channel, name, bodies=("one", "two", "three"), **arguments) -> str:
    queue = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, durable=True, arguments=named)
    channel.publish_all("", queue, bodies)
    return queue


# --- purge


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_purge_removes_and_counts_the_ready_messages(channel, name, kind):
    queue = _filled(channel, name, x_queue_type=kind)
    channel.expect_depth(queue, 3)
    assert channel.call("queue.purge", queue=queue).message_count == 3
    channel.expect_depth(queue, 0)
    assert channel.call("queue.purge", queue=queue).message_count == 0


def test_purge_leaves_unacked_messages_alone(channel, name):
    queue = _filled(channel, name)
    held = channel.get(queue)
    assert channel.call("queue.purge", queue=queue).message_count == 2
    channel.nack(held.delivery_tag)
    channel.expect_depth(queue, 1)
    assert channel.get(queue).body == b"one"


def test_purge_of_a_missing_queue_is_not_found(channel, name):
    queue = name()
    channel.send("queue.purge", queue=queue)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "queue.purge")


def test_purge_does_not_remove_line_ends_from_names(channel, name):
    queue = _filled(channel, name)
    channel.send("queue.purge", queue=queue + "\n")
    text = f"NOT_FOUND - no queue '{queue}\n' in vhost '{channel.vhost}'"
    channel.expect_close(404, text, "queue.purge")


def test_a_stream_cannot_be_purged(connection, channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": "stream"})
    channel.send("queue.purge", queue=queue)
    where = f"queue '{queue}' in vhost '{channel.vhost}'"
    connection.expect_close(540, f"NOT_IMPLEMENTED - queue.purge not supported by stream queues {where}", "queue.purge")


def test_purged_messages_are_not_dead_lettered(channel, name):
    target = channel.exclusive_queue()
    queue = _filled(channel, name, x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    channel.call("queue.purge", queue=queue)
    channel.expect_nothing(queue)
    assert channel.depth(target) == 0


# --- delete


def test_delete_counts_the_ready_messages(channel, name):
    queue = _filled(channel, name)
    assert channel.get(queue).body == b"one"
    assert channel.call("queue.delete", queue=queue).message_count == 2
    assert not channel.queue_exists(queue)


def test_delete_of_a_quorum_queue_removes_it(channel, name):
    queue = _filled(channel, name, x_queue_type="quorum")
    channel.call("queue.delete", queue=queue)
    assert not channel.queue_exists(queue)


def test_deleting_a_missing_queue_counts_nothing(channel, name):
    assert channel.call("queue.delete", queue=name()).message_count == 0
    assert channel.call("queue.delete", queue=name(), if_unused=True, if_empty=True).message_count == 0


def test_if_unused_refuses_a_queue_with_consumers(channel, name):
    queue = _filled(channel, name, [])
    channel.consume(queue)
    channel.send("queue.delete", queue=queue, if_unused=True)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{channel.vhost}' in use"
    channel.expect_close(406, text, "queue.delete")


def test_if_unused_deletes_a_queue_without_consumers(channel, name):
    queue = _filled(channel, name)
    assert channel.call("queue.delete", queue=queue, if_unused=True).message_count == 3


def test_if_empty_refuses_a_queue_with_ready_messages(channel, name):
    queue = _filled(channel, name)
    channel.send("queue.delete", queue=queue, if_empty=True)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{channel.vhost}' not empty"
    channel.expect_close(406, text, "queue.delete")


def test_if_empty_deletes_a_queue_with_unacked_messages_only(channel, name):
    queue = _filled(channel, name, ["one"])
    assert channel.get(queue).body == b"one"
    channel.call("queue.delete", queue=queue, if_empty=True)
    assert not channel.queue_exists(queue)


def test_if_empty_is_checked_before_if_unused(connection, name):
    channel, other = connection.channel(), connection.channel()
    queue = _filled(channel, name)
    channel.prefetch(1)
    channel.consume(queue)
    channel.expect("basic.deliver")
    other.send("queue.delete", queue=queue, if_unused=True, if_empty=True)
    text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '{channel.vhost}' not empty"
    other.expect_close(406, text, "queue.delete")


@pytest.mark.parametrize("flag", ["if_empty", "if_unused"])
def test_a_quorum_queue_knows_no_conditions(connection, channel, name, flag):
    queue = _filled(channel, name, [], x_queue_type="quorum")
    channel.send("queue.delete", queue=queue, **{flag: True})
    text = (
        f"NOT_IMPLEMENTED - cannot delete queue '{queue}' in vhost '{channel.vhost}'. "
        f"queue.delete operations with {flag.replace('_', '-')} flag set are not supported by quorum queues"
    )
    connection.expect_close(540, text, "queue.delete")


def test_a_stream_ignores_the_conditions(channel, name):
    queue = _filled(channel, name, x_queue_type="stream")
    channel.call("queue.delete", queue=queue, if_empty=True, if_unused=True)
    assert not channel.queue_exists(queue)


def test_consumers_on_the_deleting_channel_are_cancelled_after_delete_ok(channel, name):
    queue = _filled(channel, name, [])
    channel.consume(queue, "mine")
    channel.send("queue.delete", queue=queue)
    channel.expect("queue.delete-ok")
    cancel = channel.expect("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("mine", True)
    channel.expect_nothing()


def test_consumers_on_other_connections_are_cancelled(connect, channel, name):
    queue, other = _filled(channel, name, []), connect().channel()
    other.consume(queue, "theirs")
    channel.call("queue.delete", queue=queue)
    cancel = other.expect("basic.cancel")
    assert (cancel.consumer_tag, cancel.nowait) == ("theirs", True)
    other.expect_nothing()


def test_consumers_that_cannot_take_a_cancel_are_not_told(connect, channel, name):
    queue, other = _filled(channel, name, []), connect(capabilities={}).channel()
    other.consume(queue, "theirs")
    channel.call("queue.delete", queue=queue)
    other.expect_nothing()


def test_deleted_messages_are_not_dead_lettered(channel, name):
    target = channel.exclusive_queue()
    queue = _filled(channel, name, x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    channel.call("queue.delete", queue=queue)
    channel.expect_nothing(target)
    assert channel.depth(target) == 0


def test_an_ack_for_a_deleted_queue_is_accepted_once(channel, name):
    queue = _filled(channel, name, ["one"])
    tag = channel.get(queue).delivery_tag
    channel.call("queue.delete", queue=queue)
    channel.ack(tag)
    channel.expect_nothing()
    channel.ack(tag)
    channel.expect_close(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}", "basic.ack")


def test_a_queue_of_the_same_name_is_a_new_one(channel, name):
    queue = _filled(channel, name)
    channel.call("queue.delete", queue=queue)
    answer = channel.declare_queue(queue, exclusive=True, arguments={"x-max-length": 1})
    assert (answer.message_count, answer.consumer_count) == (0, 0)
