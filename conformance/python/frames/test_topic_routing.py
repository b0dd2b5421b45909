"""Topic exchanges: words, `*` and `#`."""

import pytest

pytestmark = pytest.mark.routing

# Routing key: binding keys that match it, binding keys that do not.
MATCHES = {
    "a": (["a", "a.#", "#", "*", "#.#", "#.a", "#.a.#"], ["a.*", "a.#.b", "*.a", "", "b", "A", "a.", ".a"]),
    "a.b": (
        ["a.b", "a.*", "*.b", "a.#", "#.b", "*.*", "a.#.b", "#", "#.*", "*.#"],
        ["a.*b", "*", "a", "a.b.c", "a.b.*"],
    ),
    "a.b.b": (["a.*.b", "a.#.b", "#.b", "a.#", "a.b.*", "*.*.*", "#.b.#"], ["a.*", "a.b", "*.*", "*.b"]),
    "a.b.c.d": (["a.#.d", "a.#.c.#", "#.b.*.d", "a.*.*.d", "*.#.d"], ["a.*.d", "a.#.b", "#.c", "a.#.e"]),
    "": (["", "#", "#.#"], ["*", "*.*", ".", "a"]),
    ".": ([".", "*.*", "#", "*.", ".*"], ["", "*", "*.*.*"]),
    "a..b": (["a..b", "a.*.b", "#.b", "a.#", "*.*.*"], ["a.b", "a.*", "*.*"]),
    ".a": ([".a", "*.a", "#.a"], ["a"]),
    "a.": (["a.", "a.*", "a.#"], ["a"]),
    "A.B": (["A.B", "#", "*.*"], ["a.b", "A.b", "a.*"]),
    "*": (["*", "#"], ["a", "#.a"]),
    "a.#": (["a.#", "a.*", "#"], ["a", "a.b"]),
    "*.b": (["*.b", "#.b"], ["a.b"]),
    "ü.ß": (["ü.ß", "*.ß", "ü.*"], ["Ü.ß", "u.ß"]),
    "a b.c": (["a b.c", "*.c"], ["a.b.c", "a.*"]),
    "abc.def": (["abc.def", "abc.*"], ["ab*.def", "*c.def", "abc.d#", "abc#"]),
}


@pytest.mark.parametrize("key", MATCHES)
def test_binding_keys_match_by_words(channel, name, key):
    exchange, (matching, others) = name(), MATCHES[key]
    channel.call("exchange.declare", exchange=exchange, type="topic")
    queues = {binding: channel.exclusive_queue() for binding in matching + others}
    for binding, queue in queues.items():
        channel.bind(queue, exchange, binding)
    channel.publish(exchange, key, "body")
    reached = [binding for binding, queue in queues.items() if channel.get(queue, no_ack=True)]
    assert reached == matching


def test_routing_keys_that_are_not_utf_8_are_compared_byte_by_byte(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="topic")
    channel.bind(queue, exchange, "a.*")
    channel.publish(exchange, b"a.\xff\xfe", "body")
    assert channel.drain(queue) == ["body"]


def test_a_queue_gets_one_copy_however_many_bindings_match(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="topic")
    for binding in ("a.b", "a.*", "#", "*.b", "a.#", "#.b"):
        channel.bind(queue, exchange, binding)
    channel.publish(exchange, "a.b", "body")
    assert channel.drain(queue) == ["body"]


def test_removing_one_of_several_matching_bindings_leaves_the_others(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="topic")
    for binding in ("a.#", "a.b.#", "a.*"):
        channel.bind(queue, exchange, binding)
    for binding in ("a.#", "a.*"):
        channel.unbind(queue, exchange, binding)
    channel.publish(exchange, "a.b", "two words")
    channel.publish(exchange, "a.c", "nowhere")
    channel.publish(exchange, "a.b.c", "three words")
    assert channel.drain(queue) == ["two words", "three words"]


def test_unbinding_a_longer_key_leaves_its_beginning(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="topic")
    channel.bind(queue, exchange, "a")
    channel.bind(queue, exchange, "a.b.c")
    channel.unbind(queue, exchange, "a.b.c")
    channel.publish(exchange, "a", "body")
    channel.publish(exchange, "a.b.c", "nowhere")
    assert channel.drain(queue) == ["body"]


def test_many_words_match(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="topic")
    channel.bind(queue, exchange, "#.z.#")
    key = ".".join("a" * 60) + ".z." + ".".join("b" * 60)
    channel.publish(exchange, key, "body")
    assert channel.drain(queue) == ["body"]


def test_the_predeclared_topic_exchange_routes_too(channel, name):
    queue, word = channel.exclusive_queue(), name()
    channel.bind(queue, "amq.topic", f"{word}.*")
    channel.publish("amq.topic", f"{word}.x", "body")
    assert channel.drain(queue) == ["body"]
