"""exchange.declare and exchange.delete."""

import pytest

pytestmark = pytest.mark.exchanges

DEFAULT_REFUSED = "ACCESS_REFUSED - operation not permitted on the default exchange"


def _inequivalent(channel, exchange, key, received, current):
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{key}' for exchange '{exchange}' in vhost '{channel.vhost}': "
        f"received '{received}' but current is '{current}'"
    )


# --- declaring


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_each_type_can_be_declared_and_declared_again(channel, name, kind):
    exchange = name()
    for _ in range(2):
        channel.call("exchange.declare", exchange=exchange, type=kind)


@pytest.mark.parametrize("flag", ["durable", "auto_delete", "internal"])
def test_each_flag_can_be_declared_and_declared_again(channel, name, flag):
    exchange = name()
    for _ in range(2):
        channel.call("exchange.declare", exchange=exchange, **{flag: True})


@pytest.mark.parametrize("kind", ["nope", "dIRECT", "x-delayed", " "])
def test_an_unknown_type_is_refused(channel, name, kind):
    channel.send("exchange.declare", exchange=name(), type=kind)
    channel.expect_close(406, f"PRECONDITION_FAILED - unknown exchange type '{kind}'", "exchange.declare")


def test_a_type_of_a_plugin_that_is_not_enabled_is_refused(channel, name):
    channel.send("exchange.declare", exchange=name(), type="x-jms-topic")
    channel.expect_close(406, "PRECONDITION_FAILED - invalid exchange type 'x-jms-topic'", "exchange.declare")


def test_an_empty_type_is_refused(channel, name):
    channel.send("exchange.declare", exchange=name(), type="")
    channel.expect_close(406, "PRECONDITION_FAILED - invalid exchange type ''", "exchange.declare")


def test_an_unknown_type_is_refused_also_for_an_existing_exchange(channel):
    channel.send("exchange.declare", exchange="amq.direct", type="nope")
    channel.expect_close(406, "PRECONDITION_FAILED - unknown exchange type 'nope'", "exchange.declare")


@pytest.mark.parametrize("passive", [False, True])
def test_the_default_exchange_cannot_be_declared(channel, passive):
    channel.send("exchange.declare", exchange="", type="direct", durable=True, passive=passive)
    channel.expect_close(403, DEFAULT_REFUSED, "exchange.declare")


@pytest.mark.parametrize("exchange", ["amq.new", "amq."])
def test_a_reserved_name_is_refused(channel, exchange):
    channel.send("exchange.declare", exchange=exchange)
    text = f"ACCESS_REFUSED - exchange name '{exchange}' contains reserved prefix 'amq.*'"
    channel.expect_close(403, text, "exchange.declare")


@pytest.mark.parametrize("prefix", ["amq", "AMQ.", "amqx."])
def test_names_near_the_reserved_prefix_are_free(channel, name, prefix):
    exchange = prefix + name()
    channel.call("exchange.declare", exchange=exchange)
    channel.call("exchange.delete", exchange=exchange)


PREDECLARED = {
    "amq.direct": "direct",
    "amq.fanout": "fanout",
    "amq.topic": "topic",
    "amq.headers": "headers",
    "amq.match": "headers",
}


@pytest.mark.parametrize("exchange, kind", PREDECLARED.items())
def test_a_predeclared_exchange_is_durable_and_of_its_type(channel, exchange, kind):
    channel.call("exchange.declare", exchange=exchange, type=kind, durable=True)


def test_the_trace_exchange_is_an_internal_topic(channel):
    channel.call("exchange.declare", exchange="amq.rabbitmq.trace", type="topic", durable=True, internal=True)


# --- equivalence


@pytest.mark.parametrize(
    "again, key, received, current",
    [
        ({"type": "fanout"}, "type", "fanout", "direct"),
        ({"durable": True}, "durable", "true", "false"),
        ({"auto_delete": True}, "auto_delete", "true", "false"),
        ({"internal": True}, "internal", "true", "false"),
        ({"type": "fanout", "durable": True, "auto_delete": True, "internal": True}, "type", "fanout", "direct"),
        ({"durable": True, "auto_delete": True, "internal": True}, "durable", "true", "false"),
        ({"auto_delete": True, "internal": True}, "auto_delete", "true", "false"),
        ({"internal": True, "arguments": {"alternate-exchange": "x"}}, "internal", "true", "false"),
    ],
    ids=[
        "type",
        "durable",
        "auto-delete",
        "internal",
        "type first",
        "durable second",
        "auto-delete third",
        "arguments last",
    ],
)
def test_a_differing_property_is_refused(channel, name, again, key, received, current):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange)
    channel.send("exchange.declare", exchange=exchange, **again)
    channel.expect_close(406, _inequivalent(channel, exchange, key, received, current), "exchange.declare")


