"""Dead-letter exchanges: when, where to, with which headers, and when not again."""

import time

import pytest

from .test_ttl import wait
from .wire import Value

pytestmark = pytest.mark.dead_lettering

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])


class Sick:
    """A queue with a dead-letter exchange, a fanout with one queue behind it."""

    def __init__(self, channel, name, kind="classic", **arguments):
        self.channel = channel
        self.exchange, self.queue, self.dead = name(".dlx"), name(".sick"), name(".dead")
        channel.call("exchange.declare", exchange=self.exchange, type="fanout")
        channel.declare_queue(self.dead, durable=True)
        channel.bind(self.dead, self.exchange)
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        named |= {"x-queue-type": kind, "x-dead-letter-exchange": self.exchange}
        channel.declare_queue(self.queue, durable=True, arguments=named)

    def reject(self, body="body", properties={}, exchange="", key=None):
        """Publishes a message and rejects it; returns it as it comes out of the dead-letter queue."""
        self.channel.publish(exchange, self.queue if key is None else key, body, properties)
        taken = self.channel.await_message(self.queue, no_ack=False)
        self.channel.reject(taken.delivery_tag, requeue=False)
        return self.channel.await_message(self.dead)


# --- when


@KINDS
@pytest.mark.parametrize("method", ["basic.reject", "basic.nack"])
def test_a_rejected_message_is_dead_lettered(channel, name, kind, method):
    sick = Sick(channel, name, kind)
    channel.publish("", sick.queue, "body", {"message_id": "m"})
    tag = channel.await_message(sick.queue, no_ack=False).delivery_tag
    channel.send(method, delivery_tag=tag, requeue=False)
    message = channel.await_message(sick.dead)
    assert (message.body, message.properties["message_id"]) == (b"body", "m")
    assert message.headers.plain()["x-first-death-reason"] == "rejected"


@KINDS
def test_an_expired_message_is_dead_lettered(channel, name, kind):
    sick = Sick(channel, name, kind, x_message_ttl=50)
    channel.publish("", sick.queue, "body")
    assert channel.await_message(sick.dead).headers.plain()["x-first-death-reason"] == "expired"


@KINDS
def test_a_message_that_does_not_fit_is_dead_lettered(channel, name, kind):
    sick = Sick(channel, name, kind, x_max_length=1)
    channel.publish_all("", sick.queue, ["one", "two"])
    message = channel.await_message(sick.dead)
    assert (message.body, message.headers.plain()["x-first-death-reason"]) == (b"one", "maxlen")


@KINDS
def test_an_acked_or_requeued_message_is_not_dead_lettered(channel, name, kind):
    sick = Sick(channel, name, kind)
    channel.publish_all("", sick.queue, ["acked", "requeued"])
    channel.ack(channel.await_message(sick.queue, no_ack=False).delivery_tag)
    channel.nack(channel.await_message(sick.queue, no_ack=False).delivery_tag)
    assert channel.await_message(sick.queue).body == b"requeued"
    channel.expect_nothing(sick.dead)
    assert channel.depth(sick.dead) == 0


