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


# What is in these is named by clients and operators, or by the nodes there are.
OPAQUE = {
    "arguments",
    "definition",
    "limits",
    "messages_by_priority",
    "open_files",
    "readers",
    "value",
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
    channel.exchange_declare("y", "fanout", durable=True)
    channel.exchange_bind("y", "x", "k")
    channel.queue_declare("q", durable=True, arguments={"x-max-length": 1000})
    channel.queue_declare("excl", exclusive=True)
    channel.queue_declare("quorum", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("q", "x", "a.#", arguments={"n": 1})
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("x", "a.b", b"12345", pika.BasicProperties(delivery_mode=2, timestamp=1795980496))
    channel.basic_publish("", "quorum", b"1")
    for _ in range(2):
        channel.basic_get("q")
    channel.basic_get("excl")
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("q", lambda *_: None, consumer_tag="ctag")
    user = f"shapes-{vhost}"
    for path, body in {
        f"policies/{vhost}/p": {"pattern": "^q$", "definition": {"expires": 100000000}, "apply-to": "queues"},
        f"operator-policies/{vhost}/o": {"pattern": "^none$", "definition": {"expires": 1000}, "apply-to": "queues"},
        f"users/{user}": {"password": "secret", "tags": "management"},
        f"permissions/{vhost}/{user}": {"configure": "", "write": "", "read": ""},
        f"topic-permissions/{vhost}/{user}": {"exchange": "amq.topic", "write": ".*", "read": ".*"},
        f"vhost-limits/{vhost}/max-queues": {"value": 1000},
        f"user-limits/{user}/max-channels": {"value": 1000},
        f"global-parameters/{vhost}": {"value": {"a": 1}},
    }.items():
        answer = api.put(path, body)
        assert answer.status in {201, 204}, f"{path}: {answer}"
    # What is a statistic in RabbitMQ shows after some seconds.
    deadline = time.monotonic() + PATIENCE_SECS
    while time.monotonic() < deadline:
        if is_counted(api, vhost):
            break
        connection.process_data_events(time_limit=0.2)
    [shown] = api.get(f"vhosts/{vhost}/connections").json
    port = next(known["port"] for known in api.get("overview").json["listeners"] if known["protocol"] == "amqp")
    # What is told of logins is told until the next reset, which some test may have asked for.
    yield {
        "vhost": vhost,
        "user": user,
        "connection": quoted(shown["name"]),
        "node": quoted(shown["node"]),
        "props": quoted(next(b for b in api.get(f"bindings/{vhost}/e/x/q/q").json)["properties_key"]),
        "port": port,
    }
    connection.close()
    api.delete(f"users/{user}")
    api.delete(f"global-parameters/{vhost}")


def is_counted(api, vhost):
    """Whether the broker's statistics have seen all of it."""
    queue = api.get(f"queues/{vhost}/q").json
    connections = api.get(f"vhosts/{vhost}/connections").json
    channels = api.get(f"vhosts/{vhost}/channels").json
    return (
        queue.get("message_stats")
        and queue.get("consumer_details")
        and queue.get("policy")
        and "messages" in api.get(f"queues/{vhost}/quorum").json
        and "messages" in api.get(f"queues/{vhost}/stream").json
        and api.get(f"exchanges/{vhost}/x").json.get("message_stats")
        and connections
        and "recv_oct" in connections[0]
        and channels
        and "prefetch_count" in channels[0]
        and channels[0].get("message_stats")
        and "recv_oct" in api.get(f"vhosts/{vhost}").json
    )


# Every path that is read, without those that stand in definitions.md, limits and health for the writing side.
PATHS = {
    "overview": "overview",
    "whoami": "whoami",
    "nodes": "nodes",
    "node": "nodes/{node}",
    "memory": "nodes/{node}/memory",
    "relative memory": "nodes/{node}/memory/relative",
    "vhosts": "vhosts",
    "vhost": "vhosts/{vhost}",
    "permissions of a vhost": "vhosts/{vhost}/permissions",
    "topic permissions of a vhost": "vhosts/{vhost}/topic-permissions",
    "users": "users",
    "user": "users/{user}",
    "users without permissions": "users/without-permissions",
    "queues of a user": "users/{user}/queues",
    "permissions of a user": "users/{user}/permissions",
    "topic permissions of a user": "users/{user}/topic-permissions",
    "permissions": "permissions",
    "permission": "permissions/{vhost}/{user}",
    "topic permissions": "topic-permissions",
    "topic permission": "topic-permissions/{vhost}/{user}",
    "all queues": "queues",
    "detailed queues": "queues/detailed",
    "queues": "queues/{vhost}",
    "page of queues": "queues/{vhost}?page=1&page_size=10",
    "queue": "queues/{vhost}/q",
    "queue with samples": "queues/{vhost}/q?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5",
    "exclusive queue": "queues/{vhost}/excl",
    "quorum queue": "queues/{vhost}/quorum",
    "stream": "queues/{vhost}/stream",
    "queues without statistics": "queues/{vhost}?disable_stats=true&enable_queue_totals=true",
    "bindings of a queue": "queues/{vhost}/q/bindings",
    "all exchanges": "exchanges",
    "exchanges": "exchanges/{vhost}",
    "exchange": "exchanges/{vhost}/x",
    "bindings from an exchange": "exchanges/{vhost}/x/bindings/source",
    "bindings to an exchange": "exchanges/{vhost}/y/bindings/destination",
    "all bindings": "bindings",
    "bindings": "bindings/{vhost}",
    "bindings between": "bindings/{vhost}/e/x/q/q",
    "binding": "bindings/{vhost}/e/x/q/q/{props}",
    "bindings between exchanges": "bindings/{vhost}/e/x/e/y",
    "all consumers": "consumers",
    "consumers": "consumers/{vhost}",
    "all connections": "connections",
    "connections": "vhosts/{vhost}/connections",
    "connection": "connections/{connection}",
    "connections of a user": "connections/username/guest",
    "channels": "connections/{connection}/channels",
    "all channels": "channels",
    "channels of a vhost": "vhosts/{vhost}/channels",
    "channel": "channels/{connection}%20(1)",
    "all policies": "policies",
    "policies": "policies/{vhost}",
    "policy": "policies/{vhost}/p",
    "all operator policies": "operator-policies",
    "operator policies": "operator-policies/{vhost}",
    "operator policy": "operator-policies/{vhost}/o",
    "definitions": "definitions",
    "definitions of a vhost": "definitions/{vhost}",
    "limits of vhosts": "vhost-limits",
    "limits of a vhost": "vhost-limits/{vhost}",
    "limits of users": "user-limits",
    "limits of a user": "user-limits/{user}",
    "parameters": "parameters",
    "parameters of a component": "parameters/vhost-limits",
    "parameters of a vhost": "parameters/vhost-limits/{vhost}",
    "parameter": "parameters/vhost-limits/{vhost}/limits",
    "global parameters": "global-parameters",
    "global parameter": "global-parameters/{vhost}",
    "cluster name": "cluster-name",
    "extensions": "extensions",
    "feature flags": "feature-flags",
    "deprecated features": "deprecated-features",
    "used deprecated features": "deprecated-features/used",
    "aliveness": "aliveness-test/{vhost}",
    "old health check": "healthchecks/node",
    "old health check of a node": "healthchecks/node/{node}",
    "hash": "auth/hash_password/secret",
    "logins": "auth/attempts/{node}",
    "logins by source": "auth/attempts/{node}/source",
    "version": "version",
    "alarms": "health/checks/alarms",
    "local alarms": "health/checks/local-alarms",
    "health of vhosts": "health/checks/virtual-hosts",
    "quorum": "health/checks/node-is-quorum-critical",
    "service": "health/checks/is-in-service",
    "readiness": "health/checks/ready-to-serve-clients",
    "connection limit": "health/checks/below-node-connection-limit",
    "port": "health/checks/port-listener/{port}",
    "protocol": "health/checks/protocol-listener/amqp091",
    "certificates": "health/checks/certificate-expiration/1/months",
}

OVER_VHOSTS = {"all connections", "connections of a user", "all channels"}


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
    known = (key for key in sorted(value) if key not in NOT_COMPARED)
    return {key: {} if key in OPAQUE and isinstance(value[key], dict) else shape(value[key]) for key in known}


def differences(expected, actual, at=""):
    """What is missing, and what is of another type. What was null or an empty list could have been anything."""
    if expected in ("null", []) or actual in ("null", []):
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key, inner in expected.items():
            if key not in actual:
                yield f"{at}.{key} is missing"
            else:
                yield from differences(inner, actual[key], f"{at}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from differences(expected[0], actual[0], f"{at}[]")
    # An empty object is an empty list in some answers of RabbitMQ.
    elif expected != actual and not isinstance(expected, list):
        yield f"{at} is {actual}, not {expected}"


def own(name, value, topology):
    """Of lists over all vhosts what this test has made: connections of other tests need not tell of themselves."""
    if name not in OVER_VHOSTS:
        return value
    kept = [item for item in value if item["vhost"] == topology["vhost"]]
    assert kept, f"{name}: nothing of this test"
    return kept


def test_every_field_is_there_and_of_its_type(api, topology):
    answers = {name: api.get(path.format(**topology)) for name, path in PATHS.items()}
    listed = {name: own(name, answer.json, topology) for name, answer in answers.items() if answer.status == 200}
    shapes = {name: shape(value) for name, value in listed.items()}
    found = [f"{PATHS[name]}: {answer}" for name, answer in answers.items() if answer.status != 200]
    if os.environ.get("RECORD_SHAPES"):
        RECORDED.write_text(json.dumps(shapes, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    found += [line for name in shapes for line in differences(recorded[name], shapes[name], name)]
    assert not found, "\n".join(found)
