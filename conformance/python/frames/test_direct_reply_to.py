"""Replies without a queue: amq.rabbitmq.reply-to."""

import pytest

from .client import ConnectionClosed

pytestmark = pytest.mark.consuming

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def server(connect):
    return connect().channel()


def _request(requester, server, body="request") -> str:
    """Publishes a request and returns the address in it as the server sees it."""
    queue = server.exclusive_queue()
    requester.publish("", queue, body, {"reply_to": REPLY_TO, "correlation_id": "c"})
    return server.await_message(queue).properties["reply_to"]


@pytest.fixture
def requester(channel):
    channel.consume(REPLY_TO, "replies", no_ack=True)
    return channel


# --- request and reply


def test_the_server_sees_an_address_of_its_own(requester, server):
    address = _request(requester, server)
    assert address.startswith(REPLY_TO + ".") and len(address) <= 255


def test_a_reply_reaches_the_requester(requester, server):
    address = _request(requester, server)
    server.publish("", address, "reply", {"correlation_id": "c"})
    reply = requester.expect("basic.deliver")
    assert reply.arguments == {
        "consumer_tag": "replies",
        "delivery_tag": 1,
        "redelivered": False,
        "exchange": "",
        "routing_key": address,
    }
    assert (reply.body, reply.properties) == (b"reply", {"correlation_id": "c"})


def test_an_address_takes_several_replies(requester, server):
    address = _request(requester, server)
    for number in range(5):
        server.publish("", address, str(number))
    replies = requester.deliveries(5)
    assert [(reply.body, reply.delivery_tag) for reply in replies] == [(b"%d" % n, n + 1) for n in range(5)]


def test_replies_go_to_the_channel_that_asked(connection, server):
    one, two = connection.channel(), connection.channel()
    addresses = []
    for channel in (one, two):
        channel.consume(REPLY_TO, no_ack=True)
        addresses.append(_request(channel, server))
    assert addresses[0] != addresses[1]
    server.publish("", addresses[1], "for two")
    assert two.bodies(1) == ["for two"]
    one.expect_nothing()


def test_a_large_reply_is_whole(requester, server):
    address, body = _request(requester, server), bytes(range(256)) * 2000
    server.publish("", address, body)
    assert requester.expect("basic.deliver").body == body


def test_a_requester_may_answer_itself(requester):
    queue = requester.exclusive_queue()
    requester.publish("", queue, "request", {"reply_to": REPLY_TO})
    address = requester.await_message(queue).properties["reply_to"]
    requester.publish("", address, "reply")
    assert requester.bodies(1) == ["reply"]


def test_a_reply_is_routable_for_mandatory_and_confirmed(requester, server):
    address = _request(requester, server)
    server.select_confirms()
    server.publish("", address, "reply", mandatory=True)
    assert server.confirms(1, 1) == {1: "ack"}
    assert requester.bodies(1) == ["reply"]


def test_other_reply_addresses_are_left_alone(requester, server):
    queue = server.exclusive_queue()
    requester.publish("", queue, "request", {"reply_to": "some-queue"})
    assert server.await_message(queue).properties == {"reply_to": "some-queue"}


# --- consuming


@pytest.mark.parametrize("tag", ["", "mine"])
def test_the_reply_consumer_has_a_tag_given_or_invented(channel, tag):
    answer = channel.consume(REPLY_TO, tag, no_ack=True, exclusive=True)
    assert answer == tag or answer.startswith("amq.ctag-")


