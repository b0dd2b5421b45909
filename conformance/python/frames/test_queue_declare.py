"""queue.declare: flags, names, equivalence, passive. Arguments and their ranges have a file of their own."""

import re

import pytest

from .wire import Value

pytestmark = pytest.mark.queues


def locked(channel, queue) -> str:
    """As on the wire: cut where the name is long."""
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '{channel.vhost}'. "
        "It could be originally declared on another connection or the exclusive property value does not match "
        "that of the original declaration."
    )
    return text if len(text) <= 255 else text[:252] + "..."


def _inequivalent(channel, queue, key, difference) -> str:
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    return f"PRECONDITION_FAILED - inequivalent arg '{key}' {where}: {difference}"


# --- declaring


def test_a_new_queue_is_empty(channel, name):
    queue = name()
    answer = channel.declare_queue(queue, durable=True)
    assert (answer.queue, answer.message_count, answer.consumer_count) == (queue, 0, 0)


def test_a_second_declare_counts_messages_and_consumers(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    channel.publish_all("", queue, ["one", "two", "three"])
    assert channel.get(queue).body == b"one"
    answer = channel.declare_queue(queue, durable=True)
    # What is unacked is not ready.
    assert (answer.queue, answer.message_count, answer.consumer_count) == (queue, 2, 0)
    channel.prefetch(1)
    channel.consume(queue)
    channel.consume(queue)
    channel.deliveries(2)
    answer = channel.declare_queue(queue, durable=True)
    assert (answer.message_count, answer.consumer_count) == (0, 2)


def test_a_queue_without_a_name_gets_one(channel):
    names = {channel.declare_queue(exclusive=True).queue for _ in range(20)}
    assert len(names) == 20
    assert all(re.fullmatch(r"amq\.gen-[A-Za-z0-9_-]{22}", name) for name in names)


def test_a_server_named_queue_can_be_used_but_not_declared_by_name(channel):
    queue = channel.declare_queue(exclusive=True).queue
    assert channel.depth(queue) == 0
    channel.send("queue.declare", queue=queue, exclusive=True)
    text = f"ACCESS_REFUSED - queue name '{queue}' contains reserved prefix 'amq.*'"
    channel.expect_close(403, text, "queue.declare")


@pytest.mark.parametrize("queue", ["amq.foo", "amq.", "amq.gen-x"])
def test_a_reserved_name_is_refused(channel, queue):
    channel.send("queue.declare", queue=queue)
    text = f"ACCESS_REFUSED - queue name '{queue}' contains reserved prefix 'amq.*'"
    channel.expect_close(403, text, "queue.declare")


@pytest.mark.parametrize("prefix", ["amq", "AMQ.", "amqx."])
def test_names_near_the_reserved_prefix_are_free(channel, name, prefix):
    channel.declare_queue(prefix + name(), exclusive=True)


@pytest.mark.parametrize(
    "prefix", ["schön ", "a b/c", "%2F", "quote ' ", '"', "x" * 200, "\x00", "日本", "ends with space "], ids=repr
)
def test_names_may_be_any_utf_8(channel, name, prefix):
    queue = prefix + name()[-8:]
    assert channel.declare_queue(queue, exclusive=True).queue == queue
    channel.publish("", queue, "body")
    assert channel.get(queue).routing_key == queue


def test_a_name_may_have_255_bytes(channel, name):
    queue = name().ljust(255, "x")
    assert channel.declare_queue(queue, exclusive=True).queue == queue
    assert channel.depth(queue) == 0


def test_line_ends_are_removed_from_names(channel, name):
    queue = name()
    stripped = channel.declare_queue(f"\r\n{queue[:5]}\n{queue[5:]}\r", exclusive=True).queue
    assert stripped == queue
    assert channel.declare_queue(queue + "\n", passive=True).queue == queue
    channel.call("queue.delete", queue=f"\n{queue}")
    assert not channel.queue_exists(queue)


def test_names_differ_in_case(channel, name):
    queue = name()
    channel.declare_queue(queue, exclusive=True)
    assert not channel.queue_exists(queue.upper())


# --- equivalence


@pytest.mark.parametrize(
    "first, again, key, difference",
    [
        ({"durable": True}, {}, "durable", "received 'false' but current is 'true'"),
        (
            {"durable": True},
            {"durable": True, "auto_delete": True},
            "auto_delete",
            "received 'true' but current is 'false'",
        ),
        ({"durable": True}, {"auto_delete": True}, "durable", "received 'false' but current is 'true'"),
        (
            {"durable": True},
            {"durable": True, "auto_delete": True, "arguments": {"x-max-length": 5}},
            "auto_delete",
            "received 'true' but current is 'false'",
        ),
    ],
    ids=["durable", "auto-delete", "durable first", "arguments last"],
)
def test_a_differing_flag_is_refused(channel, name, first, again, key, difference):
    queue = name()
    channel.call("queue.declare", queue=queue, **first)
    channel.send("queue.declare", queue=queue, **again)
    channel.expect_close(406, _inequivalent(channel, queue, key, difference), "queue.declare")


DIFFERENCES = {
    "another number": ({"x-max-length": 5}, {"x-max-length": 6}, "received '6' but current is '5'"),
    "now absent": (
        {"x-max-length": Value("b", 5)},
        {},
        "received none but current is the value '5' of type 'byte'",
    ),
    "newly given": (
        {},
        {"x-max-length": Value("I", 60000)},
        "received the value '60000' of type 'signedint' but current is none",
    ),
    "string for number": ({"x-max-length": 5}, {"x-max-length": "5"}, "received '5' but current is '5'"),
    "newly given long": (
        {},
        {"x-max-length": Value("l", 7)},
        "received the value '7' of type 'long' but current is none",
    ),
}


@pytest.mark.parametrize("first, again, difference", DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_a_differing_argument_is_refused(channel, name, first, again, difference):
    queue = name()
    channel.declare_queue(queue, exclusive=True, arguments=first)
    channel.send("queue.declare", queue=queue, exclusive=True, arguments=again)
    channel.expect_close(406, _inequivalent(channel, queue, "x-max-length", difference), "queue.declare")


def test_a_differing_string_argument_is_refused(channel, name):
    queue = name()
    channel.declare_queue(queue, exclusive=True, arguments={"x-dead-letter-exchange": "a"})
    channel.send("queue.declare", queue=queue, exclusive=True, arguments={"x-dead-letter-exchange": "b"})
    text = _inequivalent(channel, queue, "x-dead-letter-exchange", "received 'b' but current is 'a'")
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("letter", "bBsuIil")
def test_integers_of_any_width_are_equivalent(channel, name, letter):
    queue = name()
    channel.declare_queue(queue, exclusive=True, arguments={"x-max-length": Value("l", 5)})
    channel.declare_queue(queue, exclusive=True, arguments={"x-max-length": Value(letter, 5)})


def test_strings_and_binaries_are_equivalent(channel, name):
    queue = name()
    channel.declare_queue(queue, exclusive=True, arguments={"x-dead-letter-exchange": Value("S", "x")})
    channel.declare_queue(queue, exclusive=True, arguments={"x-dead-letter-exchange": Value("x", b"x")})


@pytest.mark.parametrize(
    "first, again",
    [(Value("I", 5), Value("d", 5.0)), (Value("I", 1), Value("t", True)), (Value("I", 5), Value("S", "5"))],
    ids=["double", "bool", "string"],
)
def test_values_of_another_kind_are_not_equivalent(channel, name, first, again):
    queue = name()
    channel.declare_queue(queue, exclusive=True, arguments={"x-max-length": first})
    assert (
        channel.attempt("queue.declare", queue=queue, exclusive=True, arguments={"x-max-length": again}).reply_code
        == 406
    )


def test_unknown_arguments_are_not_compared(channel, name):
    queue = name()
    for arguments in ({"foo": 1}, {"foo": "other"}, {}, {"ha-mode": "all"}, {"x-ha-policy": "all"}):
        channel.declare_queue(queue, exclusive=True, arguments=arguments)


def test_the_order_of_arguments_does_not_matter(channel, name):
    queue = name()
    pairs = [("x-max-length", 5), ("x-message-ttl", 60000)]
    channel.declare_queue(queue, exclusive=True, arguments=pairs)
    channel.declare_queue(queue, exclusive=True, arguments=pairs[::-1])


def test_naming_the_default_type_is_equivalent_to_not_naming_it(channel, name):
    one, two = name(), name()
    channel.declare_queue(one, durable=True)
    channel.declare_queue(one, durable=True, arguments={"x-queue-type": "classic"})
    channel.declare_queue(two, durable=True, arguments={"x-queue-type": "classic"})
    channel.declare_queue(two, durable=True)


def test_another_type_is_not_equivalent(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "quorum"})
    text = _inequivalent(channel, queue, "x-queue-type", "received 'quorum' but current is 'classic'")
    channel.expect_close(406, text, "queue.declare")


def test_a_second_declare_is_compared_before_it_is_validated(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    # An argument of another queue type is not one of the existing queue's.
    channel.declare_queue(queue, durable=True, arguments={"x-quorum-initial-group-size": 0})
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": "nope"})
    text = _inequivalent(channel, queue, "x-queue-type", "received 'nope' but current is 'classic'")
    channel.expect_close(406, text, "queue.declare")


def test_the_queue_stays_as_it_was_after_a_refusal(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    channel.publish_all("", queue, ["body"])
    assert channel.attempt("queue.declare", queue=queue).reply_code == 406
    assert channel.declare_queue(queue, durable=True).message_count == 1


# --- passive


def test_a_passive_declare_looks_at_nothing_but_the_name(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    arguments = {"x-max-length": "nonsense", "x-queue-type": "nope"}
    answer = channel.declare_queue(queue, passive=True, auto_delete=True, arguments=arguments)
    assert (answer.queue, answer.message_count) == (queue, 0)


def test_a_passive_declare_of_a_missing_queue_is_not_found(channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, passive=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "queue.declare")


def test_a_passive_declare_without_answer_says_nothing_of_a_queue_that_is_there(channel, name):
    queue = channel.declare_queue(name(), durable=True).queue
    channel.send("queue.declare", queue=queue, passive=True, nowait=True)
    channel.expect_nothing()


def test_a_passive_declare_without_answer_of_a_missing_queue_is_not_found(channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, passive=True, nowait=True)
    channel.expect_close(404, f"NOT_FOUND - no queue '{queue}' in vhost '{channel.vhost}'", "queue.declare")


def test_a_passive_declare_creates_nothing(channel, name):
    queue = name()
    for _ in range(2):
        assert channel.attempt("queue.declare", queue=queue, passive=True).reply_code == 404


# --- exclusive


@pytest.mark.parametrize(
    "method, arguments",
    [
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {"exclusive": False}),
        ("queue.declare", {"passive": True}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
    ],
    ids=["declare", "declare not exclusive", "passive", "purge", "delete", "consume", "get"],
)
def test_an_exclusive_queue_is_locked_for_other_connections(connect, channel, name, method, arguments):
    queue = name()
    connect().channel().declare_queue(queue, exclusive=True)
    channel.send(method, queue=queue, **arguments)
    channel.expect_close(405, locked(channel, queue), method)


def test_an_exclusive_queue_is_open_to_all_channels_of_its_connection(connection):
    first, second = connection.channel(), connection.channel()
    queue = first.exclusive_queue()
    second.publish("", queue, "body")
    assert second.await_message(queue).body == b"body"
    second.call("queue.delete", queue=queue)


def test_an_exclusive_queue_outlives_the_channel_that_declared_it(connection):
    first, second = connection.channel(), connection.channel()
    queue = first.exclusive_queue()
    first.close()
    assert second.depth(queue) == 0


def test_declaring_an_exclusive_queue_without_the_flag_is_locked(channel, name):
    queue = name()
    channel.declare_queue(queue, exclusive=True)
    channel.send("queue.declare", queue=queue)
    channel.expect_close(405, locked(channel, queue), "queue.declare")


def test_declaring_another_queue_with_the_exclusive_flag_is_locked(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    channel.send("queue.declare", queue=queue, durable=True, exclusive=True)
    channel.expect_close(405, locked(channel, queue), "queue.declare")


def test_exclusive_is_compared_before_the_other_flags(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    channel.send("queue.declare", queue=queue, exclusive=True, auto_delete=True)
    channel.expect_close(405, locked(channel, queue), "queue.declare")


def test_durable_does_not_matter_for_an_exclusive_queue(channel, name):
    queue = name()
    for durable in (True, False, True):
        channel.declare_queue(queue, exclusive=True, durable=durable)


# --- auto-delete


def test_auto_delete_waits_for_a_first_consumer(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, auto_delete=True)
    channel.publish("", queue, "body")
    assert channel.get(queue, no_ack=True).body == b"body"
    channel.expect_nothing(queue)
    assert channel.queue_exists(queue)


def test_an_auto_delete_queue_goes_with_its_last_consumer(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True, auto_delete=True)
    channel.publish("", queue, "left behind")
    one, two = channel.consume(queue), channel.consume(queue)
    channel.call("basic.cancel", consumer_tag=one)
    assert channel.queue_exists(queue)
    channel.call("basic.cancel", consumer_tag=two)
    channel.expect("basic.deliver")
    channel.eventually(lambda: not channel.queue_exists(queue))


def test_an_auto_delete_queue_goes_with_the_channel_of_its_consumer(connection, name):
    channel, other, queue = connection.channel(), connection.channel(), name()
    channel.declare_queue(queue, durable=True, auto_delete=True)
    channel.consume(queue)
    channel.close()
    other.eventually(lambda: not other.queue_exists(queue))


def test_an_auto_delete_queue_goes_with_the_connection_of_its_consumer(connect, channel, name):
    connection, queue = connect(), name()
    channel.declare_queue(queue, durable=True, auto_delete=True)
    connection.channel().consume(queue)
    connection.abort()
    channel.eventually(lambda: not channel.queue_exists(queue))


def test_a_queue_outlives_its_consumers_and_its_connection(connect, channel, name):
    connection, queue = connect(), name()
    consumer = connection.channel()
    consumer.declare_queue(queue, durable=True)
    consumer.consume(queue)
    connection.close()
    channel.eventually(lambda: channel.consumers(queue) == 0)
    assert channel.declare_queue(queue, durable=True).queue == queue


def test_a_transient_shared_queue_is_accepted(channel, name):
    queue = name()
    channel.declare_queue(queue)
    channel.declare_queue(queue)


# --- queue types


@pytest.mark.parametrize("kind", ["classic", "quorum", "stream"])
def test_each_queue_type_can_be_declared_and_declared_again(channel, name, kind):
    queue = name()
    for _ in range(2):
        answer = channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
        assert (answer.queue, answer.message_count) == (queue, 0)


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_replicated_queue_needs_a_name(channel, kind):
    channel.send("queue.declare", queue="", durable=True, arguments={"x-queue-type": kind})
    text = f"PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_{kind}_queue"
    channel.expect_close(406, text, "queue.declare")


RESTRICTIONS = {
    "auto-delete": ({"durable": True, "auto_delete": True}, "auto-delete"),
    "exclusive": ({"durable": True, "exclusive": True}, "exclusive-owner"),
    "transient": ({}, "non-durable"),
    "auto-delete first": ({"auto_delete": True, "exclusive": True}, "auto-delete"),
    "exclusive second": ({"exclusive": True}, "exclusive-owner"),
}


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize("flags, flaw", RESTRICTIONS.values(), ids=RESTRICTIONS.keys())
def test_a_replicated_queue_is_durable_and_shared(channel, name, kind, flags, flaw):
    queue = name()
    channel.send("queue.declare", queue=queue, arguments={"x-queue-type": kind}, **flags)
    text = f"PRECONDITION_FAILED - invalid property '{flaw}' for queue '{queue}' in vhost '{channel.vhost}'"
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("kind", ["", "undefined"])
def test_a_type_may_be_left_open(channel, name, kind):
    queue = name()
    for _ in range(2):
        channel.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    # A classic queue, to judge by an argument that no other type takes.
    channel.declare_queue(name(), durable=True, arguments={"x-queue-type": kind, "x-max-priority": 5})


@pytest.mark.parametrize("kind", ["nope", "Classic", "QUORUM", "mqtt "])
def test_an_unknown_type_is_refused(channel, name, kind):
    queue = name()
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": kind})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-type' {where}: \"unsupported queue type '{kind}'\""
    channel.expect_close(406, text, "queue.declare")


def test_a_type_that_is_no_string_is_refused(channel, name):
    queue = name()
    channel.send("queue.declare", queue=queue, durable=True, arguments={"x-queue-type": 5})
    where = f"for queue '{queue}' in vhost '{channel.vhost}'"
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-type' {where}: {{unacceptable_type,signedint}}"
    channel.expect_close(406, text, "queue.declare")


# --- the default type of a vhost


def _in_a_vhost_of(connect, api, vhost, kind):
    """A channel where queues that ask for no type get this one."""
    assert api.put(f"vhosts/{vhost}", {"default_queue_type": kind}).status == 204
    return connect(vhost=vhost).channel()


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_default_type_of_a_vhost_is_as_if_it_were_asked_for(connect, api, vhost, kind):
    channel = _in_a_vhost_of(connect, api, vhost, kind)
    channel.declare_queue("q", durable=True)
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": kind})
    channel.declare_queue("q", durable=True)
    # It is stored among the arguments.
    assert api.get(f"queues/{vhost}/q").json["arguments"] == {"x-queue-type": kind}
    channel.send("queue.declare", queue="q", durable=True, arguments={"x-queue-type": "classic"})
    text = _inequivalent(channel, "q", "x-queue-type", f"received 'classic' but current is '{kind}'")
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    "flags",
    [{}, {"durable": True, "auto_delete": True}, {"durable": True, "exclusive": True}],
    ids=["transient", "auto-delete", "exclusive"],
)
def test_what_the_default_type_cannot_be_is_classic(connect, api, vhost, kind, flags):
    channel = _in_a_vhost_of(connect, api, vhost, kind)
    # To judge by an argument that no other type takes.
    channel.declare_queue("q", arguments={"x-max-priority": 3}, **flags)


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_the_default_type_may_need_a_name(connect, api, vhost, kind):
    channel = _in_a_vhost_of(connect, api, vhost, kind)
    channel.declare_queue("", exclusive=True)
    channel.send("queue.declare", queue="", durable=True)
    text = f"PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_{kind}_queue"
    channel.expect_close(406, text, "queue.declare")


WORDS_FOR_NO_TYPE = ["", "undefined"]


@pytest.mark.parametrize("word", WORDS_FOR_NO_TYPE)
@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_word_for_no_type_is_the_default_type_of_the_vhost(connect, api, vhost, kind, word):
    channel = _in_a_vhost_of(connect, api, vhost, kind)
    open_type = {"x-queue-type": word}
    channel.declare_queue("q", durable=True, arguments=open_type)
    channel.declare_queue("q", durable=True, arguments=open_type)
    channel.declare_queue("q", passive=True)
    channel.eventually(lambda: api.get(f"queues/{vhost}/q").status == 200)
    shown = api.get(f"queues/{vhost}/q").json
    assert (shown["type"], shown["arguments"]) == (kind, open_type)
    # The word is kept as it came, and is compared like any other.
    for arguments in ({}, {"x-queue-type": kind}):
        channel.send("queue.declare", queue="q", durable=True, arguments=arguments)
        text = _inequivalent(channel, "q", "x-queue-type", f"received '{kind}' but current is '{word}'")
        channel.expect_close(406, text, "queue.declare")
        channel.open()
    # What it is does not change with what others will be.
    assert api.put(f"vhosts/{vhost}", {"default_queue_type": "classic"}).status == 204
    channel.declare_queue("q", durable=True, arguments=open_type)
    assert api.get(f"queues/{vhost}/q").json["type"] == kind


@pytest.mark.parametrize("word", WORDS_FOR_NO_TYPE)
@pytest.mark.parametrize("kind", ["quorum", "stream"])
@pytest.mark.parametrize(
    "flags, wrong",
    [
        ({"durable": False}, "non-durable"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
    ],
    ids=["transient", "auto-delete", "exclusive"],
)
def test_a_word_for_no_type_is_the_default_type_whatever_its_flags(connect, api, vhost, kind, word, flags, wrong):
    channel = _in_a_vhost_of(connect, api, vhost, kind)
    channel.send("queue.declare", queue="q", arguments={"x-queue-type": word}, **flags)
    text = f"PRECONDITION_FAILED - invalid property '{wrong}' for queue 'q' in vhost '{vhost}'"
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_a_word_for_no_type_takes_the_arguments_of_the_default_type(connect, api, vhost, kind):
    channel = _in_a_vhost_of(connect, api, vhost, kind)
    own, foreign = {"quorum": ("x-delivery-limit", "x-max-age"), "stream": ("x-max-age", "x-delivery-limit")}[kind]
    values = {"x-delivery-limit": 5, "x-max-age": "1h"}
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": "", own: values[own]})
    channel.send("queue.declare", queue="q", durable=True, arguments={"x-queue-type": ""})
    shown = {"x-delivery-limit": "5' of type 'signedint'", "x-max-age": "3600000' of type 'longstr'"}[own]
    text = _inequivalent(channel, "q", own, f"received none but current is the value '{shown}")
    channel.expect_close(406, text, "queue.declare")
    channel.open()
    channel.send("queue.declare", queue="other", durable=True, arguments={"x-queue-type": "", foreign: values[foreign]})
    where = f"for queue 'other' in vhost '{vhost}' of queue type rabbit_{kind}_queue"
    channel.expect_close(406, f"PRECONDITION_FAILED - invalid arg '{foreign}' {where}", "queue.declare")


@pytest.mark.parametrize("word", WORDS_FOR_NO_TYPE)
def test_a_word_for_no_type_needs_no_name_in_a_vhost_of_quorum_queues(connect, api, vhost, word):
    channel = _in_a_vhost_of(connect, api, vhost, "quorum")
    queue = channel.declare_queue("", durable=True, arguments={"x-queue-type": word}).queue
    assert queue.startswith("amq.gen-")
    channel.eventually(lambda: api.get(f"queues/{vhost}/{queue}").status == 200)
    assert api.get(f"queues/{vhost}/{queue}").json["type"] == "quorum"
    channel.send("queue.declare", queue="", exclusive=True, arguments={"x-queue-type": word})
    text = re.compile("PRECONDITION_FAILED - invalid property 'exclusive-owner' for queue 'amq.gen-.{22}' in vhost " + f"'{vhost}'")
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize(
    "value, detail",
    [
        (5, "{unacceptable_type,signedint}"),
        (Value("V"), "{unacceptable_type,void}"),
        (Value("x", b""), "{unacceptable_type,binary}"),
        (Value("t", False), "{unacceptable_type,bool}"),
        ("Undefined", "\"unsupported queue type 'Undefined'\""),
    ],
)
def test_what_is_no_word_for_a_type_is_refused_whatever_the_default_is(connect, api, vhost, value, detail):
    channel = _in_a_vhost_of(connect, api, vhost, "quorum")
    channel.send("queue.declare", queue="q", durable=True, arguments={"x-queue-type": value})
    text = f"PRECONDITION_FAILED - invalid arg 'x-queue-type' for queue 'q' in vhost '{vhost}': {detail}"
    channel.expect_close(406, text, "queue.declare")


def test_a_queue_is_what_it_was_after_a_restart(restartable_broker, connect, api, vhost):
    channel = _in_a_vhost_of(connect, api, vhost, "quorum")
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": ""})
    channel.select_confirms()
    # A quorum queue keeps it, although it is not persistent.
    channel.publish("", "q", "kept")
    channel.confirms(1, 1)
    assert api.put(f"vhosts/{vhost}", {"default_queue_type": "classic"}).status == 204
    channel.connection.close()
    restartable_broker.restart()
    channel = connect(vhost=vhost).channel()
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": ""})
    assert channel.await_message("q").body == b"kept"
    assert api.get(f"queues/{vhost}/q").json["type"] == "quorum"


@pytest.mark.parametrize("word", WORDS_FOR_NO_TYPE)
def test_policies_count_a_queue_as_what_it_is(connect, api, vhost, word):
    channel = _in_a_vhost_of(connect, api, vhost, "quorum")
    definition = {"pattern": "^q$", "definition": {"max-length": 1, "overflow": "reject-publish"}}
    assert api.put(f"policies/{vhost}/p", {**definition, "apply-to": "quorum_queues"}).status == 201
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": word})
    channel.eventually(lambda: api.get(f"queues/{vhost}/q").json.get("policy") == "p")


def test_a_classic_queue_stores_its_type_too(channel, name, api, endpoint):
    queue = channel.declare_queue(name(), durable=True).queue
    vhost = endpoint.vhost.replace("/", "%2F")
    channel.eventually(lambda: api.get(f"queues/{vhost}/{queue}").status == 200)
    assert api.get(f"queues/{vhost}/{queue}").json["arguments"] == {"x-queue-type": "classic"}


# --- limits


def test_a_full_vhost_takes_no_queue_of_any_kind_but_those_it_has(connect, api, vhost):
    channel = connect(vhost=vhost).channel()
    assert api.put(f"vhost-limits/{vhost}/max-queues", {"value": 1}).status == 204
    channel.declare_queue("first", durable=True)
    channel.declare_queue("first", durable=True)
    limit = f"queue limit in vhost '{vhost}' (1) is reached"
    for flags in ({"durable": True}, {"exclusive": True}):
        channel.send("queue.declare", queue="second", **flags)
        text = f"PRECONDITION_FAILED - cannot declare queue 'second': {limit}"
        channel.expect_close(406, text, "queue.declare")
        channel.open()
    channel.send("queue.declare", queue="", exclusive=True)
    text = re.compile(re.escape("PRECONDITION_FAILED - cannot declare queue 'amq.gen-") + ".{22}': " + re.escape(limit))
    channel.expect_close(406, text, "queue.declare")


# --- policies


@pytest.mark.parametrize("argument, policy", [(60000, 1), (1, 60000)], ids=["policy smaller", "argument smaller"])
def test_of_policy_and_argument_the_smaller_ttl_counts(connect, api, vhost, argument, policy):
    definition = {"pattern": "^q$", "definition": {"message-ttl": policy}, "apply-to": "queues"}
    assert api.put(f"policies/{vhost}/p", definition).status == 201
    channel = connect(vhost=vhost).channel()
    dead = channel.exclusive_queue()
    arguments = {"x-message-ttl": argument, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue("q", durable=True, arguments=arguments)
    channel.publish("", "q", "body")
    assert channel.await_message(dead).body == b"body"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_messages_keep_the_ttl_of_a_policy_that_is_taken_back(connect, api, vhost, kind):
    channel = connect(vhost=vhost).channel()
    channel.declare_queue("q", durable=True, arguments={"x-queue-type": kind})
    definition = {"pattern": "^q$", "definition": {"message-ttl": 5000}, "apply-to": "queues"}
    assert api.put(f"policies/{vhost}/p", definition).status == 201
    channel.eventually(lambda: api.get(f"queues/{vhost}/q").json.get("policy") == "p")
    # More than is kept in memory.
    channel.publish_all("", "q", ["x" * 1000] * 3500, {"delivery_mode": 2})
    assert api.delete(f"policies/{vhost}/p").status == 204
    channel.eventually(lambda: api.get(f"queues/{vhost}/q").json.get("policy") is None)
    channel.eventually(lambda: channel.depth("q") == 0, timeout=30)


@pytest.mark.parametrize("argument, policy", [(9, 2), (2, 9)], ids=["policy smaller", "argument smaller"])
def test_of_policy_and_argument_the_smaller_length_counts(connect, api, vhost, argument, policy):
    definition = {"pattern": "^q$", "definition": {"max-length": policy}, "apply-to": "queues"}
    assert api.put(f"policies/{vhost}/p", definition).status == 201
    channel = connect(vhost=vhost).channel()
    channel.declare_queue("q", durable=True, arguments={"x-max-length": argument})
    channel.publish_all("", "q", "12345")
    assert channel.drain("q") == ["4", "5"]
