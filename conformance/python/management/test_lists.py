"""How lists are cut into pages, columns and samples, and who is named with a queue."""

import pika
import pytest

from http_api import quoted
from program import eventually


def told(answer):
    return answer.status, answer.json["error"], answer.json["reason"]


@pytest.mark.parametrize(
    ("query", "page", "size"),
    [
        ("page=0", 0, "undefined"),
        ("page=-1", -1, "undefined"),
        ("page=0&page_size=2", 0, 2),
        ("page=1&page_size=0", 1, 0),
        ("page=1&page_size=-5", 1, -5),
        ("page=1&page_size=501", 1, 501),
    ],
)
def test_a_page_that_cannot_be_is_told_with_its_numbers(api, vhost, query, page, size):
    reason = f"Invalid pagination parameters: page number {page}, page size {size}"
    assert told(api.get(f"queues/{vhost}?{query}")) == (400, "invalid_pagination_parameters", reason)


@pytest.mark.parametrize("query", ["page=x", "page=", "page=1.5", "page=1&page_size=x", "page=1&page_size="])
def test_a_page_is_a_number(api, vhost, query):
    answer = api.get(f"queues/{vhost}?{query}")
    assert told(answer) == (400, "bad_request", "Pagination parameters are invalid")


def test_a_page_behind_the_last_one_is_told_with_the_length(api, vhost):
    reason = "Page out of range, page: 9 page size: 2, len: 0"
    assert told(api.get(f"queues/{vhost}?page=9&page_size=2")) == (400, "page_out_of_range", reason)


def test_a_page_is_cut_from_the_list_as_it_is_sorted(api, vhost):
    depths = {"a": 1, "b": 3, "c": 0, "d": 2, "e": 0}
    for name, depth in depths.items():
        api.put(f"queues/{vhost}/{name}", {"durable": True})
        for _ in range(depth):
            message = {"properties": {}, "routing_key": name, "payload": "x", "payload_encoding": "string"}
            api.post(f"exchanges/{vhost}/amq.default/publish", message)

    def names(query):
        page = api.get(f"queues/{vhost}?{query}").json
        return [queue["name"] for queue in page["items"]], page["filtered_count"], page["page_count"]

    # RabbitMQ's numbers are up to five seconds old.
    deepest = "sort=messages&sort_reverse=true&columns=name&page=1&page_size=3"
    eventually(lambda: names(deepest)[0] == ["b", "d", "a"], "sorted by depth", "")
    assert names("page=1&page_size=2&columns=name") == (["a", "b"], 5, 3)
    assert names("page=3&page_size=2&columns=name") == (["e"], 5, 3)
    assert names("page=1&page_size=2&sort=name&sort_reverse=true&columns=name") == (["e", "d"], 5, 3)
    assert names("page=1&page_size=2&sort_reverse=true&columns=name") == (["e", "d"], 5, 3)
    assert names(f"page=1&sort=messages&columns=name&name={quoted('^[cde]$')}&use_regex=true") == (["c", "e", "d"], 3, 1)
    [queue] = api.get(f"queues/{vhost}?page=1&page_size=1&sort=messages&sort_reverse=true&columns=messages").json["items"]
    assert queue == {"messages": 3}


def test_other_lists_come_page_by_page_too(api, vhost):
    page = api.get(f"exchanges/{vhost}?page=2&page_size=3&columns=name").json
    assert (page["total_count"], page["page_count"]) == (7, 3)
    assert [exchange["name"] for exchange in page["items"]] == ["amq.headers", "amq.match", "amq.rabbitmq.trace"]
    page = api.get(f"users?page=1&name={api.user}&columns=name").json
    assert {"name": api.user} in page["items"]
    of_user = (f"users/{api.user}/queues", f"connections/username/{api.user}", "users/without-permissions")
    for path in (*of_user, "connections", "channels"):
        assert api.get(f"{path}?page=1&page_size=1").json["page"] == 1, path
    for path in (f"vhosts/{vhost}/connections", f"vhosts/{vhost}/channels", f"consumers/{vhost}", f"policies/{vhost}"):
        assert api.get(f"{path}?page=1&page_size=1").json == [], path


@pytest.mark.beyond
def test_vhosts_come_page_by_page(api, vhost):
    """RabbitMQ answers 500."""
    page = api.get(f"vhosts?page=1&page_size=5&name={vhost}&columns=name").json
    assert (page["filtered_count"], page["items"]) == (1, [{"name": vhost}])


