"""What is scraped and what is traced: lines 56 to 58 and 69 of the drop-in checklist (docs/drop-in.md)."""

import urllib.parse
import urllib.request

import pika
import pytest
from prometheus_client.parser import text_string_to_metric_families

from http_api import quoted
from management.test_metrics import FAMILIES
from program import eventually

LIMIT_SECS = 10


@pytest.fixture
def scrape(api, broker):
    """A page of the metrics as text; without credentials."""
    ports = {each["protocol"]: each["port"] for each in api.get("overview").json["listeners"]}
    if "http/prometheus" not in ports:
        pytest.skip("not run: this broker serves no metrics")
    host = urllib.parse.urlsplit(api.base).hostname

    def page(path="/metrics"):
        with urllib.request.urlopen(f"http://{host}:{ports['http/prometheus']}{path}", timeout=LIMIT_SECS) as answer:
            assert answer.headers.get_content_type() == "text/plain"
            return answer.read().decode()

    return page


def parsed(text):
    """Every series by its name, with its labels and its value; a text that is no exposition fails."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def with_queue(broker, vhost):
    parameters = pika.URLParameters(broker.url)
    parameters.virtual_host = vhost
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "jobs", b"x")
    return connection


def test_56_everything_that_the_overview_dashboard_reads_is_there_without_login(scrape):
    """`/metrics` on 15692 without login; `rabbitmq_identity_info`, `rabbitmq_build_info` present; all names of the
    dashboard."""
    names = {sample.name for family in parsed(scrape()).values() for sample in family.samples}
    names |= {name.removesuffix(end) for name in names for end in ("_bucket", "_count", "_sum")}
    missing = {name for name in FAMILIES if name not in names}
    assert not missing
    assert {"rabbitmq_identity_info", "rabbitmq_build_info"} <= names


def test_57_depths_are_scraped_by_queue_and_by_family(api, broker, vhost, scrape):
    """`/metrics/per-object`, `/metrics/detailed?family=...&vhost=...`."""
    with with_queue(broker, vhost):
        labels = {"vhost": vhost, "queue": "jobs"}

        def value(path, name):
            family = parsed(scrape(path)).get(name)
            found = [each.value for each in family.samples if labels.items() <= each.labels.items()] if family else []
            return found[0] if found else None

        per_object = ("/metrics/per-object", "rabbitmq_queue_messages_ready")
        eventually(lambda: value(*per_object) == 1, "one ready message of the queue", "")
        asked = f"/metrics/detailed?family=queue_coarse_metrics&vhost={quoted(vhost)}"
        eventually(lambda: value(asked, "rabbitmq_detailed_queue_messages_ready") == 1, "the same in detail", "")
        others = [
            each.labels.get("vhost")
            for family in parsed(scrape(asked)).values()
            for each in family.samples
            if each.labels.get("vhost") not in (None, vhost)
        ]
        assert not others


def test_58_metrics_are_read_by_a_parser_and_counters_only_grow(broker, vhost, scrape):
    """promtool-clean output; counters monotonic within a process; `# TYPE` as in samples."""

    def counters():
        return {
            (sample.name, *sorted(sample.labels.items())): sample.value
            for family in parsed(scrape()).values()
            # What RabbitMQ sums over connections and queues goes with them.
            if family.type == "counter" and (not broker.is_rabbitmq or family.name.startswith("rabbitmq_global_"))
            for sample in family.samples
        }

    before = counters()
    with_queue(broker, vhost).close()
    after = counters()
    assert before.keys() <= after.keys()
    shrunk = {key: (value, after[key]) for key, value in before.items() if after[key] < value}
    assert not shrunk
    text = scrape()
    typed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    series = [line.split("{")[0].split(" ")[0] for line in text.splitlines() if line and not line.startswith("#")]
    plain = {name for name in series if not any(name == t or name.startswith(f"{t}_") for t in typed)}
    assert not plain, plain
    assert text.endswith("\n")


def test_69_the_firehose_copies_what_is_published(api, broker, vhost):
    """Firehose `amq.rabbitmq.trace`."""
    parameters = pika.URLParameters(broker.url)
    parameters.virtual_host = vhost
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("copies")
        channel.queue_bind("copies", "amq.rabbitmq.trace", "publish.#")
        assert api.put(f"vhosts/{vhost}", {"tracing": True}).status == 204

        def copy():
            channel.basic_publish("amq.fanout", "k", b"body")
            return channel.basic_get("copies", auto_ack=True)[2] == b"body"

        eventually(copy, "a copy", "")
        assert api.put(f"vhosts/{vhost}", {"tracing": False}).status == 204
