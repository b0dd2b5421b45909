"""What scalers, collectors and checks ask the HTTP API: each asks what it asks, and reads what it reads as it reads it.

Of a whole number a decoder in Go takes no 1.0, of a text none takes a number. What is missing or null is nothing to them, as
long as it is not among what they cannot do without.
"""

import re
import urllib.request

import pika
import pytest

from http_api import quoted
from program import eventually

LIMIT_SECS = 10
WHOLE, NUMBER, TEXT, FLAG, LIST = "a whole number", "a number", "a text", "true or false", "a list"
IS = {
    WHOLE: lambda value: isinstance(value, int) and not isinstance(value, bool),
    NUMBER: lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    TEXT: lambda value: isinstance(value, str),
    FLAG: lambda value: isinstance(value, bool),
    LIST: lambda value: isinstance(value, list),
}

STATS = "ack deliver deliver_get publish redeliver publish_in publish_out return_unroutable confirm"
DEPTHS = "messages messages_ready messages_unacknowledged"


def read(item, path):
    """What is at a path of names, or None."""
    for name in path.split("/"):
        item = item.get(name) if isinstance(item, dict) else None
    return item


def check(item, kinds):
    """Whatever is there of these is of its kind."""
    for kind, paths in kinds.items():
        for path in paths.split():
            value = read(item, path)
            assert value is None or IS[kind](value), f"{path} is to be {kind}: {value!r}"


def require(item, paths):
    missing = [path for path in paths.split() if read(item, path) is None]
    assert not missing, missing


def prefixed(prefix, names, suffix=""):
    return " ".join(f"{prefix}{name}{suffix}" for name in names.split())


@pytest.fixture
def node(api):
    return api.get("overview").json["node"]


@pytest.fixture
def orders(broker, api, vhost):
    """A queue with two ready messages and one that a consumer holds; where it is."""
    credentials = pika.PlainCredentials(broker.user, broker.password)
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, credentials, socket_timeout=10)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    channel.queue_declare("other", durable=True)
    channel.queue_bind("orders", "amq.topic", "order.#")
    for number in range(3):
        channel.basic_publish("amq.topic", f"order.{number}", b"1234567890", pika.BasicProperties(delivery_mode=2))
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("orders", lambda *_: None)

    def is_counted():
        connection.process_data_events(time_limit=0.1)
        queue = api.get(f"queues/{vhost}/orders").json
        depths = [queue.get(name) for name in DEPTHS.split()]
        return depths == [3, 2, 1] and read(queue, "message_stats/deliver") == 1 and queue.get("consumers") == 1

    # RabbitMQ's numbers are up to five seconds old.
    eventually(is_counted, "counted", "")
    yield "orders"
    connection.close()


def test_keda_scales_by_one_queue(api, vhost, orders):
    queue = api.get(f"queues/{vhost}/{orders}").json
    check(queue, {WHOLE: DEPTHS, NUMBER: "message_stats/publish_details/rate message_stats/deliver_get_details/rate", TEXT: "name"})
    require(queue, f"name {DEPTHS}")
    assert (queue["messages"], queue["messages_unacknowledged"]) == (3, 1)
    missing = api.get(f"queues/{vhost}/none")
    assert missing.status == 404


def test_keda_scales_by_all_queues_of_a_pattern(api, vhost, orders):
    query = f"page=1&use_regex=true&pagination=false&name={quoted('^ord')}&page_size=100"
    for path in (f"queues/{vhost}", "queues"):
        page = api.get(f"{path}?{query}").json
        ours = [queue for queue in page["items"] if queue["vhost"] == vhost]
        [queue] = ours
        assert (queue["name"], queue["messages"], queue["messages_unacknowledged"]) == (orders, 3, 1)
        check(queue, {WHOLE: DEPTHS, NUMBER: "message_stats/publish_details/rate"})


