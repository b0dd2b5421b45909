"""Exchanges that keep messages until their time.

Durations are asserted from below exactly, and from above with the patience of a busy machine: that the broker is punctual
to milliseconds is shown by its own tests, with a clock that does what it is told.
"""

import datetime
import time

import pytest

from .wire import Value

pytestmark = [pytest.mark.extra_exchanges, pytest.mark.beyond]


def _exchange(channel, name, kind="x-delayed-message", **arguments) -> str:
    exchange = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call("exchange.declare", exchange=exchange, type=kind, durable=True, arguments=named)
    return exchange


def _bound(channel, exchange, key="k") -> str:
    queue = channel.exclusive_queue()
    channel.bind(queue, exchange, key)
    return queue


def _delay(millis) -> dict:
    return {"headers": {"x-delay": millis}}


def _delayed(channel, name, kind="direct") -> str:
    return _exchange(channel, name, x_delayed_type=kind)


def test_a_message_comes_after_its_delay_and_not_before(channel, name):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    began = time.monotonic()
    channel.publish(exchange, "k", "late", _delay(400))
    channel.publish(exchange, "k", "at once")
    assert channel.await_message(queue).body == b"at once"
    channel.expect_nothing(queue)
    message = channel.await_message(queue)
    assert (message.body, time.monotonic() - began >= 0.4) == (b"late", True)
    assert (message.exchange, message.routing_key) == (exchange, "k")


def test_each_delay_is_its_own(channel, name):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    for millis in (900, 300, 600):
        channel.publish(exchange, "k", str(millis), _delay(millis))
    channel.expect_depth(queue, 3)
    assert channel.drain(queue) == ["300", "600", "900"]


@pytest.mark.parametrize(
    "sent, delivered",
    [
        (Value("b", 50), -50),
        (Value("B", 200), -200),
        (Value("s", 50), -50),
        (Value("u", 300), -300),
        (Value("I", 50), -50),
        (Value("i", 50), -50),
        (Value("l", 50), -50),
    ],
    ids=lambda value: getattr(value, "letter", None),
)
def test_the_header_may_be_any_integer_and_comes_with_its_sign_turned(channel, name, sent, delivered):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    channel.publish(exchange, "k", "m", {"headers": {"before": 1, "x-delay": sent, "after": 2}})
    channel.expect_nothing(queue)
    headers = channel.await_message(queue).headers.plain()
    assert list(headers.items()) == [("before", 1), ("x-delay", delivered), ("after", 2)]


@pytest.mark.parametrize("value", [0, -5000, "5000", None], ids=["zero", "negative", "text", "void"])
def test_what_is_no_delay_goes_on_at_once_and_as_it_came(channel, name, value):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    began = time.monotonic()
    channel.publish(exchange, "k", "m", _delay(value))
    message = channel.await_message(queue)
    assert message.headers.plain() == {"x-delay": value} and time.monotonic() - began < 4


@pytest.mark.parametrize("kind, key, binding", [("topic", "a.b", "a.*"), ("fanout", "", "any"), ("x-random", "k", "x")])
def test_it_routes_as_the_type_it_is_told(channel, name, kind, key, binding):
    exchange = _delayed(channel, name, kind)
    queue = _bound(channel, exchange, binding)
    channel.publish(exchange, key, "m", _delay(50))
    channel.publish(exchange, key, "now")
    assert [channel.await_message(queue).body for _ in range(2)] == [b"now", b"m"]


@pytest.mark.parametrize("arguments", [{}, {"x-delayed-type": "nope"}, {"x-delayed-type": 5}])
def test_it_has_to_say_which_type(channel, name, arguments):
    channel.send("exchange.declare", exchange=name(), type="x-delayed-message", arguments=arguments)
    detail = "Invalid argument, 'x-delayed-type' must be an existing exchange type"
    channel.expect_close(406, f"PRECONDITION_FAILED - {detail}", "exchange.declare")


def test_another_type_is_not_equivalent(channel, name):
    exchange = _delayed(channel, name)
    channel.call("exchange.declare", exchange=exchange, type="x-delayed-message", durable=True,
                 arguments={"x-delayed-type": "direct"})
    channel.send("exchange.declare", exchange=exchange, type="direct", durable=True)
    detail = f"inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
    detail += "received 'direct' but current is ''x-delayed-message''"
    channel.expect_close(406, f"PRECONDITION_FAILED - {detail}", "exchange.declare")