def test_without_a_dead_letter_exchange_a_rejected_message_is_gone(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    assert channel.get(queue) is None


def test_several_rejected_at_once_arrive_in_order(channel, name):
    sick, bodies = Sick(channel, name), [str(number) for number in range(50)]
    channel.publish_all("", sick.queue, bodies)
    channel.consume(sick.queue)
    channel.deliveries(50)
    channel.nack(0, multiple=True, requeue=False)
    channel.expect_depth(sick.dead, 50)
    assert channel.drain(sick.dead) == bodies


# --- where to


def test_a_missing_exchange_means_silent_loss(channel, name):
    queue = channel.exclusive_queue(x_dead_letter_exchange=name())
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    channel.expect_nothing(queue)
    assert channel.get(queue) is None


def test_the_exchange_may_be_declared_later(channel, name):
    exchange, dead = name(), channel.exclusive_queue()
    queue = channel.exclusive_queue(x_dead_letter_exchange=exchange)
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    channel.bind(dead, exchange)
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    assert channel.await_message(dead).body == b"body"


def test_the_envelope_shows_the_dead_letter_exchange_and_the_own_key(channel, name):
    sick = Sick(channel, name)
    channel.bind(sick.queue, "amq.direct", sick.queue + ".key")
    message = sick.reject(exchange="amq.direct", key=sick.queue + ".key")
    assert (message.exchange, message.routing_key) == (sick.exchange, sick.queue + ".key")


def test_a_key_of_the_queue_replaces_the_own_key(channel, name):
    sick = Sick(channel, name, x_dead_letter_routing_key="other")
    message = sick.reject()
    assert (message.exchange, message.routing_key) == (sick.exchange, "other")


def test_the_default_exchange_may_be_the_dead_letter_exchange(channel):
    dead = channel.exclusive_queue()
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=dead)
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    message = channel.await_message(dead)
    assert (message.exchange, message.routing_key) == ("", dead)


def _keyed(channel, name, **arguments):
    """A queue whose dead letters go to a direct exchange, and a queue there for each key."""
    exchange, queue = name(), name()
    channel.call("exchange.declare", exchange=exchange, type="direct")
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, exclusive=True, arguments={"x-dead-letter-exchange": exchange} | named)
    dead = {key: channel.exclusive_queue() for key in (queue, "cc", "bcc", "fixed")}
    for key, each in dead.items():
        channel.bind(each, exchange, key)
    headers = {"CC": ["cc"], "BCC": ["bcc"]}
    channel.publish("", queue, "body", {"headers": headers})
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    return queue, dead


def test_cc_and_bcc_keys_are_used_too(channel, name):
    queue, dead = _keyed(channel, name)
    for key in (queue, "cc", "bcc"):
        assert channel.await_message(dead[key]).routing_key == queue
    assert channel.get(dead["fixed"]) is None


def test_a_key_of_the_queue_is_used_alone(channel, name):
    queue, dead = _keyed(channel, name, x_dead_letter_routing_key="fixed")
    message = channel.await_message(dead["fixed"])
    # CC stays to be seen.
    assert message.headers.plain()["CC"] == ["cc"]
    channel.expect_nothing(dead["cc"])
    assert [channel.get(dead[key]) for key in (queue, "cc", "bcc")] == [None] * 3


def test_the_alternate_exchange_of_the_dead_letter_exchange_is_asked(channel, name):
    alternate, exchange, dead = name(), name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=alternate, type="fanout")
    channel.call("exchange.declare", exchange=exchange, arguments={"alternate-exchange": alternate})
    channel.bind(dead, alternate)
    queue = channel.exclusive_queue(x_dead_letter_exchange=exchange)
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    assert channel.await_message(dead).body == b"body"


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_the_target_may_be_of_any_type(channel, name, kind):
    target = name()
    channel.declare_queue(target, durable=True, arguments={"x-queue-type": kind})
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    channel.publish("", queue, "body")
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    channel.prefetch(1)
    channel.consume(target, arguments={"x-stream-offset": "first"} if kind == "stream" else {})
    assert channel.bodies(1) == ["body"]


def test_at_least_once_reaches_the_target_too(channel, name):
    dead, queue = name(), name()
    channel.declare_queue(dead, durable=True)
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": dead,
    }
    channel.declare_queue(queue, durable=True, arguments=arguments)
    channel.publish("", queue, "body")
    channel.reject(channel.await_message(queue, no_ack=False).delivery_tag, requeue=False)
    [death] = channel.await_message(dead).headers.plain()["x-death"]
    assert (death["queue"], death["reason"]) == (queue, "rejected")


def _at_least_once(channel, name, **arguments):
    """A queue whose dead messages have nowhere to go yet."""
    queue, exchange = name(), name()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    asked = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": exchange,
    }
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, durable=True, arguments=asked | named)
    return queue, exchange


