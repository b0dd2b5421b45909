"""What the dashboards that RabbitMQ publishes for Grafana ask Prometheus for.

The names are those of their queries. Every query of the Overview dashboard multiplies a series with
`rabbitmq_identity_info` (or `rabbitmq_build_info`) over what Prometheus itself adds, `instance` and `job`. That works only
where a page has exactly one of those, with the labels that are taken over from it. Of the other dashboards those of the
Erlang machine, of Raft and of the stream protocol ask for what there is not.
"""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from drop_in.test_monitoring import scrape  # noqa: F401
from program import eventually

OVERVIEW = """
rabbitmq_channels rabbitmq_channels_closed_total rabbitmq_channels_opened_total
rabbitmq_connections rabbitmq_connections_closed_total rabbitmq_connections_opened_total
rabbitmq_disk_space_available_bytes rabbitmq_disk_space_available_limit_bytes
rabbitmq_erlang_uptime_seconds
rabbitmq_global_consumers rabbitmq_global_publishers
rabbitmq_global_messages_acknowledged_total
rabbitmq_global_messages_confirmed_total
rabbitmq_global_messages_delivered_total
rabbitmq_global_messages_delivered_consume_auto_ack_total
rabbitmq_global_messages_delivered_consume_manual_ack_total
rabbitmq_global_messages_delivered_get_auto_ack_total
rabbitmq_global_messages_delivered_get_manual_ack_total
rabbitmq_global_messages_get_empty_total
rabbitmq_global_messages_received_confirm_total
rabbitmq_global_messages_received_total
rabbitmq_global_messages_redelivered_total
rabbitmq_global_messages_routed_total
rabbitmq_global_messages_unroutable_dropped_total
rabbitmq_global_messages_unroutable_returned_total
rabbitmq_message_size_bytes_bucket rabbitmq_message_size_bytes_count rabbitmq_message_size_bytes_sum
rabbitmq_process_max_fds rabbitmq_process_open_fds
rabbitmq_process_resident_memory_bytes rabbitmq_resident_memory_limit_bytes
rabbitmq_queue_messages_ready rabbitmq_queue_messages_unacked
rabbitmq_queues rabbitmq_queues_created_total rabbitmq_queues_declared_total rabbitmq_queues_deleted_total
""".split()

# The bounds that the panel of message sizes names. Prometheus itself writes what it reads as 1000 as 1000.0.
SIZES = {100.0, 1e3, 1e4, 1e5, 1e6, 1e7, 5e7, 1e8, float("inf")}

# What else is joined on, and what is taken over from it.
JOINED = {
    "rabbitmq_identity_info": {"rabbitmq_node", "rabbitmq_cluster", "rabbitmq_endpoint"},
    "rabbitmq_build_info": {"rabbitmq_version", "erlang_version"},
}

# How a series of one protocol or of one type of queues is told from the others.
LABELS = {
    "rabbitmq_global_consumers": {"protocol"},
    "rabbitmq_global_publishers": {"protocol"},
    "rabbitmq_global_messages_received_total": {"protocol"},
    "rabbitmq_global_messages_confirmed_total": {"protocol"},
    "rabbitmq_global_messages_routed_total": {"protocol"},
    "rabbitmq_global_messages_delivered_total": {"protocol", "queue_type"},
    "rabbitmq_global_messages_acknowledged_total": {"protocol", "queue_type"},
    "rabbitmq_global_messages_redelivered_total": {"protocol", "queue_type"},
}


def samples(text):
    """Every series by its name."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


@pytest.fixture
def page(scrape, broker, api):  # noqa: F811
    """The page of sums while there is a connection with a channel, so that nothing is missing for want of it."""
    with broker.connect() as connection:
        connection.channel()
        eventually(lambda: samples(scrape()).get("rabbitmq_connections", [])[0].value > 0, "a connection", "")
        yield samples(scrape())


def test_every_query_of_the_overview_finds_its_series(page):
    assert [name for name in OVERVIEW if name not in page] == []


def test_what_queries_are_joined_on_is_there_once(page, scrape):  # noqa: F811
    for name, labels in JOINED.items():
        [only] = page[name]
        assert labels <= set(only.labels), name
        assert only.value == 1
    [identity] = page["rabbitmq_identity_info"]
    assert identity.labels["rabbitmq_endpoint"] == "aggregated"
    for path, endpoint in {"/metrics/per-object": "per-object", "/metrics/detailed": "detailed"}.items():
        [identity] = samples(scrape(path))["rabbitmq_identity_info"]
        assert identity.labels["rabbitmq_endpoint"] == endpoint


def test_series_are_told_apart_by_protocol_and_type_of_queue(page):
    for name, labels in LABELS.items():
        ours = [sample for sample in page[name] if sample.labels.get("protocol") == "amqp091"]
        assert ours and all(set(sample.labels) == labels for sample in ours), name


def test_sizes_are_counted_up_to_the_bounds_that_the_panel_names(page):
    ours = [sample for sample in page["rabbitmq_message_size_bytes_bucket"] if sample.labels["protocol"] == "amqp091"]
    assert {float(sample.labels["le"]) for sample in ours} == SIZES
    by_bound = sorted((float(sample.labels["le"]), sample.value) for sample in ours)
    counts = [count for _, count in by_bound]
    assert counts == sorted(counts)
