"""Exchange types that RabbitMQ has beyond those of AMQP."""

import collections

import pytest

from .client import ConnectionClosed
from .wire import Value

pytestmark = pytest.mark.extra_exchanges


def _exchange(channel, name, kind, **arguments) -> str:
    exchange = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.call("exchange.declare", exchange=exchange, type=kind, arguments=named)
    return exchange


def _targets(channel, exchange, count, key="1") -> list[str]:
    queues = [channel.exclusive_queue() for _ in range(count)]
    for queue in queues:
        channel.bind(queue, exchange, key)
    return queues


def _drained(channel, queues) -> list[list[str]]:
    return [channel.drain(queue) for queue in queues]


def _refused_declare(channel, name, kind, arguments, detail) -> None:
    channel.send("exchange.declare", exchange=name(), type=kind, arguments=arguments)
    channel.expect_close(406, f"PRECONDITION_FAILED - {detail}", "exchange.declare")


# --- x-consistent-hash


def test_a_hash_gives_each_message_to_one_queue(channel, name):
    exchange = _exchange(channel, name, "x-consistent-hash")
    queues = _targets(channel, exchange, 4)
    keys = [str(number) for number in range(200)]
    for key in keys:
        channel.publish(exchange, key, key, mandatory=True)
    shares = _drained(channel, queues)
    assert sorted(sum(shares, []), key=int) == keys
    assert all(shares)


def test_the_same_key_keeps_its_queue(channel, name):
    exchange = _exchange(channel, name, "x-consistent-hash")
    queues = _targets(channel, exchange, 4)
    for _ in range(20):
        for key in ("a", "b", "c", "d", "e"):
            channel.publish(exchange, key, key)
    for share in _drained(channel, queues):
        assert set(collections.Counter(share).values()) <= {20}


def test_a_larger_weight_gets_more(channel, name):
    exchange = _exchange(channel, name, "x-consistent-hash")
    [small], [large] = _targets(channel, exchange, 1, "1"), _targets(channel, exchange, 1, "20")
    for number in range(300):
        channel.publish(exchange, f"key {number}", "body")
    few, many = _drained(channel, [small, large])
    assert len(few) < len(many) and len(few) + len(many) == 300


@pytest.mark.parametrize(
    "arguments, properties",
    [
        ({"hash_header": "key"}, {"headers": {"key": "same"}}),
        ({"hash_property": "message_id"}, {"message_id": "same"}),
        ({"hash_property": "correlation_id"}, {"correlation_id": "same"}),
        ({"hash_property": "timestamp"}, {"timestamp": 5}),
        ({"hash_header": "key"}, {"headers": {"other": 1}}),
        ({"hash_header": "key"}, {}),
    ],
    ids=["header", "message-id", "correlation-id", "timestamp", "header missing", "no headers"],
)
def test_the_hash_may_be_of_a_header_or_property(channel, name, arguments, properties):
    exchange = _exchange(channel, name, "x-consistent-hash", **arguments)
    queues = _targets(channel, exchange, 4)
    for number in range(40):
        channel.publish(exchange, f"key {number}", "body", properties)
    assert sorted(len(share) for share in _drained(channel, queues)) == [0, 0, 0, 40]


def test_removing_a_queue_moves_its_keys_to_the_others(channel, name):
    exchange = _exchange(channel, name, "x-consistent-hash")
    queues = _targets(channel, exchange, 3)
    channel.call("queue.delete", queue=queues.pop())
    for number in range(100):
        channel.publish(exchange, f"key {number}", "body", mandatory=True)
    assert sum(len(share) for share in _drained(channel, queues)) == 100


@pytest.mark.parametrize(
    "key, detail",
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("10001", "The binding key must not exceed 10000"),
    ],
)
def test_a_weight_is_a_positive_integer(channel, name, key, detail):
    exchange = _exchange(channel, name, "x-consistent-hash")
    channel.send("queue.bind", queue=channel.exclusive_queue(), exchange=exchange, routing_key=key)
    channel.expect_close(406, f"PRECONDITION_FAILED - {detail}", "queue.bind")


def test_header_and_property_exclude_each_other(channel, name):
    arguments = {"hash-header": "h", "hash-property": "message_id"}
    _refused_declare(
        channel, name, "x-consistent-hash", arguments, "hash-header and hash-property are mutually exclusive"
    )


def test_a_queue_bound_twice_keeps_its_first_weight(channel, name):
    exchange = _exchange(channel, name, "x-consistent-hash")
    [light], [heavy] = _targets(channel, exchange, 1, "1"), _targets(channel, exchange, 1, "20")
    channel.bind(light, exchange, "500")
    for number in range(300):
        channel.publish(exchange, f"key {number}", "body")
    few, many = _drained(channel, [light, heavy])
    assert len(few) < len(many) and len(few) + len(many) == 300


@pytest.mark.parametrize("argument", ["hash-header", "hash-property"])
def test_what_is_hashed_is_named_by_a_string(connection, channel, name, argument):
    channel.send("exchange.declare", exchange=name(), type="x-consistent-hash", arguments={argument: 5})
    try:
        assert channel.expect("channel.close").reply_code == 406
    except ConnectionClosed as fatal:
        # RabbitMQ falls over it.
        assert fatal.close.code == 541


def test_an_unknown_property_is_refused(channel, name):
    _refused_declare(channel, name, "x-consistent-hash", {"hash-property": "nope"}, "Unsupported property: nope")


# --- x-modulus-hash, x-random, x-local-random


