"""Every value that is the same whenever the same things are there, as RabbitMQ 4.3 answers it.

`values.json` was recorded from RabbitMQ with the topology of `test_shapes.py`: `RECORD_VALUES=1 pytest
management/test_values.py` with RabbitMQ under test writes it anew. Names that every run makes up stand as `{vhost}` and
so on; of what differs from moment to moment, such as rates and times, only the type is compared. What a
broker sends beyond that is its own business.
"""

import json
import os
import pathlib
import re
import urllib.parse

from program import eventually
from management.test_shapes import NOT_COMPARED, PATHS, topology  # noqa: F401
from program import eventually

RECORDED = pathlib.Path(__file__).resolve().parent / "values.json"

# What differs from moment to moment, or is a figure of one machine or of one implementation.
VARIES = {
    "avg",
    "avg_rate",
    "channels_details",
    "churn_rates",
    "cluster_id",
    "cluster_name",
    "connected_at",
    "consumer_capacity",
    "consumer_utilisation",
    "contexts",
    "count",
    "crypto_lib_version",
    "db_dir",
    "disk_free",
    "disk_free_details",
    "erlang_full_version",
    "erlang_version",
    "explanation",
    "fd_total",
    "fd_used",
    "garbage_collection",
    "head_message_timestamp",
    "internal_cluster_id",
    "io_read_bytes",
    "io_sync_count",
    "io_write_bytes",
    "io_write_count",
    "mem_limit",
    "mem_used",
    "memory",
    "message_stats",
    "messages_details",
    "object_totals",
    "original_cluster_name",
    "os_pid",
    "password_hash",
    "pending_raft_commands",
    "peer_port",
    "proc_total",
    "proc_used",
    "processors",
    "queue_totals",
    "rate",
    "recv_cnt",
    "recv_oct",
    "reductions",
    "run_queue",
    "samples",
    "send_cnt",
    "send_oct",
    "uptime",
    "version",
}

# Where Leveret answers something else on purpose: the end of a path, and why.
OTHERWISE = {
    r"(node|nodes\[0\])\.(channel|connection|queue)_\w+$": "counts since the start",
    r"(node|nodes\[0\])\.(context_switches|gc_\w+)": "figures of the Erlang machine",
    r".*\.idle_since": "told some seconds after the last use, and not at once",
    r".*queue.*\.(message_bytes_ram|messages_(ready_)?ram)": "which messages are in memory is each broker's own",
    r".*\.publishers": "of single quorum queues they are not counted",
    r"queues without statistics\[\d\]\.(exclusive|totals|type_specific)": "left-overs of RabbitMQ's formatting",
    r".*\.properties_key": "a hash that clients give back as they got it",
    r".*exchange.*\.user_who_performed_action": "who made an exchange is not remembered",
    r".*connection.*\.port|port\.port|protocol\.protocols": "each broker has its own",
    r"cluster name\.name": "each broker has its own",
    r"extensions": "pages of the management plugin",
    r"feature flags": "compared in tests of their own",
    r"used deprecated features.*": "what is used is told, where RabbitMQ's list is empty",
    r"deprecated features.*\.state": "a shared prefetch is permitted",
    r"hash\.ok": "a hash has a salt",
    r"logins.*": "counts since the start, each protocol in a place of its own",
    r"definitions\.(global_parameters|product\w*|rabbit\w*)": "of the whole broker, whoever else uses it",
}


def normal(value, names):
    """The same for every run: names that a run makes up are replaced, what varies is its type."""
    if isinstance(value, dict):
        return {replaced(key, names): varying(key, inner, names) for key, inner in value.items()}
    if isinstance(value, list):
        return [normal(inner, names) for inner in value]
    if isinstance(value, str):
        return replaced(value, names)
    return value


def varying(key, value, names):
    if key in NOT_COMPARED:
        return "?"
    if key == "auth_mechanisms":
        # Their order is that of a table of one node.
        return sorted(value, key=lambda mechanism: mechanism["name"])
    if key in VARIES or key.endswith("_details") and isinstance(value, dict) and set(value) <= {"rate"}:
        return kind(value)
    return normal(value, names)


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, dict):
        return {key: kind(inner) for key, inner in sorted(value.items())}
    if isinstance(value, list):
        return "list"
    return "null" if value is None else "string"


def replaced(text, names):
    for name, value in names:
        text = text.replace(value, f"{{{name}}}")
    return text


def of_this_run(value, topology):
    """Of lists what this test has made; a list of none of it stays whole."""
    if isinstance(value, dict) and "rabbitmq_definition_format" in value:
        return {key: of_this_run(inner, topology) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    marks = (topology["vhost"], topology["user"])
    found = [item for item in value if any(mark in json.dumps(item) for mark in marks)]
    # Some lists have an order of their own in each broker.
    return sorted(found if found else value, key=lambda item: json.dumps(item, sort_keys=True))


def differences(expected, actual, at):
    if expected == actual or expected in ("?", "null") or actual in ("?", "null"):
        return
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in sorted(expected):
            if key not in actual:
                yield f"{at}.{key} is missing: {expected[key]!r}"
            elif key in expected:
                yield from differences(expected[key], actual[key], f"{at}.{key}")
    elif isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{at}[{number}]")
    else:
        yield f"{at} is {actual!r}, not {expected!r}"


def is_settled(api, vhost):
    """Whether RabbitMQ's statistics, which are taken every five seconds, have all of the topology."""
    connections = api.get(f"vhosts/{vhost}/connections").json
    queues = {queue["name"]: queue.get("messages") for queue in api.get(f"queues/{vhost}").json}
    return (
        [connection.get("channels") for connection in connections] == [1]
        and queues == {"q": 5, "excl": 0, "quorum": 1, "stream": 0}
        and api.get(f"vhosts/{vhost}").json.get("messages") == 6
        and api.get(f"queues/{vhost}/q").json["consumer_details"]
        and api.get(f"consumers/{vhost}").json[0]["activity_status"] == "blocked"
    )


def test_every_value_that_is_sure_is_the_same(api, topology):  # noqa: F811
    eventually(lambda: is_settled(api, topology["vhost"]), "all of it counted", "")
    unquoted = {name: urllib.parse.unquote(str(topology[name])) for name in ("connection", "node", "vhost", "user")}
    names = list(unquoted.items())
    answers = {}
    for name, path in PATHS.items():
        answer = api.get(path.format(**topology))
        assert answer.status == 200, f"{name}: {answer}"
        answers[name] = normal(of_this_run(answer.json, topology), names)
    if os.environ.get("RECORD_VALUES"):
        RECORDED.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    found = [line for name in answers for line in differences(recorded[name], answers[name], name)]
    found = [line for line in found if not any(re.fullmatch(path, line.split(" is ")[0]) for path in OTHERWISE)]
    assert not found, "\n".join(found)