def test_a_differing_predeclared_exchange_is_refused(channel):
    channel.send("exchange.declare", exchange="amq.direct", type="direct")
    text = _inequivalent(channel, "amq.direct", "durable", "false", "true")
    channel.expect_close(406, text, "exchange.declare")


def test_the_exchange_stays_as_it_was_after_a_refusal(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    assert channel.attempt("exchange.declare", exchange=exchange, type="topic").reply_code == 406
    channel.call("exchange.declare", exchange=exchange, type="fanout")


ALTERNATES = {
    "other": ({"alternate-exchange": "a"}, {"alternate-exchange": "b"}, "received 'b' but current is 'a'"),
    "now absent": ({"alternate-exchange": "a"}, {}, "received none but current is the value 'a' of type 'longstr'"),
    "newly given": ({}, {"alternate-exchange": "b"}, "received the value 'b' of type 'longstr' but current is none"),
}


@pytest.mark.parametrize("first, again, difference", ALTERNATES.values(), ids=ALTERNATES.keys())
def test_a_differing_alternate_exchange_is_refused(channel, name, first, again, difference):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, arguments=first)
    channel.send("exchange.declare", exchange=exchange, arguments=again)
    where = f"for exchange '{exchange}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' {where}: {difference}"
    channel.expect_close(406, text, "exchange.declare")


def test_an_alternate_exchange_must_be_a_long_string(channel, name):
    exchange = name()
    channel.send("exchange.declare", exchange=exchange, arguments={"alternate-exchange": 5})
    where = f"in exchange '{exchange}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' {where}"
    channel.expect_close(406, text, "exchange.declare")


def test_an_alternate_exchange_need_not_exist(channel, name):
    channel.call("exchange.declare", exchange=name(), arguments={"alternate-exchange": name()})


def test_other_arguments_are_not_compared(channel, name):
    exchange = name()
    for arguments in ({"foo": 1}, {"foo": "other"}, {}, {"hash-header": "h"}):
        channel.call("exchange.declare", exchange=exchange, arguments=arguments)


# --- passive


def test_a_passive_declare_looks_at_nothing_but_the_name(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type="fanout")
    for kind in ("fanout", "topic", "nope", ""):
        channel.call("exchange.declare", exchange=exchange, type=kind, passive=True, durable=True, internal=True)


def test_a_passive_declare_of_a_missing_exchange_is_not_found(channel, name):
    exchange = name()
    channel.send("exchange.declare", exchange=exchange, passive=True)
    text = f"NOT_FOUND - no exchange '{exchange}' in vhost '{channel.vhost}'"
    channel.expect_close(404, text, "exchange.declare")


# --- names


@pytest.mark.parametrize("prefix", ["schön ", "a b/c", "%2F", "quote ' ", '"', "x" * 150, "\x00", "日本"], ids=repr)
def test_names_may_be_any_utf_8(channel, name, prefix):
    exchange = prefix + name()[-8:]
    channel.call("exchange.declare", exchange=exchange)
    assert channel.exchange_exists(exchange)
    channel.call("exchange.delete", exchange=exchange)
    assert not channel.exchange_exists(exchange)


def test_a_name_may_have_255_bytes(channel, name):
    exchange = name().ljust(255, "x")
    channel.call("exchange.declare", exchange=exchange)
    assert channel.exchange_exists(exchange)
    channel.call("exchange.delete", exchange=exchange)


def test_line_ends_are_removed_from_names(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=f"\r\n{exchange[:5]}\n{exchange[5:]}\r")
    channel.call("exchange.declare", exchange=exchange, passive=True)
    channel.call("exchange.declare", exchange=exchange + "\n", passive=True)
    channel.call("exchange.delete", exchange=exchange + "\r\n")
    assert not channel.exchange_exists(exchange)


# --- deleting


def test_a_deleted_exchange_is_gone(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange)
    channel.call("exchange.delete", exchange=exchange)
    assert not channel.exchange_exists(exchange)


def test_deleting_a_missing_exchange_succeeds(channel, name):
    channel.call("exchange.delete", exchange=name())
    channel.call("exchange.delete", exchange=name(), if_unused=True)


@pytest.mark.parametrize("exchange", ["amq.direct", "amq.rabbitmq.trace", "amq.there-is-none"])
def test_a_system_exchange_cannot_be_deleted(channel, exchange):
    channel.send("exchange.delete", exchange=exchange)
    text = f"ACCESS_REFUSED - deletion of system exchange '{exchange}' in vhost '{channel.vhost}' not allowed"
    channel.expect_close(403, text, "exchange.delete")


