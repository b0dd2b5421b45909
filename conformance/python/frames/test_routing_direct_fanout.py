"""Direct, fanout and the default exchange: which queue gets a message."""

import pytest

pytestmark = pytest.mark.routing


def _exchange(channel, name, kind) -> str:
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type=kind)
    return exchange


def test_direct_routes_by_the_equal_key(channel, name):
    exchange = _exchange(channel, name, "direct")
    queues = {key: channel.exclusive_queue() for key in ("a", "A", "a.b", "*", "#", "")}
    for key, queue in queues.items():
        channel.bind(queue, exchange, key)
    for key in queues:
        channel.publish(exchange, key, key)
    assert {key: channel.drain(queue) for key, queue in queues.items()} == {key: [key] for key in queues}


def test_direct_routes_to_every_queue_bound_with_the_key(channel, name):
    exchange, queues = _exchange(channel, name, "direct"), [channel.exclusive_queue() for _ in range(3)]
    for queue in queues:
        channel.bind(queue, exchange, "k")
    channel.publish(exchange, "k", "body")
    assert [channel.drain(queue) for queue in queues] == [["body"]] * 3


def test_direct_does_not_route_another_key(channel, name):
    exchange = _exchange(channel, name, "direct")
    channel.bind(channel.exclusive_queue(), exchange, "k")
    for key in ("", "K", "k ", "kk"):
        channel.publish(exchange, key, key, mandatory=True)
        assert channel.expect("basic.return").routing_key == key


def test_direct_delivers_once_however_many_bindings_match(channel, name):
    exchange, queue = _exchange(channel, name, "direct"), channel.exclusive_queue()
    for number in range(3):
        channel.bind(queue, exchange, "k", {"n": number})
    channel.publish(exchange, "k", "body")
    assert channel.drain(queue) == ["body"]


def test_fanout_routes_to_all_whatever_the_keys(channel, name):
    exchange, queues = _exchange(channel, name, "fanout"), [channel.exclusive_queue() for _ in range(3)]
    for queue, key in zip(queues, ("a", "b", "")):
        channel.bind(queue, exchange, key)
    channel.publish(exchange, "c", "body")
    assert [channel.drain(queue) for queue in queues] == [["body"]] * 3


def test_fanout_delivers_once_however_many_bindings_there_are(channel, name):
    exchange, queue = _exchange(channel, name, "fanout"), channel.exclusive_queue()
    for key in ("a", "b", "c"):
        channel.bind(queue, exchange, key)
    channel.publish(exchange, "a", "body")
    assert channel.drain(queue) == ["body"]


def test_fanout_without_bindings_routes_nowhere(channel, name):
    exchange = _exchange(channel, name, "fanout")
    channel.publish(exchange, "k", "body", mandatory=True)
    channel.expect("basic.return")


def test_the_default_exchange_routes_by_queue_name_only(channel):
    queue = channel.exclusive_queue()
    for key in (queue + "x", queue.upper() + ".", "", "*", "#"):
        channel.publish("", key, "body", mandatory=True)
        assert channel.expect("basic.return").routing_key == key
    channel.publish("", queue, "body")
    assert channel.drain(queue) == ["body"]


def test_the_default_exchange_reaches_another_connections_exclusive_queue(connect, channel):
    owner = connect().channel()
    queue = owner.exclusive_queue()
    channel.publish_all("", queue, ["body"])
    assert owner.drain(queue) == ["body"]


def test_each_queue_has_its_own_copy(channel, name):
    exchange, one, two = _exchange(channel, name, "fanout"), channel.exclusive_queue(), channel.exclusive_queue()
    channel.bind(one, exchange)
    channel.bind(two, exchange)
    channel.publish(exchange, "k", "body", {"message_id": "m", "headers": {"a": 1}})
    first, second = channel.get(one), channel.get(two)
    assert (first.body, first.properties) == (second.body, second.properties)
    channel.ack(first.delivery_tag)
    channel.reject(second.delivery_tag, requeue=True)
    channel.expect_nothing(one)
    assert (channel.depth(one), channel.depth(two)) == (0, 1)


def test_a_late_binding_does_not_get_earlier_messages(channel, name):
    exchange, early, late = _exchange(channel, name, "fanout"), channel.exclusive_queue(), channel.exclusive_queue()
    channel.bind(early, exchange)
    channel.publish(exchange, "k", "body")
    channel.bind(late, exchange)
    assert (channel.drain(early), channel.drain(late)) == (["body"], [])


def test_messages_of_one_channel_keep_their_order(channel, name):
    exchange, queue = _exchange(channel, name, "direct"), channel.exclusive_queue()
    channel.bind(queue, exchange, "even")
    channel.bind(queue, exchange, "odd")
    bodies = [str(number) for number in range(500)]
    for number, body in enumerate(bodies):
        channel.publish(exchange, "odd" if number % 2 else "even", body)
    assert channel.drain(queue) == bodies
