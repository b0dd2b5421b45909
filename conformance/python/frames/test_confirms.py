"""Publisher confirms."""

import pytest

pytestmark = pytest.mark.publishing


@pytest.fixture
def publisher(channel):
    channel.select_confirms()
    return channel


def test_select_may_be_repeated_without_a_new_count(channel):
    queue = channel.exclusive_queue()
    channel.select_confirms()
    channel.publish("", queue, "one")
    channel.select_confirms()
    channel.publish("", queue, "two")
    assert channel.confirms(1, 2) == {1: "ack", 2: "ack"}


def test_select_on_a_tx_channel_is_refused(channel):
    channel.call("tx.select")
    channel.send("confirm.select")
    text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    channel.expect_close(406, text, "confirm.select")


def test_publishes_before_select_are_not_counted(channel):
    queue = channel.exclusive_queue()
    channel.publish("", queue, "before")
    channel.select_confirms()
    channel.publish("", queue, "one")
    assert channel.confirms(1, 1) == {1: "ack"}
    channel.expect_nothing(queue)


def test_each_channel_counts_for_itself(connection):
    one, two = connection.channel(), connection.channel()
    queue = one.exclusive_queue()
    for channel in (one, two):
        channel.select_confirms()
        for _ in range(3):
            channel.publish("", queue, "body")
    assert one.confirms(1, 3) == two.confirms(1, 3) == dict.fromkeys(range(1, 4), "ack")


KINDS = {
    "transient to classic": ("classic", {}),
    "persistent to classic": ("classic", {"delivery_mode": 2}),
    "to quorum": ("quorum", {"delivery_mode": 2}),
    "transient to quorum": ("quorum", {}),
    "to stream": ("stream", {"delivery_mode": 2}),
}


@pytest.mark.parametrize("kind, properties", KINDS.values(), ids=KINDS.keys())
def test_every_publish_is_answered_exactly_once(publisher, name, kind, properties):
    queue = name()
    publisher.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
    for number in range(200):
        publisher.publish("", queue, str(number), properties)
    assert publisher.confirms(1, 200) == dict.fromkeys(range(1, 201), "ack")
    publisher.expect_nothing()


@pytest.mark.parametrize("mandatory", [False, True])
def test_an_unroutable_message_is_acked_at_once(publisher, mandatory):
    publisher.publish("", "nowhere", "body", mandatory=mandatory)
    if mandatory:
        publisher.expect("basic.return")
    ack = publisher.expect("basic.ack")
    assert (ack.delivery_tag, ack.multiple) == (1, False)


def test_a_mix_of_routable_and_not_is_answered_exactly_once(publisher, name):
    queue = name()
    publisher.declare_queue(queue, durable=True)
    for number in range(100):
        publisher.publish("", "nowhere" if number % 3 else queue, "body", {"delivery_mode": 2})
    assert publisher.confirms(1, 100) == dict.fromkeys(range(1, 101), "ack")


def test_a_message_for_several_queues_has_one_answer(publisher, name):
    exchange = name()
    publisher.call("exchange.declare", exchange=exchange, type="fanout")
    for kind in ("classic", "quorum", "stream"):
        queue = name()
        publisher.declare_queue(queue, durable=True, arguments={"x-queue-type": kind})
        publisher.bind(queue, exchange)
    publisher.publish(exchange, "", "body", {"delivery_mode": 2})
    assert publisher.confirms(1, 1) == {1: "ack"}
    publisher.expect_nothing()


def test_a_message_consumed_at_once_is_acked_too(publisher):
    queue = publisher.exclusive_queue()
    publisher.consume(queue, no_ack=True)
    publisher.publish("", queue, "body", {"delivery_mode": 2})
    assert {publisher.next().name, publisher.next().name} == {"basic.deliver", "basic.ack"}


def test_a_full_queue_that_rejects_nacks(publisher):
    queue = publisher.exclusive_queue(x_max_length=1, x_overflow="reject-publish")
    publisher.publish("", queue, "fits")
    assert publisher.confirms(1, 1) == {1: "ack"}
    publisher.publish("", queue, "does not")
    assert publisher.confirms(2, 2) == {2: "nack"}
    assert publisher.drain(queue) == ["fits"]


def test_a_nack_of_the_broker_says_requeue_as_the_method_has_it_by_default(publisher):
    full = publisher.exclusive_queue(x_max_length=0, x_overflow="reject-publish")
    publisher.publish("", full, "body")
    nack = publisher.expect("basic.nack")
    assert (nack.delivery_tag, nack.requeue) == (1, True)