def test_the_default_exchange_cannot_be_deleted(channel):
    channel.send("exchange.delete", exchange="")
    channel.expect_close(403, DEFAULT_REFUSED, "exchange.delete")


@pytest.mark.parametrize("destination", ["queue", "exchange"])
def test_if_unused_refuses_the_source_of_a_binding(channel, name, destination):
    exchange, other = name(), name()
    channel.call("exchange.declare", exchange=exchange)
    if destination == "queue":
        channel.bind(channel.exclusive_queue(), exchange)
    else:
        channel.call("exchange.declare", exchange=other)
        channel.call("exchange.bind", destination=other, source=exchange)
    channel.send("exchange.delete", exchange=exchange, if_unused=True)
    text = f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '{channel.vhost}' in use"
    channel.expect_close(406, text, "exchange.delete")


def test_if_unused_deletes_a_mere_destination(channel, name):
    exchange, source = name(), name()
    channel.call("exchange.declare", exchange=exchange)
    channel.call("exchange.declare", exchange=source)
    channel.call("exchange.bind", destination=exchange, source=source)
    channel.call("exchange.delete", exchange=exchange, if_unused=True)
    assert not channel.exchange_exists(exchange)
    # The binding went too.
    channel.call("exchange.delete", exchange=source, if_unused=True)


def test_a_new_exchange_of_the_name_has_none_of_the_old_bindings(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange)
    channel.bind(queue, exchange, "k")
    channel.call("exchange.delete", exchange=exchange)
    channel.call("exchange.declare", exchange=exchange)
    channel.publish(exchange, "k", "body", mandatory=True)
    channel.expect("basic.return")


# --- internal and auto-delete


def test_clients_cannot_publish_to_an_internal_exchange(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, internal=True)
    channel.publish(exchange, "k", "body")
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{exchange}' in vhost '{channel.vhost}'"
    channel.expect_close(403, text, "basic.publish")


def test_an_internal_exchange_is_reached_through_another(channel, name):
    internal, outer, queue = name(), name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=internal, type="fanout", internal=True)
    channel.call("exchange.declare", exchange=outer, type="fanout")
    channel.call("exchange.bind", destination=internal, source=outer)
    channel.bind(queue, internal)
    channel.publish(outer, "k", "body")
    assert channel.get(queue).exchange == outer


def test_auto_delete_waits_for_a_first_binding(channel, name):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, auto_delete=True)
    channel.expect_nothing()
    assert channel.exchange_exists(exchange)


@pytest.mark.parametrize("end", ["unbind", "queue deleted", "exchange unbound", "exchange deleted"])
def test_an_auto_delete_exchange_goes_with_its_last_binding(channel, name, end):
    exchange, other, queue = name(), name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, auto_delete=True)
    if end in ("unbind", "queue deleted"):
        channel.bind(queue, exchange, "one")
        channel.bind(queue, exchange, "two")
        channel.unbind(queue, exchange, "one")
        assert channel.exchange_exists(exchange)
        if end == "unbind":
            channel.unbind(queue, exchange, "two")
        else:
            channel.call("queue.delete", queue=queue)
    else:
        channel.call("exchange.declare", exchange=other)
        channel.call("exchange.bind", destination=other, source=exchange)
        assert channel.exchange_exists(exchange)
        if end == "exchange unbound":
            channel.call("exchange.unbind", destination=other, source=exchange)
        else:
            channel.call("exchange.delete", exchange=other)
    channel.eventually(lambda: not channel.exchange_exists(exchange))


def test_an_auto_delete_exchange_outlives_bindings_to_it(channel, name):
    exchange, source = name(), name()
    channel.call("exchange.declare", exchange=exchange, auto_delete=True)
    channel.call("exchange.declare", exchange=source)
    channel.call("exchange.bind", destination=exchange, source=source)
    channel.call("exchange.unbind", destination=exchange, source=source)
    assert channel.exchange_exists(exchange)


def test_auto_delete_works_along_a_chain(channel, name):
    first, second, queue = name(), name(), channel.exclusive_queue()
    for exchange in (first, second):
        channel.call("exchange.declare", exchange=exchange, auto_delete=True)
    channel.call("exchange.bind", destination=second, source=first)
    channel.bind(queue, second)
    channel.unbind(queue, second)
    channel.eventually(lambda: not channel.exchange_exists(second))
    channel.eventually(lambda: not channel.exchange_exists(first))


def test_exchanges_outlive_the_connection_that_declared_them(connect, name):
    exchange, connection = name(), connect()
    connection.channel().call("exchange.declare", exchange=exchange)
    connection.close()
    assert connect().channel().exchange_exists(exchange)
