"""queue.bind, queue.unbind, exchange.bind, exchange.unbind."""

import pytest

from .client import Close
from .wire import Value

pytestmark = pytest.mark.exchanges

DEFAULT_REFUSED = "ACCESS_REFUSED - operation not permitted on the default exchange"
REPLY_TO_REFUSED = "ACCESS_REFUSED - cannot bind or unbind to a volatile (direct reply-to) queue"


def _exchange(channel, name, kind="direct", **flags) -> str:
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type=kind, **flags)
    return exchange


def _is_routed(channel, exchange, key, properties={}) -> bool:
    """Whether a publish reaches anything, judged by the lack of a return."""
    channel.publish(exchange, key, "probe", properties, mandatory=True)
    channel.send("channel.flow", active=True)
    answer = channel.next()
    if answer.name == "basic.return":
        channel.expect("channel.flow-ok")
    return answer.name == "channel.flow-ok"


# --- binding


def test_a_binding_exists_once(channel, name):
    exchange, queue = _exchange(channel, name), channel.exclusive_queue()
    for _ in range(3):
        channel.bind(queue, exchange, "k")
    channel.publish(exchange, "k", "body")
    channel.expect_depth(queue, 1)
    channel.unbind(queue, exchange, "k")
    assert not _is_routed(channel, exchange, "k")


def test_a_binding_differs_by_its_key(channel, name):
    exchange, queue = _exchange(channel, name), channel.exclusive_queue()
    channel.bind(queue, exchange, "one")
    channel.bind(queue, exchange, "two")
    channel.unbind(queue, exchange, "one")
    assert not _is_routed(channel, exchange, "one")
    assert _is_routed(channel, exchange, "two")


def test_a_binding_differs_by_its_arguments(channel, name):
    exchange, queue = _exchange(channel, name), channel.exclusive_queue()
    channel.bind(queue, exchange, "k", {"a": 1})
    channel.bind(queue, exchange, "k", {"a": 2})
    channel.unbind(queue, exchange, "k", {"a": 1})
    assert _is_routed(channel, exchange, "k")
    channel.unbind(queue, exchange, "k", {"a": 2})
    assert not _is_routed(channel, exchange, "k")


def test_a_binding_differs_by_its_destination(channel, name):
    exchange, one, two = _exchange(channel, name), channel.exclusive_queue(), channel.exclusive_queue()
    channel.bind(one, exchange, "k")
    channel.bind(two, exchange, "k")
    channel.unbind(one, exchange, "k")
    channel.publish(exchange, "k", "body")
    assert (channel.get(one), channel.get(two).body) == (None, b"body")


@pytest.mark.parametrize(
    "key", ["", "k" * 255, "ключ", "\x00", "a b"], ids=["empty", "255 bytes", "not ASCII", "NUL", "space"]
)
def test_any_binding_key_works(channel, name, key):
    exchange, queue = _exchange(channel, name), channel.exclusive_queue()
    channel.bind(queue, exchange, key)
    channel.publish(exchange, key, "body")
    assert channel.get(queue).routing_key == key


def test_line_ends_are_removed_from_both_names(channel, name):
    exchange, queue = _exchange(channel, name), channel.exclusive_queue()
    channel.bind(queue + "\n", "\r" + exchange, "k")
    channel.publish(exchange, "k", "body")
    assert channel.get(queue).body == b"body"
    channel.unbind("\r\n" + queue, exchange + "\n", "k")
    assert not _is_routed(channel, exchange, "k")


# --- refusals


@pytest.mark.parametrize("method", ["queue.bind", "queue.unbind"])
def test_the_default_exchange_binds_no_queue_by_request(channel, method):
    channel.send(method, queue=channel.exclusive_queue(), exchange="", routing_key="k")
    channel.expect_close(403, DEFAULT_REFUSED, method)


@pytest.mark.parametrize("method", ["exchange.bind", "exchange.unbind"])
@pytest.mark.parametrize("source, destination", [("", "amq.fanout"), ("amq.fanout", ""), ("", "")])
def test_the_default_exchange_binds_no_exchange(channel, method, source, destination):
    channel.send(method, source=source, destination=destination)
    channel.expect_close(403, DEFAULT_REFUSED, method)


