"""Sender-selected routing: the headers CC and BCC. Their type checks are in test_publish.py."""

import pytest

from .wire import Value

pytestmark = pytest.mark.routing


@pytest.fixture
def queues(channel) -> list[str]:
    return [channel.exclusive_queue() for _ in range(3)]


def _drained(channel, queues) -> list[list[str]]:
    return [channel.drain(queue) for queue in queues]


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_extra_keys_route_too(channel, queues, header):
    channel.publish("", queues[0], "body", {"headers": {header: queues[1:]}})
    assert _drained(channel, queues) == [["body"]] * 3


def test_both_headers_add_up(channel, queues):
    channel.publish("", queues[0], "body", {"headers": {"CC": queues[1:2], "BCC": queues[2:]}})
    assert _drained(channel, queues) == [["body"]] * 3


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_extra_keys_work_on_other_exchanges(channel, name, queues, kind):
    exchange = name()
    channel.call("exchange.declare", exchange=exchange, type=kind)
    for queue in queues:
        channel.bind(queue, exchange, f"key.{queue}")
    channel.publish(exchange, "nowhere", "body", {"headers": {"CC": [f"key.{queues[0]}"], "BCC": [f"key.{queues[1]}"]}})
    assert _drained(channel, queues) == [["body"], ["body"], []]


def test_a_queue_named_several_times_gets_one_copy(channel, queues):
    queue = queues[0]
    channel.publish("", queue, "body", {"headers": {"CC": [queue, queue], "BCC": [queue]}})
    assert _drained(channel, queues) == [["body"], [], []]


def test_the_delivered_key_is_the_original_one(channel, queues):
    channel.publish("", queues[0], "body", {"headers": {"CC": [queues[1]]}})
    assert channel.get(queues[1]).routing_key == queues[0]


def test_cc_is_delivered_and_bcc_is_not(channel, queues):
    channel.publish("", queues[0], "body", {"headers": {"CC": [queues[1]], "BCC": [queues[2]], "other": 1}})
    for queue in queues:
        assert channel.get(queue).headers.plain() == {"CC": [queues[1]], "other": 1}


def test_a_message_with_bcc_only_keeps_its_table_or_loses_it(channel, queues):
    channel.publish("", queues[0], "body", {"headers": {"BCC": [queues[1]]}})
    assert channel.get(queues[0]).properties in ({}, {"headers": []})


def test_bcc_is_not_returned(channel):
    headers = {"CC": ["nowhere either"], "BCC": ["nor there"]}
    channel.publish("", "nowhere", "body", {"headers": headers}, mandatory=True)
    assert channel.expect("basic.return").headers.plain() == {"CC": ["nowhere either"]}


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_one_key_that_routes_is_enough_for_mandatory(channel, queues, header):
    channel.publish("", "nowhere", "body", {"headers": {header: ["nor here", queues[0]]}}, mandatory=True)
    channel.expect_nothing(queues[0])
    assert channel.drain(queues[0]) == ["body"]


@pytest.mark.parametrize("header", ["cc", "bcc", "Cc"])
def test_the_headers_are_written_in_upper_case(channel, queues, header):
    channel.publish("", queues[0], "body", {"headers": {header: [queues[1]]}})
    assert _drained(channel, queues) == [["body"], [], []]


def test_array_members_that_are_no_strings_are_ignored(channel, queues):
    headers = {"CC": [5, None, Value("t", True), queues[1], {"a": 1}]}
    channel.publish("", queues[0], "body", {"headers": headers})
    assert _drained(channel, queues) == [["body"], ["body"], []]


def test_an_empty_array_is_fine(channel, queues):
    channel.publish("", queues[0], "body", {"headers": {"CC": [], "BCC": []}})
    assert _drained(channel, queues) == [["body"], [], []]


def test_an_extra_key_may_be_empty(channel, name):
    exchange, queue = name(), channel.exclusive_queue()
    channel.call("exchange.declare", exchange=exchange, type="direct")
    channel.bind(queue, exchange, "")
    channel.publish(exchange, "nowhere", "body", {"headers": {"CC": [""]}})
    assert channel.drain(queue) == ["body"]


def test_extra_keys_have_one_confirm(channel, queues):
    channel.select_confirms()
    channel.publish("", queues[0], "body", {"headers": {"CC": queues[1:]}})
    assert channel.confirms(1, 1) == {1: "ack"}
    channel.expect_nothing(queues[0])
