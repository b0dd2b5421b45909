"""Metrics for Prometheus: the names, types and labels that dashboards and alerts read, the same against both brokers."""

import contextlib
import re
import urllib.error
import urllib.request

import pika
import pytest

from program import eventually

LIMIT_SECS = 10
SERIES = re.compile(r'^([a-z_0-9:]+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

BY_PROTOCOL = {"protocol"}
BY_TYPE = {"protocol", "queue_type"}

# What the official overview dashboard and usual alerts read: type, and labels that must be there.
FAMILIES = {
    "rabbitmq_identity_info": (
        "untyped",
        {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"},
    ),
    "rabbitmq_build_info": (
        "untyped",
        {"rabbitmq_version", "prometheus_plugin_version", "prometheus_client_version", "erlang_version"},
    ),
    "rabbitmq_queue_messages": ("gauge", set()),
    "rabbitmq_queue_messages_ready": ("gauge", set()),
    "rabbitmq_queue_messages_unacked": ("gauge", set()),
    "rabbitmq_queue_consumers": ("gauge", set()),
    "rabbitmq_queue_process_memory_bytes": ("gauge", set()),
    "rabbitmq_queue_messages_bytes": ("gauge", set()),
    "rabbitmq_queue_messages_ready_bytes": ("gauge", set()),
    "rabbitmq_queue_messages_unacked_bytes": ("gauge", set()),
    "rabbitmq_queue_messages_persistent": ("gauge", set()),
    "rabbitmq_queue_messages_ram": ("gauge", set()),
    "rabbitmq_channel_consumers": ("gauge", set()),
    "rabbitmq_channel_messages_unacked": ("gauge", set()),
    "rabbitmq_channel_messages_unconfirmed": ("gauge", set()),
    "rabbitmq_channel_messages_uncommitted": ("gauge", set()),
    "rabbitmq_channel_acks_uncommitted": ("gauge", set()),
    "rabbitmq_consumer_prefetch": ("gauge", set()),
    "rabbitmq_connection_pending_packets": ("gauge", set()),
    "rabbitmq_connection_channels": ("gauge", set()),
    "rabbitmq_channel_messages_published_total": ("counter", set()),
    "rabbitmq_channel_messages_confirmed_total": ("counter", set()),
    "rabbitmq_channel_messages_unroutable_returned_total": ("counter", set()),
    "rabbitmq_channel_messages_unroutable_dropped_total": ("counter", set()),
    "rabbitmq_channel_get_total": ("counter", set()),
    "rabbitmq_channel_get_ack_total": ("counter", set()),
    "rabbitmq_channel_get_empty_total": ("counter", set()),
    "rabbitmq_channel_messages_delivered_total": ("counter", set()),
    "rabbitmq_channel_messages_delivered_ack_total": ("counter", set()),
    "rabbitmq_channel_messages_redelivered_total": ("counter", set()),
    "rabbitmq_channel_messages_acked_total": ("counter", set()),
    "rabbitmq_connection_incoming_bytes_total": ("counter", set()),
    "rabbitmq_connection_outgoing_bytes_total": ("counter", set()),
    "rabbitmq_connection_incoming_packets_total": ("counter", set()),
    "rabbitmq_connection_outgoing_packets_total": ("counter", set()),
    "rabbitmq_queue_disk_reads_total": ("counter", set()),
    "rabbitmq_queue_disk_writes_total": ("counter", set()),
    "rabbitmq_queues": ("gauge", set()),
    "rabbitmq_queues_declared_total": ("counter", set()),
    "rabbitmq_queues_created_total": ("counter", set()),
    "rabbitmq_queues_deleted_total": ("counter", set()),
    "rabbitmq_connections": ("gauge", set()),
    "rabbitmq_channels": ("gauge", set()),
    "rabbitmq_consumers": ("gauge", set()),
    "rabbitmq_connections_opened_total": ("counter", set()),
    "rabbitmq_connections_closed_total": ("counter", set()),
    "rabbitmq_channels_opened_total": ("counter", set()),
    "rabbitmq_channels_closed_total": ("counter", set()),
    "rabbitmq_global_messages_received_total": ("counter", BY_PROTOCOL),
    "rabbitmq_global_messages_received_confirm_total": ("counter", BY_PROTOCOL),
    "rabbitmq_global_messages_confirmed_total": ("counter", BY_PROTOCOL),
    "rabbitmq_global_messages_routed_total": ("counter", BY_PROTOCOL),
    "rabbitmq_global_messages_unroutable_dropped_total": ("counter", BY_PROTOCOL),
    "rabbitmq_global_messages_unroutable_returned_total": ("counter", BY_PROTOCOL),
    "rabbitmq_global_messages_delivered_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_delivered_consume_manual_ack_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_delivered_consume_auto_ack_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_delivered_get_manual_ack_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_delivered_get_auto_ack_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_get_empty_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_redelivered_total": ("counter", BY_TYPE),
    "rabbitmq_global_messages_acknowledged_total": ("counter", BY_TYPE),
    "rabbitmq_global_publishers": ("gauge", BY_PROTOCOL),
    "rabbitmq_global_consumers": ("gauge", BY_PROTOCOL),
    "rabbitmq_message_size_bytes": ("histogram", BY_PROTOCOL),
    "rabbitmq_process_resident_memory_bytes": ("gauge", set()),
    "rabbitmq_resident_memory_limit_bytes": ("gauge", set()),
    "rabbitmq_disk_space_available_bytes": ("gauge", set()),
    "rabbitmq_disk_space_available_limit_bytes": ("gauge", set()),
    "rabbitmq_process_open_fds": ("gauge", set()),
    "rabbitmq_process_max_fds": ("gauge", set()),
    "rabbitmq_erlang_uptime_seconds": ("gauge", set()),
    "rabbitmq_alarms_memory_used_watermark": ("untyped", set()),
    "rabbitmq_alarms_free_disk_space_watermark": ("untyped", set()),
    "rabbitmq_unreachable_cluster_peers_count": ("gauge", set()),
    "rabbitmq_auth_attempts_total": ("counter", BY_PROTOCOL),
    "rabbitmq_auth_attempts_succeeded_total": ("counter", BY_PROTOCOL),
    "rabbitmq_auth_attempts_failed_total": ("counter", BY_PROTOCOL),
}

SIZE_BOUNDS = ["100", "1000", "10000", "100000", "1000000", "10000000", "50000000", "100000000", "+Inf"]


class Page:
    """A page of metrics, taken apart; a line that is none fails."""

    def __init__(self, text):
        self.types = {}
        self.series = []
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.types, f"{name} comes twice"
                self.types[name] = kind
            elif line and not line.startswith("#"):
                found = SERIES.match(line)
                assert found, line
                name, labels, value = found.groups()
                self.series.append((name, dict(LABEL.findall(labels or "")), float(value)))

    def of(self, family, **labels):
        """Label sets with values of a family."""
        of_family = [(known, value) for name, known, value in self.series if name == family]
        return [(known, value) for known, value in of_family if labels.items() <= known.items()]


@pytest.fixture
def scrape(broker, api):
    listeners = api.get("overview").json["listeners"]
    ports = [known["port"] for known in listeners if known["protocol"] == "http/prometheus"]
    if not ports:
        pytest.skip("not run: this broker serves no metrics")

    def scraped(path="/metrics"):
        asked = path if isinstance(path, urllib.request.Request) else scraped.at + path
        with urllib.request.urlopen(asked, timeout=LIMIT_SECS) as answer:
            assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
            return Page(answer.read().decode())

    scraped.at = f"http://{broker.host}:{ports[0]}"
    return scraped


@pytest.mark.parametrize("family", FAMILIES)
def test_what_dashboards_read_is_there(broker, scrape, family):
    # Logins are told once there was one.
    broker.connect().close()
    page = scrape()
    kind, labels = FAMILIES[family]
    assert page.types.get(family) == kind
    name = f"{family}_count" if kind == "histogram" else family
    series = page.of(name)
    assert series, f"{family} has no series"
    assert all(labels <= set(known) for known, _ in series), series


def test_every_panel_finds_the_node(scrape):
    [(_, value)] = scrape().of("rabbitmq_identity_info")
    assert value == 1


def test_sizes_are_a_histogram(scrape):
    buckets = scrape().of("rabbitmq_message_size_bytes_bucket", protocol="amqp091")
    assert [known["le"] for known, _ in buckets] == SIZE_BOUNDS
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)


def test_each_queue_has_a_series_of_its_own(broker, api, vhost, scrape):
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "q", b"12345")
    of_queue = {"vhost": vhost, "queue": "q"}

    def ready(path, prefix):
        found = scrape(path).of(f"{prefix}queue_messages_ready", **of_queue)
        return found[0][1] if found else None

    for path, prefix in [
        ("/metrics/per-object", "rabbitmq_"),
        (f"/metrics/detailed?family=queue_coarse_metrics&vhost={vhost}", "rabbitmq_detailed_"),
    ]:
        waited = 0.0
        # RabbitMQ's numbers are up to five seconds old.
        while ready(path, prefix) != 3 and waited < 15:
            connection.process_data_events(time_limit=0.5)
            waited += 0.5
        assert ready(path, prefix) == 3, path
    info = scrape("/metrics/per-object").of("rabbitmq_queue_info", **of_queue)
    assert info[0][0]["queue_type"] == "rabbit_classic_queue"
    connection.close()


