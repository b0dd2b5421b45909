"""basic.publish: the order of its checks, and returns."""

import pytest

pytestmark = pytest.mark.publishing


def no_exchange(channel, exchange) -> str:
    return f"NOT_FOUND - no exchange '{exchange}' in vhost '{channel.vhost}'"


# --- checks


def test_immediate_is_not_implemented(connection, channel):
    channel.publish("", "nowhere", "body", immediate=True)
    connection.expect_close(540, "NOT_IMPLEMENTED - immediate=true", "basic.publish")


def test_a_missing_exchange_is_not_found(channel, name):
    exchange = name()
    channel.publish(exchange, "k", "body")
    channel.expect_close(404, no_exchange(channel, exchange), "basic.publish")


def test_line_ends_in_the_exchange_name_are_not_removed(channel):
    channel.publish("amq.direct\n", "k", "body")
    channel.expect_close(404, no_exchange(channel, "amq.direct\n"), "basic.publish")


EXPIRATIONS = {
    "abc": "no_integer",
    "": "no_integer",
    " 1000": "no_integer",
    "1.5": '{leftover_string,".5"}',
    "10s": '{leftover_string,"s"}',
    "1e3": '{leftover_string,"e3"}',
    "0x10": '{leftover_string,"x10"}',
    "1000 ": '{leftover_string," "}',
    "-1": "{value_negative,-1}",
    "315360000001": "{value_too_large,315360000001}",
}


@pytest.mark.parametrize("expiration, detail", EXPIRATIONS.items(), ids=repr)
def test_a_bad_expiration_is_refused(channel, expiration, detail):
    channel.publish("", "nowhere", "body", {"expiration": expiration})
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {detail}"
    channel.expect_close(406, text, "basic.publish")


@pytest.mark.parametrize("expiration", ["0", "1", "60000", "315360000000"])
def test_a_good_expiration_is_delivered_as_it_came(channel, expiration):
    queue = channel.exclusive_queue()
    channel.consume(queue)
    channel.publish("", queue, "body", {"expiration": expiration})
    assert channel.expect("basic.deliver").properties == {"expiration": expiration}


@pytest.mark.parametrize("expiration", ["+60000", "0060000"])
def test_an_expiration_with_sign_or_zeros_is_taken(channel, expiration):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body", {"expiration": expiration})
    # RabbitMQ writes the number anew.
    assert channel.await_message(queue).properties["expiration"] in (expiration, "60000")


@pytest.mark.parametrize("user", ["other", "", "GUEST"])
def test_the_user_id_of_somebody_else_is_refused(channel, endpoint, user):
    channel.publish("", "nowhere", "body", {"user_id": user})
    text = f"PRECONDITION_FAILED - user_id property set to '{user}' but authenticated user was '{endpoint.user}'"
    channel.expect_close(406, text, "basic.publish")


@pytest.mark.parametrize(
    "header, value, kind",
    [
        ("CC", "key", "longstr"),
        ("BCC", "key", "longstr"),
        ("CC", 5, "signedint"),
        ("CC", {"a": 1}, "table"),
        ("BCC", None, "void"),
    ],
)
def test_cc_and_bcc_must_be_arrays(channel, header, value, kind):
    channel.publish("", "nowhere", "body", {"headers": {header: value}})
    text = f'PRECONDITION_FAILED - invalid message: {{unacceptable_type_in_header,"{header}",{kind}}}'
    channel.expect_close(406, text, "basic.publish")


def test_a_reply_address_needs_a_reply_consumer(channel):
    channel.publish("", "nowhere", "body", {"reply_to": "amq.rabbitmq.reply-to"})
    channel.expect_close(406, "PRECONDITION_FAILED - fast reply consumer does not exist", "basic.publish")


FAULTS = [
    ("size", "message size 16777217 is larger"),
    ("exchange", "no exchange"),
    ("reply", "fast reply consumer"),
    ("expiration", "invalid expiration"),
    ("cc", "invalid message"),
    ("user", "user_id property"),
]


@pytest.mark.parametrize("first", range(len(FAULTS) - 1), ids=[name for name, _ in FAULTS[:-1]])
def test_of_several_faults_the_first_in_order_is_told(channel, first):
    faults = [fault for fault, _ in FAULTS[first:]]
    properties = {}
    if "reply" in faults:
        properties["reply_to"] = "amq.rabbitmq.reply-to"
    if "expiration" in faults:
        properties["expiration"] = "bad"
    if "cc" in faults:
        properties["headers"] = {"CC": "no array"}
    if "user" in faults:
        properties["user_id"] = "other"
    exchange = "there-is-no-such-exchange" if "exchange" in faults else ""
    channel.publish(exchange, "nowhere", b"x" * (16777217 if "size" in faults else 1), properties)
    close = channel.expect("channel.close")
    assert FAULTS[first][1] in close.reply_text


