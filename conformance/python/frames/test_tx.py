"""tx.select, tx.commit, tx.rollback."""

import pytest

pytestmark = pytest.mark.transactions


@pytest.fixture
def queue(channel) -> str:
    return channel.exclusive_queue()


@pytest.fixture
def tx(connection):
    tx = connection.channel()
    tx.call("tx.select")
    return tx


# --- modes


def test_select_may_be_repeated(tx, channel, queue):
    tx.publish("", queue, "body")
    tx.call("tx.select")
    tx.call("tx.commit")
    assert channel.drain(queue) == ["body"]


def test_select_on_a_confirm_channel_is_refused(channel):
    channel.select_confirms()
    channel.send("tx.select")
    channel.expect_close(406, "PRECONDITION_FAILED - cannot switch from confirm to tx mode", "tx.select")


def test_confirm_select_on_a_tx_channel_is_refused(tx):
    tx.send("confirm.select")
    tx.expect_close(406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode", "confirm.select")


@pytest.mark.parametrize("method", ["tx.commit", "tx.rollback"])
@pytest.mark.parametrize("confirm", [False, True], ids=["normal", "confirm"])
def test_a_channel_without_select_is_not_transactional(channel, method, confirm):
    if confirm:
        channel.select_confirms()
    channel.send(method)
    channel.expect_close(406, "PRECONDITION_FAILED - channel is not transactional", method)


def test_an_empty_transaction_may_be_committed_and_rolled_back(tx):
    for method in ("tx.commit", "tx.rollback", "tx.commit", "tx.rollback"):
        tx.call(method)


# --- publishing


def test_a_publish_is_invisible_until_commit(tx, channel, queue):
    tx.publish("", queue, "one")
    tx.publish("", queue, "two")
    tx.expect_nothing(queue)
    assert channel.depth(queue) == 0
    tx.call("tx.commit")
    assert channel.drain(queue) == ["one", "two"]


def test_a_rollback_drops_the_publishes(tx, channel, queue):
    tx.publish("", queue, "one")
    tx.call("tx.rollback")
    tx.publish("", queue, "two")
    tx.call("tx.commit")
    assert channel.drain(queue) == ["two"]


def test_the_next_transaction_starts_by_itself(tx, channel, queue):
    for body in ("one", "two"):
        tx.publish("", queue, body)
        tx.call("tx.commit")
    tx.publish("", queue, "three")
    tx.expect_nothing(queue)
    assert channel.drain(queue) == ["one", "two"]


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_a_commit_waits_for_queues_of_every_type(tx, name, kind):
    queue = name()
    tx.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    for number in range(20):
        tx.publish("", queue, str(number), {"delivery_mode": 2})
    tx.call("tx.commit")
    tx.prefetch(20)
    tx.consume(queue, arguments={"x-stream-offset": "first"} if kind == "stream" else {})
    assert tx.bodies(20) == [str(number) for number in range(20)]


def test_a_commit_may_reach_several_queues(tx, channel):
    queues = [channel.exclusive_queue() for _ in range(3)]
    for queue in queues:
        tx.publish("", queue, "body")
    tx.call("tx.commit")
    assert [channel.drain(queue) for queue in queues] == [["body"]] * 3


def test_returns_come_at_commit_before_commit_ok(tx, queue):
    tx.publish("", "nowhere", "one", mandatory=True)
    tx.publish("", queue, "two", mandatory=True)
    tx.publish("amq.direct", "nowhere", "three", mandatory=True)
    tx.expect_nothing()
    tx.send("tx.commit")
    returned = [tx.expect("basic.return") for _ in range(2)]
    assert [(message.reply_code, message.body) for message in returned] == [(312, b"one"), (312, b"three")]
    tx.expect("tx.commit-ok")


def test_a_rollback_returns_nothing(tx):
    tx.publish("", "nowhere", "body", mandatory=True)
    tx.send("tx.rollback")
    tx.expect("tx.rollback-ok")


@pytest.mark.parametrize(
    "exchange, properties, code",
    [
        ("there-is-no-such-exchange", {}, 404),
        ("", {"expiration": "bad"}, 406),
        ("", {"user_id": "other"}, 406),
    ],
    ids=["exchange", "expiration", "user id"],
)
def test_a_publish_is_checked_when_it_comes(tx, exchange, properties, code):
    tx.publish(exchange, "nowhere", "body", properties)
    close = tx.expect("channel.close")
    assert (close.reply_code, close.class_id, close.method_id) == (code, 60, 40)


def test_an_error_rolls_back(tx, channel, queue):
    tx.publish("", queue, "good")
    tx.publish("", queue, "bad", {"expiration": "bad"})
    tx.expect("channel.close")
    channel.expect_nothing(queue)
    assert channel.depth(queue) == 0


def test_closing_the_channel_rolls_back(tx, channel, queue):
    tx.publish("", queue, "body")
    tx.close()
    channel.expect_nothing(queue)
    assert channel.depth(queue) == 0


def test_losing_the_connection_rolls_back(connect, channel, name):
    queue, lost = name(), connect()
    channel.declare_queue(queue, durable=True)
    channel.publish_all("", queue, ["taken"])
    other = lost.channel()
    other.call("tx.select")
    other.publish("", queue, "published")
    assert other.get(queue).body == b"taken"
    other.ack(1)
    other.expect_nothing(queue)
    lost.abort()
    message = channel.await_message(queue)
    assert (message.body, message.redelivered) == (b"taken", True)
    assert channel.drain(queue) == []


def test_a_refusing_queue_makes_the_commit_fail(tx, channel, name):
    taking = name()
    channel.declare_queue(taking, exclusive=True)
    full = channel.exclusive_queue(x_max_length=1, x_overflow="reject-publish")
    channel.publish_all("", full, ["fills it"])
    tx.publish("", taking, "stays")
    tx.publish("", full, "is refused")
    tx.send("tx.commit")
    tx.expect_close(406, "PRECONDITION_FAILED - partial tx completion", "tx.commit")
    assert (channel.drain(taking), channel.drain(full)) == (["stays"], ["fills it"])


def test_the_ttl_starts_at_commit(tx, channel):
    # Expired long before the commit, had it started at the publish.
    dead, sentinel = channel.exclusive_queue(), channel.exclusive_queue()
    arguments = {"x-message-ttl": 300, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": sentinel}
    timer = channel.declare_queue(exclusive=True, arguments=arguments).queue
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    tx.publish("", queue, "body", {"expiration": "290"})
    channel.publish("", timer, "tick")
    channel.await_message(sentinel)
    tx.call("tx.commit")
    assert channel.get(queue).body == b"body"


# --- settling


@pytest.fixture
def filled(channel, queue) -> str:
    channel.publish_all("", queue, ["1", "2", "3"])
    return queue


def test_an_ack_counts_at_commit(tx, channel, filled):
    tx.consume(filled)
    tx.deliveries(3)
    tx.ack(2, multiple=True)
    tx.call("tx.commit")
    tx.close()
    channel.expect_depth(filled, 1)
    assert channel.drain(filled) == ["3"]


def test_an_ack_that_is_not_committed_does_not_count(tx, channel, filled):
    tx.consume(filled)
    tx.deliveries(3)
    tx.ack(2, multiple=True)
    tx.close()
    channel.expect_depth(filled, 3)
    assert channel.drain(filled) == ["1", "2", "3"]


@pytest.mark.parametrize("method", ["basic.ack", "basic.nack", "basic.reject"])
def test_a_rollback_makes_settled_messages_unacked_again(tx, channel, filled, method):
    assert tx.get(filled).delivery_tag == 1
    tx.send(method, delivery_tag=1)
    tx.call("tx.rollback")
    # Not back in the queue, and the tag is good again.
    assert channel.depth(filled) == 2
    tx.ack(1)
    tx.call("tx.commit")
    tx.close()
    channel.expect_nothing(filled)
    assert channel.drain(filled) == ["2", "3"]


@pytest.mark.parametrize("method", ["basic.nack", "basic.reject"])
def test_a_requeue_happens_at_commit(tx, channel, filled, method):
    tx.get(filled)
    tx.send(method, delivery_tag=1, requeue=True)
    tx.expect_nothing(filled)
    assert channel.depth(filled) == 2
    tx.call("tx.commit")
    channel.expect_depth(filled, 3)
    assert channel.drain(filled) == ["1", "2", "3"]


def test_a_drop_happens_at_commit(tx, channel):
    dead = channel.exclusive_queue()
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish_all("", queue, ["body"])
    tx.get(queue)
    tx.nack(1, requeue=False)
    tx.expect_nothing(queue)
    assert channel.depth(dead) == 0
    tx.call("tx.commit")
    assert channel.await_message(dead).body == b"body"


def test_an_unknown_tag_is_noticed_when_it_comes(tx):
    tx.ack(99)
    tx.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 99", "basic.ack")


def test_a_tag_settled_in_the_transaction_is_unknown(tx, filled):
    tx.get(filled)
    tx.ack(1)
    tx.ack(1)
    tx.expect_close(406, "PRECONDITION_FAILED - unknown delivery tag 1", "basic.ack")


def test_settling_does_not_make_room_before_commit(tx, filled):
    tx.prefetch(1)
    tx.consume(filled)
    assert tx.bodies(1) == ["1"]
    tx.ack(1)
    tx.expect_nothing(filled)
    tx.call("tx.commit")
    assert tx.bodies(1) == ["2"]


def test_delivery_tags_go_on_over_commits(tx, filled):
    tags = []
    for _ in range(3):
        tags.append(tx.get(filled).delivery_tag)
        tx.ack(tags[-1])
        tx.call("tx.commit")
    assert tags == [1, 2, 3]


# --- what is not transactional


def test_everything_else_acts_at_once(tx, channel, name):
    queue = name()
    tx.declare_queue(queue, exclusive=True)
    tx.bind(queue, "amq.direct", queue)
    channel.publish_all("amq.direct", queue, ["got", "consumed"])
    assert tx.get(queue).body == b"got"
    tx.consume(queue)
    assert tx.bodies(1) == ["consumed"]
    tx.call("basic.recover", requeue=True)
    assert tx.bodies(2) == ["got", "consumed"]
    tx.call("tx.rollback")
    assert channel.queue_exists(queue)


def test_publish_and_ack_are_committed_together(tx, channel, filled):
    target = channel.exclusive_queue()
    message = tx.get(filled)
    tx.publish("", target, message.body)
    tx.ack(message.delivery_tag)
    tx.expect_nothing(filled)
    assert (channel.depth(target), channel.depth(filled)) == (0, 2)
    tx.call("tx.commit")
    tx.close()
    channel.expect_nothing(filled)
    assert (channel.drain(target), channel.drain(filled)) == (["1"], ["2", "3"])