def _reject(channel, queue, *bodies):
    for body in bodies:
        channel.publish("", queue, body)
        channel.reject(channel.await_message(queue, no_ack=False).delivery_tag, requeue=False)


def test_at_least_once_dead_messages_without_a_route_count_to_the_limit(channel, name):
    queue, _ = _at_least_once(channel, name, x_max_length=2)
    _reject(channel, queue, "one", "two")
    channel.expect_depth(queue, 0)
    channel.select_confirms()

    def is_refused(number):
        channel.publish("", queue, "more")
        return channel.confirms(number, number)[number] == "nack"

    # Without them two would fit. RabbitMQ lets a few more in before it refuses.
    assert any(is_refused(number) for number in range(1, 20))
    assert channel.depth(queue) < 20


@pytest.mark.beyond  # RabbitMQ tries again after 3 minutes.
def test_at_least_once_a_message_without_a_route_arrives_when_there_is_one(channel, name):
    queue, exchange = _at_least_once(channel, name)
    _reject(channel, queue, "one", "two")
    dead = channel.exclusive_queue()
    channel.bind(dead, exchange)
    for body in (b"one", b"two"):
        message = channel.await_message(dead)
        [death] = message.headers.plain()["x-death"]
        assert (message.body, death["count"], death["queue"]) == (body, 1, queue)
    channel.expect_nothing(dead)