def test_telegraf_reads_everything_as_it_decodes_it(api, vhost, orders, node):
    rates = prefixed("message_stats/", STATS, "_details/rate")
    stats = {WHOLE: prefixed("message_stats/", STATS), NUMBER: rates}
    overview = api.get("overview").json
    # Without one of these it takes the answer for a refusal.
    require(overview, "queue_totals object_totals message_stats listeners")
    objects = "channels connections consumers exchanges queues"
    check(overview, stats)
    check(overview, {WHOLE: f"{prefixed('object_totals/', objects)} {prefixed('queue_totals/', DEPTHS)}", LIST: "listeners"})
    require(overview, f"{prefixed('object_totals/', objects)} {prefixed('queue_totals/', DEPTHS)}")
    assert "amqp" in {each["protocol"] for each in overview["listeners"]}

    [queue] = [each for each in api.get("queues").json if (each["vhost"], each["name"]) == (vhost, orders)]
    bytes_of = prefixed("message_bytes_", "ready unacknowledged ram persistent")
    check(queue, stats)
    check(
        queue,
        {
            WHOLE: f"{DEPTHS} {bytes_of} message_bytes memory consumers head_message_timestamp",
            NUMBER: "consumer_utilisation",
            TEXT: "name node vhost idle_since type",
            FLAG: "durable auto_delete",
            LIST: "slave_nodes synchronised_slave_nodes",
        },
    )
    require(queue, f"name node vhost type durable auto_delete consumers memory message_bytes {DEPTHS}")
    assert (queue["message_bytes"], queue["message_bytes_ready"], queue["message_bytes_unacknowledged"]) == (30, 20, 10)

    [exchange] = [each for each in api.get("exchanges").json if (each["vhost"], each["name"]) == (vhost, "amq.topic")]
    check(exchange, stats)
    check(exchange, {TEXT: "name type vhost", FLAG: "internal durable auto_delete"})
    require(exchange, "name type vhost internal durable auto_delete")

    [shown] = [each for each in api.get("nodes").json if each["name"] == node]
    counted = (
        "mnesia_disk_tx_count mnesia_ram_tx_count gc_num gc_bytes_reclaimed io_read_bytes io_write_bytes io_read_count "
        "io_write_count io_sync_count io_seek_count io_reopen_count context_switches"
    )
    limits = "disk_free disk_free_limit fd_total fd_used mem_limit mem_used proc_total proc_used run_queue uptime"
    check(
        shown,
        {
            WHOLE: f"{limits} sockets_total sockets_used {counted}",
            NUMBER: f"io_read_avg_time io_write_avg_time {prefixed('', counted, '_details/rate')}",
            FLAG: "disk_free_alarm mem_alarm running",
            TEXT: "name",
        },
    )
    require(shown, f"{limits} disk_free_alarm mem_alarm running name")
    memory = api.get(f"nodes/{node}/memory").json["memory"]
    of_memory = (
        "connection_readers connection_writers connection_channels connection_other queue_procs plugins other_proc metrics "
        "mgmt_db mnesia other_ets binary msg_index code atom other_system allocated_unused reserved_unallocated"
    )
    check(memory, {WHOLE: of_memory})
    require(memory, of_memory)
    assert isinstance(memory["total"], dict) and all(map(IS[WHOLE], memory["total"].values()))


def test_datadog_finds_its_attributes(api, vhost, orders, node):
    vhosts = [each["name"] for each in api.get("vhosts").json]
    assert vhost in vhosts
    rates = prefixed("message_stats/", STATS, "_details/rate")
    [queue] = [each for each in api.get(f"queues/{vhost}").json if each["name"] == orders]
    check(
        queue,
        {
            NUMBER: f"active_consumers consumers consumer_utilisation memory {prefixed('', DEPTHS, '_details/rate')} {rates}",
            WHOLE: f"head_message_timestamp {DEPTHS}",
        },
    )
    require(queue, f"consumers consumer_utilisation memory {DEPTHS} {prefixed('', DEPTHS, '_details/rate')}")
    require(queue, "message_stats/publish message_stats/deliver_get message_stats/publish_details/rate")
    [exchange] = [each for each in api.get(f"exchanges/{vhost}").json if each["name"] == "amq.topic"]
    eventually(
        lambda: read(api.get(f"exchanges/{vhost}/amq.topic").json, "message_stats/publish_in") == 3, "counted by exchange", ""
    )
    check(exchange, {NUMBER: f"{prefixed('message_stats/', STATS)} {rates}"})
    shown = api.get(f"nodes/{node}").json
    require(shown, "fd_used disk_free mem_used mem_limit run_queue sockets_used partitions running mem_alarm disk_free_alarm")
    check(shown, {NUMBER: "fd_used disk_free mem_used mem_limit run_queue sockets_used", LIST: "partitions"})
    connections = api.get(f"vhosts/{vhost}/connections").json
    assert [each["state"] for each in connections] == ["running"]
    assert len(api.get("connections?columns=vhost,state").json) >= 1
    assert api.get(f"aliveness-test/{vhost}").json == {"status": "ok"}