def test_bindings_are_looked_up_when_the_message_is_due(channel, name):
    exchange = _delayed(channel, name)
    early = _bound(channel, exchange)
    channel.publish(exchange, "k", "m", _delay(400))
    channel.unbind(early, exchange, "k")
    late = _bound(channel, exchange)
    assert channel.await_message(late).body == b"m"
    channel.expect_nothing(early)


def test_mandatory_is_judged_when_the_message_is_published(channel, name):
    exchange = _delayed(channel, name)
    channel.publish(exchange, "k", "unroutable", _delay(100), mandatory=True)
    returned = channel.expect("basic.return")
    assert (returned.reply_code, returned.headers.plain()) == (312, {"x-delay": 100})
    queue = _bound(channel, exchange)
    channel.publish(exchange, "k", "routable", _delay(100), mandatory=True)
    channel.publish(exchange, "none", "nobody asks", _delay(100))
    assert channel.await_message(queue).body == b"routable"
    channel.expect_nothing(queue)


def test_a_confirm_does_not_wait_for_the_delay(channel, name):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    channel.select_confirms()
    began = time.monotonic()
    channel.publish(exchange, "k", "m", {"delivery_mode": 2, **_delay(5000)})
    assert channel.confirms(1, 1) == {1: "ack"} and time.monotonic() - began < 4
    channel.expect_nothing(queue)


def test_what_waits_goes_with_its_exchange(channel, name):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    channel.publish(exchange, "k", "gone", _delay(300))
    channel.call("exchange.delete", exchange=exchange)
    channel.call("exchange.declare", exchange=exchange, type="x-delayed-message", durable=True,
                 arguments={"x-delayed-type": "direct"})
    channel.bind(queue, exchange, "k")
    channel.publish(exchange, "k", "kept", _delay(500))
    assert channel.await_message(queue).body == b"kept"
    channel.expect_nothing(queue)


def test_a_message_waits_also_when_another_exchange_sends_it(channel, name):
    exchange, source = _delayed(channel, name), name()
    channel.call("exchange.declare", exchange=source, type="fanout")
    channel.call("exchange.bind", source=source, destination=exchange)
    queue = _bound(channel, exchange)
    channel.publish(source, "k", "m", _delay(300))
    channel.expect_nothing(queue)
    message = channel.await_message(queue)
    assert (message.body, message.exchange) == (b"m", source)


def test_a_dead_letter_may_wait(channel, name):
    exchange = _delayed(channel, name)
    dead = _bound(channel, exchange, "again")
    queue = channel.exclusive_queue(x_dead_letter_exchange=exchange, x_dead_letter_routing_key="again")
    channel.publish("", queue, "m", _delay(300))
    channel.reject(channel.get(queue).delivery_tag, requeue=False)
    channel.expect_nothing(dead)
    message = channel.await_message(dead)
    assert message.headers.plain()["x-delay"] == -300


def test_keys_of_cc_and_bcc_are_used_when_the_message_is_due(channel, name):
    exchange = _delayed(channel, name)
    queues = [_bound(channel, exchange, key) for key in ("k", "cc", "bcc")]
    channel.publish(exchange, "k", "m", {"headers": {"CC": ["cc"], "BCC": ["bcc"], "x-delay": 100}})
    for queue in queues:
        assert channel.await_message(queue).headers.plain() == {"CC": ["cc"], "x-delay": -100}


def test_a_transaction_waits_for_its_commit(channel, name):
    exchange = _delayed(channel, name)
    queue = _bound(channel, exchange)
    channel.call("tx.select")
    channel.publish(exchange, "k", "rolled back", _delay(1))
    channel.call("tx.rollback")
    channel.publish(exchange, "k", "committed", _delay(1))
    channel.expect_nothing(queue)
    channel.call("tx.commit")
    assert channel.await_message(queue).body == b"committed"


# --- any exchange, by arguments


def test_any_exchange_delays_when_told_to(channel, name):
    exchange = _exchange(channel, name, "topic", x_delayed_exchange=True)
    queue = _bound(channel, exchange, "a.*")
    channel.publish(exchange, "a.b", "late", _delay(300))
    channel.publish(exchange, "a.b", "now")
    assert [channel.await_message(queue).body for _ in range(2)] == [b"now", b"late"]