def test_a_size_fault_in_confirm_mode_gets_no_confirm(channel):
    channel.select_confirms()
    channel.publish("", "nowhere", b"x" * 16777217)
    channel.expect("channel.close")
    channel.send("channel.close-ok")
    channel.open()
    channel.expect_nothing()


def test_a_refused_publish_reaches_no_queue(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "good")
    channel.publish("", queue, "bad", {"expiration": "bad"})
    channel.publish("", queue, "behind it")
    channel.expect("channel.close")
    channel.send("channel.close-ok")
    channel.open()
    assert channel.drain(queue) == ["good"]


def test_the_ticket_does_not_matter(channel):
    queue = channel.exclusive_queue()
    channel.send("basic.publish", ticket=9, routing_key=queue)
    channel.send_frame(2, b"\x00\x3c" + b"\x00" * 12)
    assert channel.await_message(queue).body == b""


# --- unroutable


def test_an_unroutable_message_is_dropped_silently(channel):
    channel.publish("", "nowhere", "body")
    channel.publish("amq.direct", "nowhere", "body")
    channel.expect_nothing()


def test_an_unroutable_mandatory_message_is_returned_whole(channel, endpoint):
    properties = {"message_id": "m", "priority": 3, "user_id": endpoint.user, "headers": {"a": 1}}
    channel.publish("amq.direct", "nowhere at all", "body", properties, mandatory=True)
    returned = channel.expect("basic.return")
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key, returned.body) == ("amq.direct", "nowhere at all", b"body")
    assert {**returned.properties, "headers": returned.headers.plain()} == properties


@pytest.mark.parametrize("size", [0, 200_000])
def test_a_returned_body_is_whole_whatever_its_size(channel, size):
    channel.publish("", "nowhere", b"x" * size, mandatory=True)
    assert len(channel.expect("basic.return").body) == size


def test_a_routable_mandatory_message_is_not_returned(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "body", mandatory=True)
    channel.expect_nothing(queue)
    assert channel.drain(queue) == ["body"]


def test_returns_come_in_the_order_of_the_publishes(channel):
    queue = channel.exclusive_queue()
    for number in range(20):
        channel.publish("", "nowhere" if number % 2 else queue, str(number), mandatory=True)
    assert [channel.expect("basic.return").body for _ in range(10)] == [b"%d" % number for number in range(1, 20, 2)]


def test_a_return_comes_before_the_confirm(channel):
    channel.select_confirms()
    channel.publish("", "nowhere", "body", mandatory=True)
    channel.expect("basic.return")
    assert channel.expect("basic.ack").delivery_tag == 1


@pytest.mark.parametrize(
    "arguments, properties",
    [
        ({"x-max-length": 0, "x-overflow": "reject-publish"}, {}),
        ({"x-max-length": 0}, {}),
        ({}, {"expiration": "0"}),
    ],
    ids=["reject-publish", "drop-head", "ttl 0"],
)
def test_a_message_dropped_by_its_queue_is_not_returned(channel, arguments, properties):
    queue = channel.declare_queue(exclusive=True, arguments=arguments).queue
    channel.publish("", queue, "body", properties, mandatory=True)
    channel.expect_nothing(queue)


# --- order and envelope


def test_a_get_after_a_publish_on_the_channel_sees_it(channel):
    queue = channel.exclusive_queue()
    for number in range(50):
        channel.publish("", queue, str(number))
        assert channel.get(queue, no_ack=True).body == b"%d" % number


def test_many_publishes_keep_their_order(channel):
    queue = channel.exclusive_queue()
    bodies = [str(number) for number in range(2000)]
    for body in bodies:
        channel.publish("", queue, body)
    channel.consume(queue, no_ack=True)
    assert channel.bodies(2000) == bodies


def test_exchange_and_key_of_the_publish_are_delivered(channel):
    queue = channel.exclusive_queue()
    channel.bind(queue, "amq.topic", f"{queue}.#")
    channel.publish("amq.topic", f"{queue}.some.key", "body")
    message = channel.get(queue)
    assert (message.exchange, message.routing_key) == ("amq.topic", f"{queue}.some.key")


def test_a_publish_on_a_closed_channel_number_does_not_disturb_others(connection):
    one, two = connection.channel(), connection.channel()
    queue = two.exclusive_queue()
    one.publish("there-is-no-such-exchange", "", "body")
    two.publish("", queue, "body")
    assert two.await_message(queue).body == b"body"
    one.expect_close(404, no_exchange(one, "there-is-no-such-exchange"), "basic.publish")