@pytest.mark.parametrize("prefix", ["rabbitmq_", "rabbitmq_detailed_"])
def test_each_channel_and_connection_has_series_of_its_own(broker, api, vhost, scrape, prefix):
    families = "channel_metrics channel_exchange_metrics channel_queue_metrics connection_coarse_metrics connection_metrics"
    detailed = "/metrics/detailed?" + "&".join(f"family={family}" for family in families.split())
    path = "/metrics/per-object" if prefix == "rabbitmq_" else detailed
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "q", b"1")
        channel.basic_publish("amq.topic", "nowhere", b"1")
        channel.basic_get("q")
        channel.basic_qos(prefetch_count=17)
        channel.basic_consume("q", lambda *_: None)

        def ours():
            """The channel is the one that has told of this vhost."""
            connection.process_data_events(time_limit=0.2)
            page = scrape(path)
            published = page.of(f"{prefix}channel_messages_published_total", vhost=vhost)
            return page, {known["channel"] for known, _ in published}

        eventually(lambda: len(ours()[1]) == 1 and value(*ours(), "consumer_prefetch") == 17, "counted", "")
        eventually(lambda: value(*ours(), "channel_messages_unacked") == 3, "delivered", "")
        # What is counted by exchange and by queue is told apart from what is counted by channel.
        eventually(lambda: value(*ours(), "channel_messages_published_total") == 4, "published", "")
        eventually(lambda: value(*ours(), "channel_messages_delivered_ack_total") == 2, "counted by queue", "")
        page, pids = ours()
        for family, kind, wanted in [
            ("channel_consumers", "gauge", 1),
            ("channel_messages_unconfirmed", "gauge", 0),
            ("channel_messages_uncommitted", "gauge", 0),
            ("channel_acks_uncommitted", "gauge", 0),
            ("channel_messages_published_total", "counter", 4),
            ("channel_messages_confirmed_total", "counter", 4),
            ("channel_messages_unroutable_returned_total", "counter", 0),
            ("channel_messages_unroutable_dropped_total", "counter", 1),
            ("channel_get_ack_total", "counter", 1),
            ("channel_messages_delivered_ack_total", "counter", 2),
            ("channel_messages_acked_total", "counter", 0),
        ]:
            assert page.types[f"{prefix}{family}"] == kind, family
            assert value(page, pids, family) == wanted, family
        for family, kind in {
            "connection_incoming_bytes_total": "counter",
            "connection_outgoing_packets_total": "counter",
            "connection_channels": "gauge",
        }.items():
            assert page.types[f"{prefix}{family}"] == kind, family
            series = lambda family=family: scrape(path).of(f"{prefix}{family}")  # noqa: E731
            eventually(lambda: any(set(known) == {"channel"} and count > 0 for known, count in series()), family, "")