def test_connections_are_cut_by_what_they_are_and_by_what_they_do(api, vhost, channel_in):
    eventually(lambda: api.get(f"vhosts/{vhost}/connections").json, "the connection in the list", "")
    [name] = [connection["name"] for connection in api.get(f"vhosts/{vhost}/connections").json]
    for sort in ("name", "recv_oct"):
        path = f"connections?page=1&page_size=1&sort={sort}&name={quoted(name)}"
        eventually(lambda path=path: api.get(path).json["items"][0].get("recv_oct", 0) > 0, "counted", "")
        page = api.get(path).json
        assert (page["items"][0]["vhost"], page["filtered_count"]) == (vhost, 1)
    path = f"connections?page=1&columns=name,vhost&name={quoted(name)}"
    eventually(lambda: api.get(path).json["items"] == [{"name": name, "vhost": vhost}], "these columns", api.get(path))


def test_samples_are_not_of_the_future(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True})
    for age, step in ((-1, 1), (60, 0), (60, -5), (6000, 1)):
        answer = api.get(f"queues/{vhost}/q?lengths_age={age}&lengths_incr={step}")
        assert told(answer) == (400, "bad_request", f"Invalid range parameters: age {age}, incr {step}")


def test_a_column_of_what_clients_name_is_the_whole_of_it(api, vhost):
    arguments = {"x-max-length": 5, "x-message-ttl": 1000, "x-queue-type": "classic"}
    api.put(f"queues/{vhost}/q", {"durable": True, "arguments": arguments})
    [queue] = api.get(f"queues/{vhost}?columns=name,arguments.x-max-length").json
    assert queue == {"name": "q", "arguments": arguments}


@pytest.fixture
def channel_in(broker, api, vhost):
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    connection = pika.BlockingConnection(parameters)
    yield connection.channel()
    connection.close()


def test_who_has_a_queue_alone_is_named_in_lists_too(api, vhost, channel_in):
    channel_in.queue_declare("alone", durable=True)
    channel_in.queue_declare("single", durable=True, arguments={"x-single-active-consumer": True})
    channel_in.basic_consume("alone", lambda *_: None, consumer_tag="only", exclusive=True)
    channel_in.basic_consume("single", lambda *_: None, consumer_tag="first")
    channel_in.basic_consume("single", lambda *_: None, consumer_tag="second")

    def tags():
        queues = {queue["name"]: queue for queue in api.get(f"queues/{vhost}").json}
        alone, single = queues["alone"], queues["single"]
        return [alone.get("exclusive_consumer_tag"), single.get("single_active_consumer_tag")] == ["only", "first"]

    eventually(tags, "both named", "")
    eventually(lambda: len(api.get(f"consumers/{vhost}").json) == 3, "all consumers", "")
    shown = {consumer["consumer_tag"]: consumer["activity_status"] for consumer in api.get(f"consumers/{vhost}").json}
    assert shown == {"only": "up", "first": "single_active", "second": "waiting"}
    of_queue = api.get(f"queues/{vhost}/single?columns=consumer_details.consumer_tag").json
    assert sorted(one["consumer_tag"] for one in of_queue["consumer_details"]) == ["first", "second"]


def test_what_a_reader_of_a_stream_holds_is_ready_all_the_same(api, vhost, channel_in):
    channel_in.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel_in.confirm_delivery()
    for _ in range(3):
        channel_in.basic_publish("", "stream", b"message")
    channel_in.basic_qos(prefetch_count=2)
    held = []
    channel_in.basic_consume("stream", lambda *_: held.append(1), arguments={"x-stream-offset": "first"})
    while len(held) < 2:
        channel_in.connection.process_data_events(time_limit=0.1)

    def is_counted():
        stream = api.get(f"queues/{vhost}/stream").json
        stats = stream.get("message_stats", {})
        counts = [stream.get(key) for key in ("messages", "messages_ready", "messages_unacknowledged")]
        return counts == [3, 3, 0] and (stats.get("publish"), stats.get("deliver")) == (3, 2)

    eventually(is_counted, "all of it counted", "")


def test_policies_are_parameters_in_a_list_of_their_own(api, vhost):
    definition = {"max-length": 1}
    api.put(f"policies/{vhost}/p", {"pattern": "^a", "definition": definition, "apply-to": "queues", "priority": 3})
    value = {"pattern": "^a", "definition": definition, "apply-to": "queues", "priority": 3}
    expected = {"component": "policy", "vhost": vhost, "name": "p", "value": value}
    assert expected in api.get("parameters/policy").json
    assert api.get(f"parameters/policy/{vhost}").json == [expected]
    assert expected not in api.get("parameters").json


def test_a_topic_permission_is_for_an_exchange_there_is(api, vhost):
    rights = {"write": ".*", "read": ".*"}
    path = f"topic-permissions/{vhost}/guest"
    answer = api.put(path, {"exchange": "none", **rights})
    assert told(answer) == (400, "bad_request", ["no_such_exchange", "none"])
    assert api.put(path, {"exchange": "amq.topic", **rights}).status == 201
    [permission] = api.get(f"{path}/amq.topic").json
    assert permission["exchange"] == "amq.topic"
