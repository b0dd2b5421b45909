"""Message TTL, of the queue and of the message. Bad values are in test_publish.py and test_queue_arguments.py.

Time is measured with the broker's own means: a message that expires in a queue of its own and arrives elsewhere.
"""

import pytest

pytestmark = pytest.mark.expiry


def wait(channel, milliseconds: int) -> None:
    """Lets the broker's time pass: returns when a message of that TTL has expired."""
    bell = channel.exclusive_queue()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": bell}
    clock = channel.declare_queue(exclusive=True, arguments=arguments).queue
    channel.publish("", clock, "tick", {"expiration": str(milliseconds)})
    channel.await_message(bell)


@pytest.fixture
def dead(channel) -> str:
    """Where expired messages arrive."""
    return channel.exclusive_queue()


def _queue(channel, name, dead=None, kind="classic", **arguments) -> str:
    queue = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()} | {"x-queue-type": kind}
    if dead is not None:
        named |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue(queue, durable=True, arguments=named)
    return queue


KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


@KINDS
def test_a_message_leaves_after_the_ttl_of_its_queue(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind, x_message_ttl=50)
    channel.publish("", queue, "body")
    assert channel.await_message(dead).body == b"body"
    channel.expect_depth(queue, 0)


@KINDS
def test_a_message_leaves_after_its_own_ttl(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind)
    channel.publish("", queue, "body", {"expiration": "50"})
    assert channel.await_message(dead).body == b"body"
    channel.expect_depth(queue, 0)


@pytest.mark.parametrize("own, of_queue", [("50", 60000), ("60000", 50)])
def test_the_smaller_ttl_counts(channel, name, dead, own, of_queue):
    queue = _queue(channel, name, dead, x_message_ttl=of_queue)
    channel.publish("", queue, "body", {"expiration": own})
    assert channel.await_message(dead).body == b"body"


@KINDS
def test_a_message_within_its_ttl_is_delivered(channel, name, kind):
    queue = _queue(channel, name, kind=kind, x_message_ttl=60000)
    channel.publish("", queue, "body", {"expiration": "50000"})
    message = channel.await_message(queue)
    assert (message.body, message.properties) == (b"body", {"expiration": "50000"})


@KINDS
def test_an_expired_message_is_not_delivered(channel, name, kind):
    queue = _queue(channel, name, kind=kind)
    channel.publish("", queue, "short", {"expiration": "50"})
    channel.publish("", queue, "long", {"expiration": "60000"})
    wait(channel, 150)
    channel.consume(queue)
    assert channel.bodies(1) == ["long"]


@KINDS
def test_ttl_0_delivers_to_a_waiting_consumer(channel, name, kind):
    queue = _queue(channel, name, kind=kind)
    channel.consume(queue)
    channel.publish("", queue, "body", {"expiration": "0"})
    assert channel.bodies(1) == ["body"]


@KINDS
def test_ttl_0_without_a_consumer_expires(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind)
    channel.publish("", queue, "body", {"expiration": "0"})
    assert channel.await_message(dead).body == b"body"


def test_ttl_0_of_a_queue_makes_it_a_mere_passage(channel, name):
    queue = _queue(channel, name, x_message_ttl=0)
    channel.publish("", queue, "nobody there")
    channel.prefetch(1)
    channel.consume(queue)
    channel.publish("", queue, "taken")
    channel.publish("", queue, "consumer busy")
    assert channel.bodies(1) == ["taken"]
    channel.ack(1)
    channel.expect_nothing(queue)


def test_a_requeued_message_of_ttl_0_expires(channel, name, dead):
    queue = _queue(channel, name, dead)
    channel.prefetch(1)
    channel.consume(queue, "t")
    channel.publish("", queue, "body", {"expiration": "0"})
    channel.deliveries(1)
    channel.call("basic.cancel", consumer_tag="t")
    channel.nack(1)
    assert channel.await_message(dead).body == b"body"