def test_binding_a_missing_exchange_is_not_found(channel, name):
    exchange = name()
    channel.send("queue.bind", queue=channel.exclusive_queue(), exchange=exchange)
    channel.expect_close(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '{channel.vhost}'", "queue.bind")


def test_binding_a_missing_queue_is_not_found(channel, name):
    queue = name()
    channel.send("queue.bind", queue=queue, exchange="amq.direct")
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "queue.bind")


def test_a_missing_source_is_noticed_before_a_missing_queue(channel, name):
    exchange = name()
    channel.send("queue.bind", queue=name(), exchange=exchange)
    channel.expect_close(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '{channel.vhost}'", "queue.bind")


@pytest.mark.parametrize("missing", ["source", "destination"])
def test_binding_exchanges_that_are_missing_is_not_found(channel, name, missing):
    ends = {"source": "amq.fanout", "destination": "amq.fanout", missing: name()}
    channel.send("exchange.bind", **ends)
    text = f"NOT_FOUND - no exchange '{ends[missing]}' in vhost '{channel.vhost}'"
    channel.expect_close(404, text, "exchange.bind")


def test_a_missing_source_is_noticed_before_a_missing_destination(channel, name):
    source = name()
    channel.send("exchange.bind", source=source, destination=name())
    channel.expect_close(404, f"NOT_FOUND - no exchange '{source}' in vhost '{channel.vhost}'", "exchange.bind")


def test_binding_another_connections_exclusive_queue_is_refused(connect, channel):
    queue = connect().channel().exclusive_queue()
    channel.send("queue.bind", queue=queue, exchange="amq.direct", routing_key="k")
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '{channel.vhost}'. "
        "It could be originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration."
    )
    channel.expect_close(405, text, "queue.bind")


def test_unbinding_nothing_from_another_connections_exclusive_queue_succeeds(connect, channel):
    queue = connect().channel().exclusive_queue()
    channel.unbind(queue, "amq.direct", "there-is-no-such-binding")


@pytest.mark.parametrize("method", ["queue.bind", "queue.unbind"])
def test_a_reply_address_cannot_be_bound(channel, method):
    channel.send(method, queue="amq.rabbitmq.reply-to.abc", exchange="amq.direct", routing_key="k")
    channel.expect_close(403, REPLY_TO_REFUSED, method)


def test_the_bare_reply_name_is_no_queue_to_bind(channel):
    channel.send("queue.bind", queue="amq.rabbitmq.reply-to", exchange="amq.direct", routing_key="k")
    text = f"NOT_FOUND - no queue 'amq.rabbitmq.reply-to' in vhost '{channel.vhost}'"
    channel.expect_outcome(Close(404, text, "queue.bind"), better=[Close(403, REPLY_TO_REFUSED, "queue.bind")])


# --- unbinding


@pytest.mark.parametrize("missing", ["binding", "queue", "exchange", "both"])
def test_unbinding_what_is_missing_succeeds(channel, name, missing):
    queue = channel.exclusive_queue() if missing in ("binding", "exchange") else name()
    exchange = "amq.direct" if missing in ("binding", "queue") else name()
    channel.unbind(queue, exchange, "k")


@pytest.mark.parametrize("source, destination", [(True, True), (False, True), (True, False), (False, False)])
def test_unbinding_exchanges_that_are_missing_or_not_bound_succeeds(channel, name, source, destination):
    ends = {"source": "amq.fanout" if source else name(), "destination": "amq.topic" if destination else name()}
    channel.call("exchange.unbind", **ends, routing_key="k")


# --- exchange to exchange


def test_a_message_goes_from_exchange_to_exchange(channel, name):
    first, second, third = (_exchange(channel, name, kind) for kind in ("topic", "direct", "fanout"))
    queue = channel.exclusive_queue()
    channel.call("exchange.bind", source=first, destination=second, routing_key="a.*")
    channel.call("exchange.bind", source=second, destination=third, routing_key="a.b")
    channel.bind(queue, third)
    assert not _is_routed(channel, first, "a.c")
    channel.publish(first, "a.b", "body")
    message = channel.get(queue)
    assert (message.exchange, message.routing_key) == (first, "a.b")


def test_unbinding_exchanges_stops_the_flow(channel, name):
    source, destination = _exchange(channel, name), _exchange(channel, name, "fanout")
    channel.bind(channel.exclusive_queue(), destination)
    channel.call("exchange.bind", source=source, destination=destination, routing_key="k")
    assert _is_routed(channel, source, "k")
    channel.call("exchange.unbind", source=source, destination=destination, routing_key="k")
    assert not _is_routed(channel, source, "k")