def test_a_reply_consumer_cannot_acknowledge(channel):
    channel.send("basic.consume", queue=REPLY_TO)
    channel.expect_close(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge", "basic.consume")


def test_a_channel_has_one_reply_consumer(requester):
    requester.send("basic.consume", queue=REPLY_TO, no_ack=True)
    requester.expect_close(406, "PRECONDITION_FAILED - reply consumer already set", "basic.consume")


def test_after_a_cancel_a_new_reply_consumer_has_another_address(requester, server):
    old = _request(requester, server)
    requester.call("basic.cancel", consumer_tag="replies")
    requester.consume(REPLY_TO, "again", no_ack=True)
    new = _request(requester, server)
    assert old != new
    server.publish("", new, "reply")
    assert requester.expect("basic.deliver").consumer_tag == "again"


def test_after_a_cancel_requests_are_refused(requester):
    requester.call("basic.cancel", consumer_tag="replies")
    requester.publish("", "nowhere", "request", {"reply_to": REPLY_TO})
    requester.expect_close(406, "PRECONDITION_FAILED - fast reply consumer does not exist", "basic.publish")


def test_a_reply_consumer_of_another_channel_does_not_count(connection, requester):
    other = connection.channel()
    other.publish("", "nowhere", "request", {"reply_to": REPLY_TO})
    other.expect_close(406, "PRECONDITION_FAILED - fast reply consumer does not exist", "basic.publish")


def test_nobody_else_consumes_from_an_address(requester, server):
    address = _request(requester, server)
    server.send("basic.consume", queue=address, no_ack=True)
    where = f"queue '{address}' in vhost '{server.vhost}'"
    text = f"PRECONDITION_FAILED - only creator channel may consume from {where}"
    server.expect_close(406, text, "basic.consume")


# --- when the requester is gone


@pytest.mark.parametrize("end", ["channel closed", "connection lost", "consumer cancelled"])
def test_a_late_reply_is_dropped_or_returned(connect, server, end):
    connection = connect()
    requester = connection.channel()
    requester.consume(REPLY_TO, "replies", no_ack=True)
    address = _request(requester, server)
    if end == "channel closed":
        requester.close()
    elif end == "connection lost":
        connection.abort()
    else:
        requester.call("basic.cancel", consumer_tag="replies")
    server.eventually(lambda: not server.queue_exists(address))
    server.select_confirms()
    server.publish("", address, "dropped")
    assert server.confirms(1, 1) == {1: "ack"}
    server.publish("", address, "late", mandatory=True)
    # RabbitMQ drops it silently; to return it is better, for it reached nobody.
    answer = server.next()
    if answer.name == "basic.return":
        assert (answer.reply_code, answer.routing_key) == (312, address)
        answer = server.next()
    assert (answer.name, answer.delivery_tag) == ("basic.ack", 2)


def test_a_made_up_address_is_not_routed(channel):
    channel.publish("", REPLY_TO + ".abc", "reply", mandatory=True)
    assert channel.expect("basic.return").reply_code == 312


def test_a_reply_through_another_exchange_is_not_routed(requester, server):
    address = _request(requester, server)
    server.publish("amq.direct", address, "reply", mandatory=True)
    assert server.expect("basic.return").reply_code == 312
    requester.expect_nothing()


# --- the address as a queue


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_a_live_address_tells_that_it_lives(requester, server, passive):
    address = _request(requester, server)
    answer = server.declare_queue(address, passive=passive)
    assert (answer.queue, answer.message_count, answer.consumer_count) == (address, 0, 1)


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_the_bare_name_succeeds(channel, passive):
    answer = channel.declare_queue(REPLY_TO, passive=passive)
    assert (answer.queue, answer.message_count, answer.consumer_count) == (REPLY_TO, 0, 1)


@pytest.mark.parametrize("passive", [False, True])
def test_declaring_a_dead_address_is_not_found(requester, server, passive):
    address = _request(requester, server)
    requester.close()
    server.send("queue.declare", queue=address, passive=passive)
    server.expect_close(404, f"NOT_FOUND - no queue '{address}' in vhost '{server.vhost}'", "queue.declare")


@pytest.mark.parametrize("rest", ["x", "made.up", "g2dkAA1hQGI="])
def test_declaring_a_made_up_address_is_not_found_or_fatal(channel, rest):
    address = f"{REPLY_TO}.{rest}"
    channel.send("queue.declare", queue=address)
    try:
        text = f"NOT_FOUND - no queue '{address}' in vhost '{channel.vhost}'"
        channel.expect_close(404, text, "queue.declare")
    except ConnectionClosed as fatal:
        # RabbitMQ falls over some of them.
        assert fatal.close.code == 541


def test_get_is_not_implemented_on_an_address(requester, server):
    address = _request(requester, server)
    server.send("basic.get", queue=address)
    where = f"queue '{address}' in vhost '{server.vhost}'"
    text = f"NOT_IMPLEMENTED - basic.get not supported by volatile {where}"
    server.connection.expect_close(540, text, "basic.get")


@pytest.mark.parametrize("method", ["basic.get", "queue.purge"])
def test_the_bare_name_is_no_queue(channel, method):
    channel.send(method, queue=REPLY_TO)
    channel.expect_close(404, f"NOT_FOUND - no queue '{REPLY_TO}' in vhost '{channel.vhost}'", method)


def test_deleting_an_address_does_nothing(requester, server):
    address = _request(requester, server)
    assert server.call("queue.delete", queue=address).message_count == 0
    server.publish("", address, "reply")
    assert requester.bodies(1) == ["reply"]