@KINDS
def test_time_spent_unacked_counts(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind, x_message_ttl=100)
    channel.consume(queue, "t")
    channel.publish("", queue, "body")
    channel.deliveries(1)
    channel.call("basic.cancel", consumer_tag="t")
    wait(channel, 200)
    channel.expect_nothing(dead)
    assert channel.depth(dead) == 0
    channel.nack(1)
    assert channel.await_message(dead).body == b"body"


def test_an_unacked_message_does_not_expire(channel, name, dead):
    queue = _queue(channel, name, dead, x_message_ttl=50)
    channel.consume(queue)
    channel.publish("", queue, "body")
    channel.deliveries(1)
    wait(channel, 200)
    channel.ack(1)
    channel.expect_nothing(queue)
    assert channel.depth(dead) == 0


@KINDS
def test_messages_leave_in_order(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind, x_message_ttl=50)
    bodies = [str(number) for number in range(50)]
    channel.publish_all("", queue, bodies)
    channel.expect_depth(dead, 50)
    assert channel.drain(dead) == bodies


@KINDS
def test_an_expired_message_behind_a_living_one_is_never_delivered(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind)
    channel.publish("", queue, "living")
    channel.publish("", queue, "dying", {"expiration": "50"})
    wait(channel, 200)
    # RabbitMQ looks at the head only, so the dying one may still be there; it must not be seen.
    assert channel.await_message(queue).body == b"living"
    assert channel.await_message(dead).body == b"dying"
    assert channel.get(queue) is None


@pytest.mark.beyond
@KINDS
def test_an_expired_message_leaves_whatever_stands_before_it(channel, name, dead, kind):
    queue = _queue(channel, name, dead, kind)
    channel.publish("", queue, "living")
    channel.publish("", queue, "dying", {"expiration": "50"})
    channel.publish("", queue, "living too")
    assert channel.await_message(dead).body == b"dying"
    assert channel.drain(queue) == ["living", "living too"]


@KINDS
def test_expiry_at_the_head_only_leaves_and_counts_what_stands_behind(channel, name, dead, kind):
    # RabbitMQ does not know the argument and does nothing else.
    queue = _queue(channel, name, dead, kind, x_expiry="lazy")
    channel.publish("", queue, "living")
    channel.publish("", queue, "dying", {"expiration": "50"})
    wait(channel, 200)
    assert (channel.depth(queue), channel.depth(dead)) == (2, 0)


def test_each_queue_counts_for_itself(channel, name, dead):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    short, long = _queue(channel, name, dead, x_message_ttl=50), _queue(channel, name, x_message_ttl=60000)
    for queue in (short, long):
        channel.bind(queue, exchange)
    channel.publish(exchange, "", "body")
    channel.await_message(dead)
    assert (channel.drain(short), channel.drain(long)) == ([], ["body"])


def test_the_longest_ttl_is_not_short(channel, name, dead):
    queue = _queue(channel, name, dead, x_message_ttl=315360000000)
    channel.publish("", queue, "body", {"expiration": "315360000000"})
    wait(channel, 50)
    assert channel.drain(queue) == ["body"]


@pytest.mark.parametrize("sent, delivered", [("+60000", "60000"), ("0060000", "60000")])
def test_an_expiration_arrives_as_a_plain_number(channel, sent, delivered):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body", {"expiration": sent})
    assert channel.await_message(queue).properties == {"expiration": delivered}


def test_what_is_over_behind_a_got_message_is_not_left(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "first")
    channel.publish("", queue, "second", {"expiration": "0"})
    assert channel.get(queue).message_count == 0


@pytest.mark.parametrize("kind, left", [("classic", 2), ("quorum", 1)])
def test_expiry_at_the_head_only_looks_at_the_head_of_all_or_of_each_priority(channel, name, dead, kind, left):
    arguments = {"x_max_priority": 9} if kind == "classic" else {}
    queue = _queue(channel, name, dead, kind, x_expiry="lazy", **arguments)
    channel.publish("", queue, "living", {"priority": 9})
    channel.publish("", queue, "dying", {"priority": 1, "expiration": "50"})
    wait(channel, 200)
    channel.expect_depth(queue, left)
    channel.expect_depth(dead, 2 - left)
