"""Names and types of every field, as RabbitMQ 4.3 sends them for the same topology.

`shapes.json` was recorded from RabbitMQ: `RECORD_SHAPES=1 pytest management/test_shapes.py` with RabbitMQ under test writes
it anew. What a broker sends beyond it is its own business; what is missing or of another type is a failure.
"""

import json
import os
import pathlib
import time

import pika
import pytest

from http_api import quoted

RECORDED = pathlib.Path(__file__).resolve().parent / "shapes.json"
PATIENCE_SECS = 20

# Figures of the Erlang machine, of plugins, and of features that only RabbitMQ's disks and queues have.
NOT_COMPARED = {
    "applications",
    "arguments.x-queue-type",
    "backing_queue_status",
    "cluster_links",
    "cluster_state",
    "config_files",
    "cowboy_opts",
    "effective_policy_definition",
    "enabled_plugins",
    "exchange_types",
    "idle_since",
    "internal_purpose",
    "listeners",
    "log_files",
    "metrics_gc_queue_length",
    "ra_open_file_metrics",
    "socket_opts",
}


# Where Leveret does not count yet what RabbitMQ counts; docs/compatibility.md tells. By the ends of their paths.
NOT_YET = {
    "channel.message_stats",
    "channels[].message_stats",
    "exchange.message_stats",
    "message_stats.disk_reads",
    "message_stats.disk_writes",
    "vhost.recv_oct",
    "vhost.send_oct",
    "vhosts[].recv_oct",
    "vhosts[].send_oct",
}


@pytest.fixture
def topology(broker, api, vhost):
    """A bit of everything, with traffic."""
    parameters = pika.ConnectionParameters(
        broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 1000})
    channel.queue_declare("excl", exclusive=True)
    channel.queue_bind("q", "x", "a.#", arguments={"n": 1})
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("x", "a.b", b"12345", pika.BasicProperties(delivery_mode=2, timestamp=1795980496))
    for _ in range(2):
        channel.basic_get("q")
    channel.basic_get("excl")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("q", lambda *_: None, consumer_tag="ctag")
    api.put(f"policies/{vhost}/p", {"pattern": "^q$", "definition": {"expires": 100000000}, "apply-to": "queues"})
    # What is a statistic in RabbitMQ shows after some seconds.
    deadline = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < deadline:
        queue = api.get(f"queues/{vhost}/q").json
        connections = api.get(f"vhosts/{vhost}/connections").json
        channels = api.get(f"vhosts/{vhost}/channels").json
        is_there = queue.get("message_stats") and queue.get("consumer_details") and queue.get("policy")
        if is_there and connections and "recv_oct" in connections[0] and channels and "prefetch_count" in channels[0]:
            break
        connection.process_data_events(time_limit=0.2)
    yield {"vhost": vhost, "connection": quoted(connections[0]["name"]), "node": quoted(connections[0]["node"])}
    connection.close()


PATHS = {
    "overview": "overview",
    "whoami": "whoami",
    "nodes": "nodes",
    "node": "nodes/{node}",
    "vhosts": "vhosts",
    "vhost": "vhosts/{vhost}",
    "users": "users",
    "permissions": "permissions",
    "queues": "queues/{vhost}",
    "queue": "queues/{vhost}/q",
    "exclusive queue": "queues/{vhost}/excl",
    "exchanges": "exchanges/{vhost}",
    "exchange": "exchanges/{vhost}/x",
    "bindings": "bindings/{vhost}",
    "consumers": "consumers/{vhost}",
    "connections": "vhosts/{vhost}/connections",
    "connection": "connections/{connection}",
    "channels": "connections/{connection}/channels",
    "channel": "channels/{connection}%20(1)",
    "policies": "policies/{vhost}",
    "definitions": "definitions",
    "definitions of a vhost": "definitions/{vhost}",
    "global parameters": "global-parameters",
    "feature flags": "feature-flags",
}


def shape(value):
    """What stands for a value: a type's name, an object of shapes, or a list with the shape of its items."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        items = [shape(item) for item in value]
        if not items or not all(isinstance(item, dict) for item in items):
            return items[:1]
        # Only what every item has is sure to be there.
        common = {key: items[0][key] for key in items[0] if all(key in item for item in items)}
        return [common]
    return {key: shape(value[key]) for key in sorted(value) if key not in NOT_COMPARED}


def differences(expected, actual, at=""):
    """What is missing, and what is of another type. What was null or an empty list could have been anything."""
    if expected in ("null", []) or actual in ("null", []) or is_not_yet(at):
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, inner in expected.items():
            if key not in actual and not is_not_yet(f"{at}.{key}"):
                yield f"{at}.{key} is missing"
            elif key not in actual:
                continue
            else:
                yield from differences(inner, actual[key], f"{at}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from differences(expected[0], actual[0], f"{at}[]")
    # An empty object is an empty list in some answers of RabbitMQ.
    elif expected != actual and not isinstance(expected, list):
        yield f"{at} is {actual}, not {expected}"


def is_not_yet(path):
    return path.removesuffix("_details").endswith(tuple(NOT_YET))


def test_every_field_is_there_and_of_its_type(api, topology):
    shapes = {}
    for name, path in PATHS.items():
        answer = api.get(path.format(**topology))
        assert answer.status == 200, f"{path}: {answer}"
        shapes[name] = shape(answer.json)
    if os.environ.get("RECORD_SHAPES"):
        RECORDED.write_text(json.dumps(shapes, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    found = [line for name in PATHS for line in differences(recorded[name], shapes[name], name)]
    assert not found, "\n".join(found)