def test_one_rejecting_queue_is_enough_for_a_nack(publisher, name):
    exchange, taking = name(), publisher.exclusive_queue()
    full = publisher.exclusive_queue(x_max_length=0, x_overflow="reject-publish")
    publisher.call("exchange.declare", exchange=exchange, type="fanout")
    for queue in (taking, full):
        publisher.bind(queue, exchange)
    publisher.publish(exchange, "", "body")
    assert publisher.confirms(1, 1) == {1: "nack"}
    assert publisher.drain(taking) == ["body"]


def test_acks_and_nacks_in_a_row_are_each_answered_once(publisher):
    full = publisher.exclusive_queue(x_max_length=0, x_overflow="reject-publish")
    taking = publisher.exclusive_queue()
    targets = [full if number % 4 == 0 else taking for number in range(1, 101)]
    for queue in targets:
        publisher.publish("", queue, "body")
    expected = {number: "nack" if queue == full else "ack" for number, queue in enumerate(targets, 1)}
    assert publisher.confirms(1, 100) == expected


@pytest.mark.parametrize(
    "arguments, properties",
    [({"x-max-length": 0}, {}), ({"x-max-length-bytes": 1}, {}), ({"x-message-ttl": 0}, {}), ({}, {"expiration": "0"})],
    ids=["max-length 0", "too many bytes", "queue ttl 0", "message ttl 0"],
)
def test_a_message_dropped_by_its_queue_is_acked(publisher, arguments, properties):
    queue = publisher.declare_queue(exclusive=True, arguments=arguments).queue
    publisher.publish("", queue, "body", properties)
    assert publisher.confirms(1, 1) == {1: "ack"}


def test_messages_dropped_from_the_head_were_acked(publisher):
    queue = publisher.exclusive_queue(x_max_length=2)
    for number in range(10):
        publisher.publish("", queue, str(number))
    assert publisher.confirms(1, 10) == dict.fromkeys(range(1, 11), "ack")
    assert publisher.drain(queue) == ["8", "9"]


def test_a_message_of_a_deleted_queue_is_acked(connection, name):
    publisher, other = connection.channel(), connection.channel()
    queue = name()
    publisher.declare_queue(queue, durable=True)
    publisher.select_confirms()
    for _ in range(200):
        publisher.publish("", queue, "body", {"delivery_mode": 2})
    other.call("queue.delete", queue=queue)
    assert publisher.confirms(1, 200) == dict.fromkeys(range(1, 201), "ack")


def test_a_message_of_a_purged_queue_is_acked(connection, name):
    publisher, other = connection.channel(), connection.channel()
    queue = name()
    publisher.declare_queue(queue, durable=True)
    publisher.select_confirms()
    for _ in range(200):
        publisher.publish("", queue, "body", {"delivery_mode": 2})
    other.call("queue.purge", queue=queue)
    assert publisher.confirms(1, 200) == dict.fromkeys(range(1, 201), "ack")


def test_a_publish_that_fails_has_no_answer_and_ends_the_counting(publisher):
    queue = publisher.exclusive_queue()
    publisher.publish("", queue, "body")
    assert publisher.confirms(1, 1) == {1: "ack"}
    publisher.publish("", queue, "body", {"expiration": "bad"})
    publisher.expect_close(406, "PRECONDITION_FAILED - invalid expiration 'bad': no_integer", "basic.publish")
    publisher.open()
    publisher.select_confirms()
    publisher.publish("", queue, "body")
    assert publisher.confirms(1, 1) == {1: "ack"}


def test_a_confirmed_message_is_ready(publisher, name):
    queue = name()
    publisher.declare_queue(queue, durable=True)
    publisher.publish("", queue, "body", {"delivery_mode": 2})
    publisher.confirms(1, 1)
    assert publisher.depth(queue) == 1


def test_deliveries_and_confirms_count_separately(publisher):
    queue = publisher.exclusive_queue()
    publisher.publish("", queue, "one")
    publisher.publish("", queue, "two")
    publisher.confirms(1, 2)
    publisher.consume(queue)
    assert [delivery.delivery_tag for delivery in publisher.deliveries(2)] == [1, 2]
    publisher.ack(2, multiple=True)
    publisher.publish("", queue, "three")
    answers = {method.name: method.delivery_tag for method in (publisher.next(), publisher.next())}
    assert answers == {"basic.deliver": 3, "basic.ack": 3}