def test_a_modulus_hash_gives_each_key_to_one_queue_whatever_the_binding_keys(channel, name):
    exchange = _exchange(channel, name, "x-modulus-hash")
    queues = _targets(channel, exchange, 2, "a") + _targets(channel, exchange, 2, "b")
    for _ in range(10):
        for number in range(40):
            channel.publish(exchange, f"key {number}", str(number))
    shares = _drained(channel, queues)
    assert sum(len(share) for share in shares) == 400
    for share in shares:
        assert set(collections.Counter(share).values()) <= {10}


@pytest.mark.parametrize("kind, key", [("x-random", "any"), ("x-local-random", "")])
def test_a_random_exchange_gives_each_message_to_one_queue(channel, name, kind, key):
    exchange = _exchange(channel, name, kind)
    queues = _targets(channel, exchange, 3, key)
    for number in range(200):
        channel.publish(exchange, "same key", str(number))
    shares = _drained(channel, queues)
    assert sum(len(share) for share in shares) == 200
    assert all(shares)


def test_a_local_random_exchange_takes_empty_binding_keys_only(channel, name):
    exchange = _exchange(channel, name, "x-local-random")
    channel.send("queue.bind", queue=channel.exclusive_queue(), exchange=exchange, routing_key="a")
    channel.expect_close(406, "PRECONDITION_FAILED - Non empty binding 'a' key not permitted", "queue.bind")


def test_a_local_random_exchange_takes_queues_only(channel, name):
    exchange = _exchange(channel, name, "x-local-random")
    channel.send("exchange.bind", source=exchange, destination="amq.fanout")
    channel.expect_close(406, "PRECONDITION_FAILED - Destination not found", "exchange.bind")


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_local_random_exchange_takes_classic_queues_only(channel, name, kind):
    exchange = _exchange(channel, name, "x-local-random")
    queue = name()
    channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    channel.send("queue.bind", queue=queue, exchange=exchange)
    text = f"PRECONDITION_FAILED - Queue type rabbit_{kind}_queue not valid for this exchange type"
    channel.expect_close(406, text, "queue.bind")


# --- x-recent-history


def test_a_new_queue_gets_the_recent_messages(channel, name):
    exchange = _exchange(channel, name, "x-recent-history", **{"x-recent-history-length": 3})
    for number in range(5):
        channel.publish(exchange, "k", str(number))
    queue = channel.exclusive_queue()
    channel.bind(queue, exchange)
    channel.expect_depth(queue, 3)
    assert channel.drain(queue) == ["2", "3", "4"]
    channel.publish(exchange, "k", "5")
    assert channel.drain(queue) == ["5"]


def test_20_messages_are_recent_by_default(channel, name):
    exchange = _exchange(channel, name, "x-recent-history")
    for number in range(25):
        channel.publish(exchange, "k", str(number))
    queue = channel.exclusive_queue()
    channel.bind(queue, exchange)
    channel.expect_depth(queue, 20)
    assert channel.drain(queue) == [str(number) for number in range(5, 25)]


def test_every_new_binding_gets_the_recent_messages(channel, name):
    exchange = _exchange(channel, name, "x-recent-history")
    channel.publish(exchange, "k", "kept")
    queue = channel.exclusive_queue()
    for count, key in enumerate(["a", "b", "a"], start=1):
        channel.bind(queue, exchange, key)
        channel.expect_depth(queue, min(count, 2))
    message = channel.await_message(queue)
    assert (message.exchange, message.routing_key) == (exchange, "k")


def test_messages_from_another_exchange_are_kept_too(channel, name):
    exchange, source = _exchange(channel, name, "x-recent-history"), _exchange(channel, name, "fanout")
    channel.call("exchange.bind", source=source, destination=exchange)
    channel.publish(source, "k", "kept")
    queue = channel.exclusive_queue()
    channel.bind(queue, exchange)
    message = channel.await_message(queue)
    assert (message.exchange, message.routing_key, message.body) == (source, "k", b"kept")


def test_a_message_may_ask_not_to_be_kept(channel, name):
    exchange = _exchange(channel, name, "x-recent-history")
    channel.publish(exchange, "k", "kept")
    channel.publish(exchange, "k", "not kept", {"headers": {"x-recent-history-no-store": True}})
    queue = channel.exclusive_queue()
    channel.bind(queue, exchange)
    channel.expect_depth(queue, 1)
    assert channel.drain(queue) == ["kept"]


def test_the_length_of_the_history_is_positive(channel, name):
    detail = "Invalid argument -1, 'x-recent-history-length' must be a positive integer"
    _refused_declare(channel, name, "x-recent-history", {"x-recent-history-length": -1}, detail)


def test_a_type_with_a_hyphen_is_told_in_quotes_of_its_own(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.send("exchange.declare", exchange=exchange, type="x-random")
    where = f"for exchange '{exchange}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - inequivalent arg 'type' {where}: received ''x-random'' but current is 'direct'"
    channel.expect_close(406, text, "exchange.declare")


@pytest.mark.parametrize("letter", "Bui")
def test_an_unsigned_history_length_is_refused(channel, name, letter):
    arguments = {"x-recent-history-length": Value(letter, 3)}
    channel.send("exchange.declare", exchange=name(), type="x-recent-history", arguments=arguments)
    text = "PRECONDITION_FAILED - Invalid argument 3, 'x-recent-history-length' must be a positive integer"
    channel.expect_close(406, text, "exchange.declare")