def test_zabbix_finds_what_its_template_names(api, vhost, orders, node):
    overview = api.get("overview").json
    objects = "connections channels queues consumers exchanges"
    require(overview, f"{prefixed('object_totals/', objects)} {prefixed('queue_totals/', DEPTHS)}")
    # Its checks of health are for 3.8.10 and later.
    major, minor, *_ = overview["management_version"].split(".")
    assert (int(major), int(minor)) >= (3, 9)
    shown = api.get(f"nodes/{node}?memory=true").json
    required = (
        "disk_free disk_free_limit mem_limit mem_used fd_used fd_total sockets_used run_queue uptime mem_alarm disk_free_alarm "
        "partitions running memory"
    )
    require(shown, required)
    for path in ("alarms", "local-alarms", "certificate-expiration/1/months", "virtual-hosts", "node-is-quorum-critical"):
        answer = raw(api, f"health/checks/{path}")
        assert re.match(r"HTTP/1\.1\b\s(\d+)", answer).group(1) == "200", answer
    # Both lists come as one text, which is searched by name and vhost.
    queues = api.get("queues").json
    [queue] = [each for each in queues if each["name"] == orders and each["vhost"] == vhost]
    require(queue, f"{DEPTHS} consumers memory message_stats/publish message_stats/deliver_get_details/rate")


def raw(api, path):
    """The status line and the headers, as an agent that looks at them itself sees them."""
    request = urllib.request.Request(api.base + path)
    manager = urllib.request.HTTPPasswordMgrWithPriorAuth()
    manager.add_password(None, api.base, api.user, api.password, is_authenticated=True)
    opener = urllib.request.build_opener(urllib.request.HTTPBasicAuthHandler(manager))
    with opener.open(request, timeout=LIMIT_SECS) as answer:
        return f"HTTP/1.{answer.version % 10} {answer.status} {answer.reason}\n{answer.headers}"


def test_an_exporter_that_prefers_erlangs_own_format_is_answered_in_one_of_its_two(api, vhost, orders):
    """It asks for `application/bert, application/json;q=0.1`, unsorted, and goes by what the answer says it is."""
    answer = api.get(f"queues/{vhost}?sort=", Accept="application/bert, application/json;q=0.1")
    kind = answer.headers.get_content_type()
    assert answer.status == 200 and kind in ("application/bert", "application/json")
    if kind == "application/json":
        assert {each["name"] for each in answer.json} == {"orders", "other"}
    for endpoint in ("exchanges", "nodes", "overview", "connections", "channels"):
        assert api.get(f"{endpoint}?sort=", Accept="application/json").status == 200, endpoint


def test_metricbeat_reads_connections_and_channels(api, vhost, orders):
    def of_vhost(path):
        return [each for each in api.get(path).json if each["vhost"] == vhost]

    eventually(lambda: of_vhost("connections") and of_vhost("channels"), "a connection and its channel", "")
    eventually(lambda: "channel_max" in of_vhost("connections")[0], "all of the connection", "")
    [connection] = of_vhost("connections")
    whole = "channels channel_max frame_max recv_oct send_oct recv_cnt send_cnt send_pend port peer_port"
    check(connection, {WHOLE: whole, TEXT: "name node vhost user state type host peer_host", NUMBER: "recv_oct_details/rate"})
    require(connection, f"{whole} name node vhost user state type host peer_host recv_oct_details/rate send_oct_details/rate")
    eventually(lambda: "prefetch_count" in of_vhost("channels")[0], "all of the channel", "")
    [channel] = of_vhost("channels")
    whole = (
        "number consumer_count messages_unacknowledged messages_unconfirmed messages_uncommitted acks_uncommitted prefetch_count"
    )
    check(channel, {WHOLE: whole, FLAG: "confirm transactional", TEXT: "name node vhost user state connection_details/name"})
    require(channel, f"{whole} confirm transactional name node vhost user state connection_details/name")
    assert channel["confirm"] is True


def test_a_check_for_a_few_columns_gets_nothing_else(api, vhost, orders):
    queues = api.get(f"queues/{vhost}?columns=name,messages,consumers").json
    assert sorted(queues, key=lambda queue: queue["name"]) == [
        {"name": "orders", "messages": 3, "consumers": 1},
        {"name": "other", "messages": 0, "consumers": 0},
    ]