def test_elsewhere_the_headers_mean_nothing(channel, name):
    exchange = _exchange(channel, name, "topic", x_delayed_exchange=False)
    queue = _bound(channel, exchange)
    headers = {"x-delay": 60000, "x-deliver-at": 99999999999999}
    channel.publish(exchange, "k", "now", {"headers": headers})
    assert channel.await_message(queue).headers.plain() == headers


def _moments(seconds):
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return {
        "milliseconds": int(at.timestamp() * 1000),
        "timestamp": Value("T", int(at.timestamp())),
        "text": at.isoformat(),
        "text in another zone": at.astimezone(datetime.timezone(datetime.timedelta(hours=-5.5))).isoformat(),
        "text without a zone": at.replace(tzinfo=None).isoformat(),
    }


@pytest.mark.parametrize("form", list(_moments(0)))
@pytest.mark.parametrize("header, argument", [("x-deliver-at", ("x_delayed_exchange", True)),
                                              ("eta", ("x_delay_until_header", "eta"))])
def test_a_message_may_say_when(channel, name, form, header, argument):
    exchange = _exchange(channel, name, "direct", **dict([argument]))
    queue = _bound(channel, exchange)
    began, due = time.time(), _moments(2)[form]
    channel.publish(exchange, "k", "late", {"headers": {header: due}})
    channel.publish(exchange, "k", "past", {"headers": {header: _moments(-2)[form]}})
    channel.publish(exchange, "k", "unreadable", {"headers": {header: "soon"}})
    assert [channel.await_message(queue).body for _ in range(3)] == [b"past", b"unreadable", b"late"]
    # A timestamp has whole seconds.
    assert time.time() - began >= 0.9


@pytest.mark.parametrize("argument, value, type_name", [("x-delayed-exchange", "yes", "longstr"),
                                                        ("x-delay-until-header", 5, "signedint")])
def test_an_argument_of_a_wrong_type_is_refused(channel, name, argument, value, type_name):
    exchange = name()
    channel.send("exchange.declare", exchange=exchange, type="direct", arguments={argument: value})
    detail = f"invalid type '{type_name}' for arg '{argument}' in exchange '{exchange}' in vhost '/'"
    channel.expect_close(406, f"PRECONDITION_FAILED - {detail}", "exchange.declare")


# --- restarts


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_what_waits_survives(restartable_broker, connect, name, end):
    channel = connect().channel()
    exchange, queue = _delayed(channel, name), name()
    channel.call("queue.declare", queue=queue, durable=True)
    channel.bind(queue, exchange, "k")
    channel.select_confirms()
    began = time.monotonic()
    for number, millis in enumerate((6000, 1, 5000)):
        channel.publish(exchange, "k", str(number), {"delivery_mode": 2, **_delay(millis)})
    assert channel.confirms(1, 3) == {1: "ack", 2: "ack", 3: "ack"}
    channel.expect_depth(queue, 1)
    channel.connection.close()
    getattr(restartable_broker, end)()
    channel = connect().channel()
    bodies = []
    while b"0" not in bodies:
        bodies.append(channel.await_message(queue).body)
    # What had just left may leave once more.
    assert list(dict.fromkeys(bodies)) == [b"1", b"2", b"0"] and bodies[-2:] == [b"2", b"0"]
    assert time.monotonic() - began >= 5.9


@pytest.mark.parametrize("offset", ["+9223372036854775807:00", "-00:9223372036854775807", "+24:00", "+00:60"])
def test_a_time_with_an_odd_offset_is_none_also_for_dead_letters(channel, name, offset):
    exchange = _exchange(channel, name, "fanout", x_delayed_exchange=True)
    queue = _bound(channel, exchange)
    at = {"headers": {"x-deliver-at": f"2100-01-01T00:00:00{offset}"}}
    channel.publish(exchange, "k", "published", at)
    assert channel.await_message(queue).body == b"published"

    dying = channel.exclusive_queue(**{"x-dead-letter-exchange": exchange})
    for body, properties in (("odd", at), ("plain", {})):
        channel.publish("", dying, body, properties)
        message = channel.await_message(dying, no_ack=False)
        channel.send("basic.reject", delivery_tag=message.delivery_tag, requeue=False)
    assert [channel.await_message(queue).body for _ in range(2)] == [b"odd", b"plain"]