@pytest.mark.beyond
def test_at_least_once_a_full_target_gets_the_message_when_it_has_room_and_others_get_it_once(channel, name):
    queue, exchange = _at_least_once(channel, name)
    open_to_all, full = channel.exclusive_queue(), name()
    channel.declare_queue(full, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for target in (open_to_all, full):
        channel.bind(target, exchange)
    channel.publish("", full, "in the way")
    _reject(channel, queue, "one")
    assert channel.await_message(open_to_all).body == b"one"
    assert channel.await_message(full).body == b"in the way"
    assert channel.await_message(full).body == b"one"
    channel.expect_nothing(open_to_all)


# --- properties and headers


def test_properties_survive_except_the_expiration(channel, name):
    sent = {"delivery_mode": 2, "priority": 3, "message_id": "m", "expiration": "60000", "type": "t", "timestamp": 5}
    received = Sick(channel, name).reject(properties=sent).properties
    headers = received.pop("headers")
    assert received == {key: value for key, value in sent.items() if key != "expiration"}
    assert "x-death" in headers


@pytest.mark.parametrize("how", ["expired", "maxlen", "delivery limit"])
def test_the_expiration_is_gone_whatever_the_death(channel, name, how):
    if how == "delivery limit":
        sick = Sick(channel, name, "quorum", x_delivery_limit=0)
    else:
        sick = Sick(channel, name, **({"x_max_length": 0} if how == "maxlen" else {}))
    channel.publish("", sick.queue, "body", {"expiration": "50" if how == "expired" else "60000", "delivery_mode": 2})
    if how == "delivery limit":
        channel.reject(channel.await_message(sick.queue, no_ack=False).delivery_tag)
    properties = channel.await_message(sick.dead).properties
    assert properties.keys() == {"headers", "delivery_mode"} and properties["delivery_mode"] == 2
    [death] = properties["headers"].plain()["x-death"]
    assert death["original-expiration"] == ("50" if how == "expired" else "60000")


def test_own_headers_survive(channel, name):
    received = Sick(channel, name).reject(properties={"headers": {"mine": 1, "x-mine": [1, {"a": None}]}})
    assert received.headers.value("mine") == Value("I", 1)
    assert received.headers.plain()["x-mine"] == [1, {"a": None}]


@KINDS
def test_x_death_tells_the_death(channel, name, kind):
    sick, before = Sick(channel, name, kind), int(time.time())
    [death] = sick.reject().headers.value("x-death").value
    assert death.letter == "F"
    fields = {key: value for key, value in death.value}
    when = fields.pop("time")
    assert when.letter == "T" and abs(when.value - before) < 60
    assert fields == {
        "count": Value("l", 1),
        "reason": Value("S", "rejected"),
        "queue": Value("S", sick.queue),
        "exchange": Value("S", ""),
        "routing-keys": Value("A", [Value("S", sick.queue)]),
    }


def test_the_fields_of_x_death_have_their_order(channel, name):
    [death] = Sick(channel, name).reject(properties={"expiration": "60000"}).headers.value("x-death").value
    fields = ["original-expiration", "count", "reason", "queue", "time", "exchange", "routing-keys"]
    assert death.value.keys() == fields
    assert death.value.value("original-expiration") == Value("S", "60000")


def test_x_death_lists_cc_but_not_bcc(channel, name):
    sick = Sick(channel, name)
    headers = {"CC": ["cc"], "BCC": ["bcc"]}
    [death] = sick.reject(properties={"headers": headers}).headers.plain()["x-death"]
    assert death["routing-keys"] == [sick.queue, "cc"]


@KINDS
def test_first_and_last_death_are_strings_of_their_own(channel, name, kind):
    sick = Sick(channel, name, kind)
    headers = sick.reject().headers
    for which in ("first", "last"):
        assert headers.value(f"x-{which}-death-exchange") == Value("S", "")
        assert headers.value(f"x-{which}-death-queue") == Value("S", sick.queue)
        assert headers.value(f"x-{which}-death-reason") == Value("S", "rejected")


def test_a_quorum_queues_delivery_count_does_not_survive(channel, name):
    sick = Sick(channel, name, "quorum")
    channel.publish("", sick.queue, "body")
    channel.reject(channel.await_message(sick.queue, no_ack=False).delivery_tag, requeue=True)
    again = channel.await_message(sick.queue, no_ack=False)
    assert "x-delivery-count" in again.headers
    channel.reject(again.delivery_tag, requeue=False)
    headers = channel.await_message(sick.dead).headers
    assert "x-delivery-count" not in headers and "x-acquired-count" not in headers


@pytest.mark.beyond
def test_a_queue_counts_from_zero_whatever_the_queue_before_counted(channel, name):
    # RabbitMQ has the counts of one quorum queue go on in the next, where they use up its limit.
    sick, target = name(), name()
    channel.declare_queue(target, durable=True, arguments={"x-queue-type": "quorum", "x-delivery-limit": 1})
    arguments = {"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    channel.declare_queue(sick, durable=True, arguments=arguments)
    channel.publish("", sick, "body")
    for requeue in (True, True, False):
        channel.reject(channel.await_message(sick, no_ack=False).delivery_tag, requeue=requeue)
    first = channel.await_message(target, no_ack=False)
    assert "x-delivery-count" not in first.headers and "x-acquired-count" not in first.headers
    channel.reject(first.delivery_tag)
    again = channel.await_message(target, no_ack=False)
    assert again.headers.plain()["x-delivery-count"] == 1


# --- several deaths


def _loop(channel, name, **arguments) -> tuple[str, str]:
    """A queue for work whose rejects wait in another and come back."""
    work, waiting = name(".work"), name(".wait")
    back = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": work, "x-message-ttl": 30}
    channel.declare_queue(waiting, durable=True, arguments=back)
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    there = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": waiting}
    channel.declare_queue(work, durable=True, arguments=there | named)
    return work, waiting


def test_a_loop_with_a_reject_goes_on_and_counts(channel, name):
    work, waiting = _loop(channel, name)
    channel.publish("", work, "body")
    for _ in range(4):
        message = channel.await_message(work, no_ack=False)
        channel.reject(message.delivery_tag, requeue=False)
    deaths = channel.await_message(work).headers.plain()["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        (waiting, "expired", 4),
        (work, "rejected", 4),
    ]


def test_first_death_stays_and_last_death_moves(channel, name):
    work, waiting = _loop(channel, name)
    channel.publish("amq.direct", "nowhere", "body")
    channel.bind(work, "amq.direct", work)
    channel.publish("amq.direct", work, "body")
    channel.reject(channel.await_message(work, no_ack=False).delivery_tag, requeue=False)
    headers = channel.await_message(work).headers.plain()
    first = {part: headers[f"x-first-death-{part}"] for part in ("exchange", "queue", "reason")}
    last = {part: headers[f"x-last-death-{part}"] for part in ("exchange", "queue", "reason")}
    assert first == {"exchange": "amq.direct", "queue": work, "reason": "rejected"}
    assert last == {"exchange": "", "queue": waiting, "reason": "expired"}


def test_an_entry_tells_where_the_message_was_before_that_death(channel, name):
    work, waiting = _loop(channel, name)
    channel.bind(work, "amq.direct", work + ".key")
    channel.publish("amq.direct", work + ".key", "body")
    channel.reject(channel.await_message(work, no_ack=False).delivery_tag, requeue=False)
    newest, oldest = channel.await_message(work).headers.plain()["x-death"]
    assert (newest["exchange"], newest["routing-keys"]) == ("", [waiting])
    assert (oldest["exchange"], oldest["routing-keys"]) == ("amq.direct", [work + ".key"])


def test_an_entry_that_counts_again_moves_to_the_front_and_keeps_the_rest(channel, name):
    sick = Sick(channel, name)
    other = name()
    # From the dead-letter queue back, by another reject.
    channel.declare_queue(
        other, durable=True, arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": sick.queue}
    )
    channel.bind(other, sick.exchange)
    channel.publish("amq.direct", sick.queue, "nowhere")
    channel.bind(sick.queue, "amq.direct", sick.queue)
    channel.publish("amq.direct", sick.queue, "body")
    channel.reject(channel.await_message(sick.queue, no_ack=False).delivery_tag, requeue=False)
    [first] = channel.await_message(sick.dead).headers.plain()["x-death"]
    channel.reject(channel.await_message(other, no_ack=False).delivery_tag, requeue=False)
    # Its time is told in seconds.
    wait(channel, 1100)
    channel.reject(channel.await_message(sick.queue, no_ack=False).delivery_tag, requeue=False)
    newest, older = channel.await_message(sick.dead).headers.plain()["x-death"]
    assert newest == first | {"count": 2}
    assert (newest["exchange"], newest["routing-keys"]) == ("amq.direct", [sick.queue])
    assert (older["queue"], older["count"]) == (other, 1)


def test_each_reason_has_an_entry_of_its_own(channel, name):
    sick = Sick(channel, name, x_message_ttl=50)
    # Expires in the queue, comes back, and is rejected there.
    channel.bind(sick.queue, sick.exchange)
    channel.call("queue.unbind", queue=sick.dead, exchange=sick.exchange)
    holder = channel.connection.channel()
    holder.consume(sick.queue)
    channel.publish("", sick.queue, "body")
    holder.reject(holder.expect("basic.deliver").delivery_tag, requeue=False)
    back = holder.expect("basic.deliver")
    channel.bind(sick.dead, sick.exchange)
    channel.call("queue.unbind", queue=sick.queue, exchange=sick.exchange)
    holder.call("basic.cancel", consumer_tag=back.consumer_tag)
    holder.nack(back.delivery_tag)
    deaths = channel.await_message(sick.dead).headers.plain()["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        (sick.queue, "expired", 1),
        (sick.queue, "rejected", 1),
    ]


@KINDS
def test_a_loop_without_a_reject_ends(channel, name, kind):
    dead_end = name()
    arguments = {"x-queue-type": kind, "x-message-ttl": 30, "x-dead-letter-exchange": ""}
    channel.declare_queue(dead_end, durable=True, arguments=arguments)
    channel.publish("", dead_end, "body")
    wait(channel, 150)
    channel.expect_depth(dead_end, 0)


def test_a_loop_over_two_queues_without_a_reject_ends(channel, name):
    one, two = name(), name()
    for queue, other in ((one, two), (two, one)):
        arguments = {"x-message-ttl": 30, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": other}
        channel.declare_queue(queue, durable=True, arguments=arguments)
    channel.publish("", one, "body")
    wait(channel, 200)
    channel.expect_depth(one, 0)
    channel.expect_depth(two, 0)


def test_a_queue_outside_the_loop_still_gets_the_message(channel, name):
    exchange, queue, other = name(), name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    channel.declare_queue(queue, durable=True, arguments={"x-message-ttl": 30, "x-dead-letter-exchange": exchange})
    for each in (queue, other):
        channel.bind(each, exchange)
    channel.publish("", queue, "body")
    assert channel.await_message(other).body == b"body"
    channel.expect_depth(queue, 0)


def test_a_queue_may_dead_letter_to_itself_by_reject(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-dead-letter-exchange": ""})
    channel.publish("", queue, "body")
    for count in (1, 2, 3):
        channel.reject(channel.await_message(queue, no_ack=False).delivery_tag, requeue=False)
        message = channel.await_message(queue, no_ack=False)
        assert [death["count"] for death in message.headers.plain()["x-death"]] == [count]
        channel.nack(message.delivery_tag)


# --- headers of the publisher


@pytest.mark.parametrize(
    "x_death", [[{"count": 7, "queue": "q", "reason": "rejected"}], "a string", 5], ids=["copied", "string", "number"]
)
def test_an_x_death_of_the_publisher_is_only_a_header(channel, name, x_death):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body", {"headers": {"x-death": x_death}})
    assert channel.get(queue).headers.plain() == {"x-death": x_death}


@pytest.mark.parametrize(
    "x_death", [[{"count": 7, "reason": "rejected"}], "a string", 5], ids=["copied", "string", "number"]
)
def test_an_x_death_of_the_publisher_is_not_counted_on(channel, name, x_death):
    sick = Sick(channel, name)
    [death] = sick.reject(properties={"headers": {"x-death": x_death}}).headers.plain()["x-death"]
    assert (death["queue"], death["count"]) == (sick.queue, 1)


def test_a_republished_dead_letter_starts_afresh(channel, name):
    sick = Sick(channel, name)
    first = sick.reject()
    again = sick.reject(properties={"headers": list(first.headers)})
    assert [death["count"] for death in again.headers.plain()["x-death"]] == [1]


def test_deaths_do_not_mix_between_copies_of_a_message(channel, name):
    one, two = Sick(channel, name), Sick(channel, name)
    for sick in (one, two):
        channel.bind(sick.queue, "amq.direct", one.queue)
    channel.publish("amq.direct", one.queue, "body")
    for sick in (one, two):
        channel.reject(channel.get(sick.queue).delivery_tag, requeue=False)
        [death] = channel.await_message(sick.dead).headers.plain()["x-death"]
        assert death["queue"] == sick.queue


def test_a_dead_letter_that_was_rejected_is_redelivered(channel):
    target = channel.exclusive_queue()
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=target, x_max_length=1)
    channel.publish("", queue, "fresh")
    channel.publish("", queue, "had")
    assert channel.await_message(target).redelivered is False
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    assert channel.await_message(target).redelivered is True


def test_a_dead_letter_that_was_nacked_only_is_not_redelivered(channel):
    target = channel.exclusive_queue()
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    channel.publish("", queue, "had")
    channel.nack(channel.get(queue).delivery_tag, requeue=True)
    channel.nack(channel.get(queue).delivery_tag, requeue=False)
    assert channel.await_message(target).redelivered is False


def test_a_dead_letter_that_goes_straight_to_a_consumer_is_not_redelivered(channel):
    target = channel.exclusive_queue()
    queue = channel.exclusive_queue(x_dead_letter_exchange="", x_dead_letter_routing_key=target)
    channel.publish("", queue, "had")
    tag = channel.get(queue).delivery_tag
    channel.consume(target, no_ack=True)
    channel.reject(tag, requeue=False)
    assert channel.expect("basic.deliver").redelivered is False