def value(page, pids, family):
    """Of RabbitMQ's series of every exchange and queue the sum."""
    [pid] = pids
    found = [series for series in page.series if series[0].endswith(f"_{family}") and series[1].get("channel") == pid]
    return sum(count for *_, count in found)


def test_only_what_is_asked_for_is_told_in_detail(vhost, scrape):
    page = scrape("/metrics/detailed?family=queue_consumer_count")
    assert "rabbitmq_detailed_queue_consumers" in page.types
    assert "rabbitmq_detailed_queue_messages_ready" not in page.types
    vhosts = {known["vhost"] for known, _ in scrape("/metrics/detailed?family=vhost_status").of("rabbitmq_cluster_vhost_status")}
    assert vhost in vhosts


def test_nothing_is_told_in_detail_that_nobody_asked_for(scrape):
    for path in ("/metrics/detailed", "/metrics/detailed?family=nothing"):
        assert {name for name, *_ in scrape(path).series} >= {"rabbitmq_identity_info", "rabbitmq_build_info"}
        assert not [name for name, *_ in scrape(path).series if name.startswith("rabbitmq_detailed_")]


def test_exchanges_are_counted_each_for_itself(broker, api, vhost, scrape):
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    with contextlib.closing(pika.BlockingConnection(parameters)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.queue_bind("q", "amq.topic", "k")
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "k", b"1")
        channel.basic_publish("amq.topic", "nowhere", b"1")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("amq.topic", "nowhere", b"1", mandatory=True)
        wanted = {"published": 3, "confirmed": 3, "unroutable_returned": 1, "unroutable_dropped": 1}
        for path, prefix in (("/metrics/per-object", "rabbitmq_"), ("/metrics/detailed?family=exchange_metrics", "rabbitmq_detailed_")):

            def counts(path=path, prefix=prefix):
                connection.process_data_events(time_limit=0.1)
                page = scrape(path)
                of = {what: page.of(f"{prefix}exchange_messages_{what}_total", vhost=vhost) for what in wanted}
                return {what: found[0][1] for what, found in of.items() if found} == wanted

            eventually(counts, "all of it counted", "")
    names = {known["exchange"] for known, _ in scrape("/metrics/detailed?family=exchange_names").of("rabbitmq_cluster_exchange_name", vhost=vhost)}
    assert names == {"amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic"}


