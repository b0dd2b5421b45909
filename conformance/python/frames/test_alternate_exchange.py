"""Alternate exchanges: where a message goes that its exchange cannot route."""

import pytest

pytestmark = pytest.mark.routing


def _exchange(channel, name, kind="direct", alternate=None, **flags) -> str:
    exchange = name()
    arguments = {} if alternate is None else {"alternate-exchange": alternate}
    channel.call("exchange.declare", exchange=exchange, type=kind, arguments=arguments, **flags)
    return exchange


def test_an_unroutable_message_goes_to_the_alternate_exchange(channel, name):
    alternate = _exchange(channel, name, "fanout")
    exchange, queue = _exchange(channel, name, alternate=alternate), channel.exclusive_queue()
    channel.bind(queue, alternate)
    channel.publish(exchange, "k", "body")
    message = channel.get(queue)
    # As if it had come straight from its exchange.
    assert (message.exchange, message.routing_key) == (exchange, "k")


def test_a_routable_message_does_not(channel, name):
    alternate = _exchange(channel, name, "fanout")
    exchange = _exchange(channel, name, alternate=alternate)
    queue, other = channel.exclusive_queue(), channel.exclusive_queue()
    channel.bind(other, alternate)
    channel.bind(queue, exchange, "k")
    channel.publish(exchange, "k", "body")
    assert (channel.drain(queue), channel.drain(other)) == (["body"], [])


def test_alternates_chain(channel, name):
    last = _exchange(channel, name, "fanout")
    middle = _exchange(channel, name, alternate=last)
    first, queue = _exchange(channel, name, alternate=middle), channel.exclusive_queue()
    channel.bind(queue, last)
    channel.publish(first, "k", "body")
    assert channel.get(queue).exchange == first


def test_a_cycle_of_alternates_ends(channel, name):
    one, two = name(), name()
    for exchange, alternate in ((one, two), (two, one)):
        channel.call("exchange.declare", exchange=exchange, arguments={"alternate-exchange": alternate})
    channel.publish(one, "k", "body", mandatory=True)
    assert channel.expect("basic.return").exchange == one


def test_an_exchange_may_be_its_own_alternate(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, arguments={"alternate-exchange": exchange})
    channel.publish(exchange, "k", "body", mandatory=True)
    channel.expect("basic.return")


def test_a_missing_alternate_is_none(channel, name):
    exchange = _exchange(channel, name, alternate=name())
    channel.publish(exchange, "k", "body")
    channel.publish(exchange, "k", "body", mandatory=True)
    channel.expect("basic.return")


def test_an_alternate_may_be_declared_later(channel, name):
    alternate, queue = name(), channel.exclusive_queue()
    exchange = _exchange(channel, name, alternate=alternate)
    channel.call("exchange.declare", exchange=alternate, type="fanout")
    channel.bind(queue, alternate)
    channel.publish(exchange, "k", "body")
    assert channel.drain(queue) == ["body"]


def test_a_message_that_the_alternate_routes_is_not_returned(channel, name):
    alternate = _exchange(channel, name, "fanout")
    exchange, queue = _exchange(channel, name, alternate=alternate), channel.exclusive_queue()
    channel.bind(queue, alternate)
    channel.select_confirms()
    channel.publish(exchange, "k", "body", mandatory=True)
    assert channel.confirms(1, 1) == {1: "ack"}
    assert channel.drain(queue) == ["body"]


def test_a_message_that_the_alternate_cannot_route_is_returned(channel, name):
    exchange = _exchange(channel, name, alternate=_exchange(channel, name, "fanout"))
    channel.publish(exchange, "k", "body", mandatory=True)
    assert channel.expect("basic.return").exchange == exchange


def test_an_empty_alternate_is_none(channel, name):
    exchange, queue = _exchange(channel, name, alternate=""), channel.exclusive_queue()
    # Not the default exchange, which could route this.
    channel.publish(exchange, queue, "body", mandatory=True)
    channel.expect("basic.return")


def test_an_internal_exchange_may_be_an_alternate(channel, name):
    alternate = _exchange(channel, name, "fanout", internal=True)
    exchange, queue = _exchange(channel, name, alternate=alternate), channel.exclusive_queue()
    channel.bind(queue, alternate)
    channel.publish(exchange, "k", "body")
    assert channel.drain(queue) == ["body"]


def test_an_exchange_reached_through_a_binding_asks_its_alternate_too(channel, name):
    alternate = _exchange(channel, name, "fanout")
    inner, queue = _exchange(channel, name, alternate=alternate), channel.exclusive_queue()
    outer = _exchange(channel, name, "fanout")
    channel.call("exchange.bind", source=outer, destination=inner)
    channel.bind(queue, alternate)
    channel.publish(outer, "k", "body")
    assert channel.drain(queue) == ["body"]


def test_what_the_alternate_takes_is_acked(channel, name):
    alternate, exchange, queue = name(), name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=alternate, type="fanout")
    channel.call("exchange.declare", exchange=exchange, type="direct", arguments={"alternate-exchange": alternate})
    channel.bind(queue, alternate)
    channel.select_confirms()
    channel.publish(exchange, "nowhere", "body", mandatory=True)
    assert channel.confirms(1, 1) == {1: "ack"}
    assert channel.drain(queue) == ["body"]