def test_an_exchange_may_be_bound_to_itself(channel, name):
    exchange, queue = _exchange(channel, name, "fanout"), channel.exclusive_queue()
    channel.call("exchange.bind", source=exchange, destination=exchange)
    channel.bind(queue, exchange)
    channel.publish(exchange, "k", "body")
    channel.expect_depth(queue, 1)


def test_a_cycle_of_exchanges_delivers_once(channel, name):
    ring = [_exchange(channel, name, "fanout") for _ in range(3)]
    queue = channel.exclusive_queue()
    for source, destination in zip(ring, ring[1:] + ring[:1]):
        channel.call("exchange.bind", source=source, destination=destination)
        channel.bind(queue, source)
    channel.publish(ring[0], "k", "body")
    channel.expect_depth(queue, 1)


def test_several_paths_to_a_queue_deliver_once(channel, name):
    top, left, right = (_exchange(channel, name, "fanout") for _ in range(3))
    queue = channel.exclusive_queue()
    for middle in (left, right):
        channel.call("exchange.bind", source=top, destination=middle)
        channel.bind(queue, middle)
    channel.bind(queue, top)
    channel.publish(top, "k", "body")
    channel.expect_depth(queue, 1)


def test_deleting_the_middle_exchange_breaks_the_path(channel, name):
    first, middle = _exchange(channel, name, "fanout"), _exchange(channel, name, "fanout")
    channel.call("exchange.bind", source=first, destination=middle)
    channel.bind(channel.exclusive_queue(), middle)
    channel.call("exchange.delete", exchange=middle)
    assert not _is_routed(channel, first, "k")


# --- the implicit binding


def test_every_queue_is_reached_by_its_name(channel, name):
    queue = channel.declare_queue(name(), exclusive=True).queue
    channel.publish("", queue, "body")
    message = channel.get(queue)
    assert (message.exchange, message.routing_key) == ("", queue)


def test_a_deleted_queue_is_not_reached_by_its_name(channel):
    queue = channel.exclusive_queue()
    channel.call("queue.delete", queue=queue)
    assert not _is_routed(channel, "", queue)


def test_a_deleted_queue_leaves_no_binding_behind(channel, name):
    exchange, queue = _exchange(channel, name), name()
    channel.declare_queue(queue, exclusive=True)
    channel.bind(queue, exchange, "k")
    channel.call("queue.delete", queue=queue)
    channel.declare_queue(queue, exclusive=True)
    assert not _is_routed(channel, exchange, "k")


# --- validation by type


@pytest.mark.parametrize("key", ["#.a.#.b.#", "#.#.#", "#.#.#.#"])
def test_a_topic_binding_with_too_many_hashes_is_refused(channel, key):
    channel.send("queue.bind", queue=channel.exclusive_queue(), exchange="amq.topic", routing_key=key)
    count = key.split(".").count("#")
    text = f"PRECONDITION_FAILED - Topic binding key '{key}' uses {count} '#' wildcards, at most 2 are allowed"
    channel.expect_close(406, text, "queue.bind")


def test_words_that_only_contain_a_hash_do_not_count(channel):
    queue = channel.exclusive_queue()
    channel.bind(queue, "amq.topic", "#.a#.#b.c#d.#")
    channel.unbind(queue, "amq.topic", "#.a#.#b.c#d.#")


def test_an_unknown_x_match_is_refused(channel):
    channel.send("queue.bind", queue=channel.exclusive_queue(), exchange="amq.headers", arguments={"x-match": "foo"})
    text = 'PRECONDITION_FAILED - Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x'
    channel.expect_close(406, text, "queue.bind")


def test_an_x_match_of_another_type_is_refused(channel):
    arguments = {"x-match": Value("I", 5)}
    channel.send("queue.bind", queue=channel.exclusive_queue(), exchange="amq.headers", arguments=arguments)
    text = "PRECONDITION_FAILED - Invalid x-match field type signedint (value 5); expected longstr"
    channel.expect_close(406, text, "queue.bind")


def test_binding_exchanges_is_validated_too(channel, name):
    exchange = _exchange(channel, name)
    channel.send("exchange.bind", source="amq.topic", destination=exchange, routing_key="#.#.#")
    text = "PRECONDITION_FAILED - Topic binding key '#.#.#' uses 3 '#' wildcards, at most 2 are allowed"
    channel.expect_close(406, text, "exchange.bind")