@pytest.mark.parametrize(
    "family", ["io_read_bytes", "io_write_bytes", "io_write_ops", "io_sync_ops", "queue_exchange_messages_published"]
)
def test_what_goes_to_disks_and_to_queues_is_told(scrape, family):
    page = scrape()
    assert page.types[f"rabbitmq_{family}_total"] == "counter"
    assert page.of(f"rabbitmq_{family}_total")[0][1] >= 0


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [
        ("POST", "/metrics", 405, ""),
        ("DELETE", "/metrics/per-object", 405, ""),
        ("GET", "/metrics/nothing", 404, "Unknown Registry"),
        ("GET", "/nothing", 404, '{"error":"Object Not Found","reason":"Not Found"}'),
        ("GET", "/metrics/detailed?family=queue_metrics&queue=a&queue=b", 400, "Only one 'queue' query parameter is allowed"),
        ("GET", f"/metrics/detailed?queue={'a' * 2001}", 400, "'queue' regex too long"),
        ("GET", "/metrics/detailed?queue=(", 400, "Invalid 'queue' regex"),
    ],
)
def test_what_is_no_page_of_metrics_is_refused(scrape, method, path, status, told):
    with pytest.raises(urllib.error.HTTPError) as refused:
        scrape(urllib.request.Request(scrape.at + path, method=method))
    assert refused.value.code == status
    body = refused.value.read().decode()
    assert body.startswith(told) and bool(body) == bool(told)
    if status == 405:
        assert refused.value.headers["allow"] == "HEAD, GET, OPTIONS"


def test_memory_is_told_by_what_it_is_for(scrape):
    page = scrape("/metrics/memory-breakdown")
    assert page.of("rabbitmq_memory_classic_queue_erlang_process_bytes")
    assert page.of("rabbitmq_memory_other_system_bytes")


def test_there_is_no_other_page(broker, scrape):
    with pytest.raises(urllib.error.HTTPError) as refused:
        scrape("/metrics/nothing")
    assert refused.value.code == 404


@pytest.mark.beyond
def test_counts_of_what_is_gone_stay(broker, api, scrape):
    def published():
        return scrape().of("rabbitmq_global_messages_received_total", protocol="amqp091")[0][1]

    vhost = "conformance-metrics-gone"
    api.put(f"vhosts/{vhost}")
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    before = published()
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"1")
    channel.queue_delete("q")
    connection.close()
    api.delete(f"vhosts/{vhost}")
    assert published() >= before + 1


@pytest.mark.beyond
def test_how_old_the_oldest_message_is_is_told(broker, api, vhost, scrape):
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("q")
    assert api.get(f"queues/{vhost}/q").json["head_message_age"] is None
    channel.basic_publish("", "q", b"1")
    connection.process_data_events(time_limit=0.3)
    first = api.get(f"queues/{vhost}/q").json["head_message_age"]
    assert first >= 200, first
    channel.basic_publish("", "q", b"2")
    channel.basic_get("q")
    queue = api.get(f"queues/{vhost}/q").json
    assert queue["unacknowledged_message_age"] >= first
    assert queue["head_message_age"] < queue["unacknowledged_message_age"]
    of_queue = scrape("/metrics/per-object").of("rabbitmq_queue_head_message_age_seconds", vhost=vhost, queue="q")
    assert of_queue[0][1] >= 0
    connection.close()


def test_messages_that_die_are_counted_by_reason_and_by_what_becomes_of_them(scrape, channel, queue_name):
    def count(reason, strategy):
        name = f"rabbitmq_global_messages_dead_lettered_{reason}_total"
        return scrape().of(name, queue_type="rabbit_classic_queue", dead_letter_strategy=strategy)[0][1]

    reasons = [("expired", "disabled"), ("maxlen", "at_most_once"), ("rejected", "at_most_once")]
    before = {key: count(*key) for key in reasons}
    channel.queue_declare(queue_name)
    channel.basic_publish("", queue_name, b"short", pika.BasicProperties(expiration="1"))
    arguments = {"x-dead-letter-exchange": "amq.fanout", "x-max-length": 1}
    limited = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    for body in (b"first", b"second"):
        channel.basic_publish("", limited, body)
    eventually(lambda: count(*reasons[1]) >= before[reasons[1]] + 1, "one too many", "")
    method, _, body = channel.basic_get(limited)
    assert body == b"second"
    channel.basic_reject(method.delivery_tag, requeue=False)
    for key in reasons:
        eventually(lambda key=key: count(*key) >= before[key] + 1, f"one more of {key}", "")
