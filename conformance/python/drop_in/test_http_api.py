"""What tools call of the HTTP API, in their ways: lines 20, 22 and 42 to 55, 67, 68 of the drop-in checklist.

The numbers in the names are those of the lines (docs/drop-in.md), the text below a name is the line's.
"""

import base64
import json
import time
import uuid

import pika
import pytest

from http_api import quoted
from program import eventually


@pytest.fixture
def name():
    return f"drop-in-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def user(api, name):
    """An administrator's friend without anything; `login(tags)` gives them tags and their own API."""

    def login(tags, password="secret", vhost=None):
        api.put(f"users/{name}", {"password": password, "tags": tags})
        if vhost:
            api.put(f"permissions/{vhost}/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
        return api.as_user(name, password)

    yield login
    api.delete(f"users/{name}")


def connected(broker, vhost, **properties):
    parameters = pika.ConnectionParameters(
        broker.host,
        broker.port,
        vhost,
        pika.PlainCredentials(broker.user, broker.password),
        client_properties=properties,
        socket_timeout=10,
    )
    return pika.BlockingConnection(parameters)


def statuses(api, *requests):
    """Each request with the status it ought to have; returns those that had another."""
    wrong = []
    for method, path, body, wanted in requests:
        answer = api.request(method, path, body)
        if answer.status != wanted:
            wrong.append(f"{method} {path}: {answer.status} instead of {wanted}, {answer.body[:200]!r}")
    return wrong


# Seen on RabbitMQ: what a hash of these passwords looks like in an export.
HASHES = {
    "rabbit_password_hashing_sha256": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
    "rabbit_password_hashing_sha512": "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8TaOmAzjP2azv84GbINYwX2cDWb4DHnc=",
    "rabbit_password_hashing_md5": "kI3GChNpte2FApYFXScl+0dIluk=",
    None: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
    "missing, of a version before 3.6": "kI3GChNpte2FApYFXScl+0dIluk=",
}


@pytest.mark.parametrize("algorithm", HASHES, ids=str)
def test_20_password_hashes_of_rabbitmq_verify(api, name, algorithm):
    """`password_hash` from RabbitMQ verifies (sha256, sha512, md5, missing algorithm with old `rabbit_version`: md5)."""
    user = {"name": name, "password_hash": HASHES[algorithm], "tags": "management"}
    definitions = {"users": [user]}
    if algorithm == "missing, of a version before 3.6":
        definitions["rabbit_version"] = "3.5.7"
    elif algorithm is not None:
        user["hashing_algorithm"] = algorithm
    try:
        assert api.post("definitions", definitions).status == 204
        assert api.as_user(name, "test12").get("whoami").json["name"] == name
        assert api.as_user(name, "test13").get("whoami").status == 401
    finally:
        api.delete(f"users/{name}")


def test_22_an_import_keeps_queues_and_overwrites_the_rest(api, vhost, name):
    """Import semantics: existing queue/exchange kept without error, users/permissions/policies overwritten, nothing
    removed, missing `durable` = true, repeat import idempotent."""
    api.put(f"queues/{vhost}/untouched", {"durable": True})

    def definitions(tags, configure, length):
        return {
            "users": [{"name": name, "password": "secret", "tags": tags}],
            "permissions": [{"user": name, "vhost": vhost, "configure": configure, "write": "", "read": ""}],
            "queues": [{"name": "q", "vhost": vhost, "arguments": {"x-max-length": length}}],
            "exchanges": [{"name": "x", "vhost": vhost, "type": "direct"}],
            "bindings": [{"source": "x", "vhost": vhost, "destination": "q", "destination_type": "queue", "routing_key": "k"}],
            "policies": [
                {"vhost": vhost, "name": "p", "pattern": "^none$", "apply-to": "all", "definition": {"max-length": length}}
            ],
        }

    try:
        for _ in range(2):
            assert api.post("definitions", definitions("management", "^a", 1)).status == 204
        queue = api.get(f"queues/{vhost}/q").json
        assert queue["durable"] is True and queue["auto_delete"] is False
        assert api.get(f"exchanges/{vhost}/x").json["durable"] is True
        assert api.post("definitions", definitions("monitoring", "^b", 2)).status == 204
        assert api.get(f"queues/{vhost}/q").json["arguments"]["x-max-length"] == 1
        assert api.get(f"users/{name}").json["tags"] == ["monitoring"]
        assert api.get(f"permissions/{vhost}/{name}").json["configure"] == "^b"
        assert api.get(f"policies/{vhost}/p").json["definition"] == {"max-length": 2}
        assert api.get(f"queues/{vhost}/untouched").status == 200
        assert len(api.get(f"bindings/{vhost}/e/x/q/q").json) == 1
    finally:
        api.delete(f"users/{name}")


def test_42_every_object_comes_changes_and_goes_with_the_usual_status(api, name):
    """Whole of class A with the status codes 200/201/204/400/401/404/405."""
    v, u = f"vhosts/{name}", f"users/{name}"
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    policy = {"pattern": "^none$", "definition": {"max-length": 1}}
    message = {"properties": {}, "routing_key": "k", "payload": "p", "payload_encoding": "string"}
    taken = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    try:
        wrong = statuses(
            api,
            ("PUT", v, {}, 201),
            ("PUT", v, {"description": "d"}, 204),
            ("GET", v, None, 200),
            ("PUT", u, {"password": "x"}, 400),
            ("PUT", u, {"password": "x", "tags": ""}, 201),
            ("PUT", u, {"password": "x", "tags": "management"}, 204),
            ("GET", u, None, 200),
            ("GET", f"{u}/permissions", None, 200),
            ("PUT", f"permissions/{name}/nobody-there", everything, 400),
            ("PUT", f"permissions/{name}/{name}", {"configure": ".*"}, 400),
            ("PUT", f"permissions/{name}/{name}", everything, 201),
            ("PUT", f"permissions/{name}/{name}", everything, 204),
            ("GET", f"permissions/{name}/{name}", None, 200),
            ("GET", f"{v}/permissions", None, 200),
            ("DELETE", f"permissions/{name}/{name}", None, 204),
            ("DELETE", f"permissions/{name}/{name}", None, 404),
            ("PUT", f"queues/{name}/q", {"durable": True}, 201),
            ("PUT", f"queues/{name}/q", {"durable": True}, 204),
            ("PUT", f"queues/{name}/q", {"durable": True, "arguments": {"x-max-length": 1}}, 400),
            ("PUT", f"queues/no-{name}/q", {}, 404),
            ("GET", f"queues/{name}/q", None, 200),
            ("GET", f"queues/{name}", None, 200),
            ("GET", f"queues/{name}/q/bindings", None, 200),
            ("PUT", f"exchanges/{name}/x", {"type": "topic"}, 201),
            ("PUT", f"exchanges/{name}/x", {"type": "topic"}, 204),
            ("PUT", f"exchanges/{name}/x", {"type": "direct"}, 400),
            ("PUT", f"exchanges/{name}/y", {"type": "nosuch"}, 400),
            ("GET", f"exchanges/{name}/x", None, 200),
            ("GET", f"exchanges/{name}", None, 200),
            ("GET", f"exchanges/{name}/x/bindings/source", None, 200),
            ("GET", f"exchanges/{name}/x/bindings/destination", None, 200),
            ("POST", f"bindings/{name}/e/x/q/q", {"routing_key": "k"}, 201),
            ("POST", f"bindings/{name}/e/x/q/none", {"routing_key": "k"}, 404),
            ("POST", f"bindings/{name}/e/x/e/amq.fanout", {}, 201),
            ("GET", f"bindings/{name}/e/x/q/q", None, 200),
            ("GET", f"bindings/{name}/e/x/q/q/k", None, 200),
            ("GET", f"bindings/{name}", None, 200),
            ("POST", f"exchanges/{name}/x/publish", message, 200),
            ("POST", f"exchanges/{name}/none/publish", message, 404),
            ("PUT", f"exchanges/{name}/x/publish", message, 405),
            ("POST", f"queues/{name}/q/get", taken, 200),
            ("POST", f"queues/{name}/q/get", {**taken, "ackmode": "maybe"}, 400),
            ("POST", f"queues/{name}/none/get", taken, 404),
            ("DELETE", f"queues/{name}/q?if-empty=true", None, 400),
            ("DELETE", f"queues/{name}/q/contents", None, 204),
            ("DELETE", f"exchanges/{name}/x?if-unused=true", None, 400),
            ("DELETE", f"bindings/{name}/e/x/q/q/k", None, 204),
            ("DELETE", f"bindings/{name}/e/x/q/q/k", None, 404),
            ("PUT", f"policies/{name}/p", policy, 201),
            ("PUT", f"policies/{name}/p", policy, 204),
            ("PUT", f"policies/{name}/p", {"pattern": "^none$"}, 400),
            ("GET", f"policies/{name}/p", None, 200),
            ("GET", f"policies/{name}", None, 200),
            ("DELETE", f"policies/{name}/p", None, 204),
            ("DELETE", f"policies/{name}/p", None, 404),
            ("GET", f"definitions/{name}", None, 200),
            ("POST", f"definitions/{name}", {}, 204),
            ("POST", f"definitions/no-{name}", {}, 404),
            ("GET", f"{v}/connections", None, 200),
            ("GET", f"{v}/channels", None, 200),
            ("GET", f"consumers/{name}", None, 200),
            ("GET", f"aliveness-test/{name}", None, 200),
            ("DELETE", f"exchanges/{name}/x", None, 204),
            ("DELETE", f"exchanges/{name}/x", None, 404),
            ("DELETE", f"queues/{name}/q", None, 204),
            ("DELETE", f"queues/{name}/q", None, 404),
            ("POST", "whoami", {}, 405),
            ("GET", "no-such-thing", None, 404),
            ("DELETE", u, None, 204),
            ("DELETE", u, None, 404),
            ("DELETE", v, None, 204),
            ("DELETE", v, None, 404),
        )
        assert not wrong, "\n".join(wrong)
        lists = "overview whoami nodes vhosts users permissions queues exchanges bindings connections channels consumers".split()
        lists += "policies definitions feature-flags".split()
        wrong = statuses(api, *((method, path, None, 200) for path in lists for method in ("GET", "HEAD")))
        assert not wrong, "\n".join(wrong)
    finally:
        api.delete(v)
        api.delete(u)


def test_43_paths_are_split_before_they_are_decoded(api, vhost):
    """`%2F` split before decoding; trailing `/` ignored; `amq.default`; double-encoded `properties_key`; names
    `é a/b`, key `a.#`."""
    queue = "é a/b"
    assert api.put(f"queues/{vhost}/{quoted(queue)}/", {"durable": True}).status == 201
    assert api.get(f"queues/{vhost}/{quoted(queue)}").json["name"] == queue
    assert api.get(f"exchanges/{vhost}/amq.default").json["name"] == ""
    assert api.get(f"exchanges/{vhost}/amq.default/bindings/source").json[0]["destination"] == queue
    path = f"bindings/{vhost}/e/amq.topic/q/{quoted(queue)}"
    made = api.post(path, {"routing_key": "a.#"})
    assert made.status == 201 and made.headers["location"].endswith("a.%2523")
    [binding] = api.get(path).json
    assert (binding["routing_key"], binding["properties_key"]) == ("a.#", "a.%23")
    for key in ("a.%23", "a.%2523"):
        assert api.get(f"{path}/{key}").json["routing_key"] == "a.#"
    assert api.delete(f"{path}/{quoted(binding['properties_key'])}").status == 204
    for trailing in ("users/", "bindings/", "permissions/", "nodes/", "queues/", "vhosts/", "whoami/", f"queues/{vhost}/"):
        assert api.get(trailing).status == 200


def test_44_who_is_refused_learns_it_in_one_of_three_ways(api, user, name):
    """401 in place of 403; empty-body 401 with `www-authenticate` only when no credentials were sent."""
    nobody = api.as_user(name, "wrong")
    answer = nobody.get("overview")
    assert (answer.status, answer.json) == (401, {"error": "not_authorized", "reason": "Not_Authorized"})
    assert answer.headers["www-authenticate"] is None
    answer = user("").get("overview")
    assert (answer.status, answer.json) == (401, {"error": "not_authorised", "reason": "Not management user"})
    answer = user("management").get("users")
    assert (answer.status, answer.json) == (401, {"error": "not_authorised", "reason": "Not administrator user"})
    nobody.user = None
    answer = nobody.get("overview")
    assert (answer.status, answer.body) == (401, b"")
    assert answer.headers["www-authenticate"] == 'Basic realm="RabbitMQ Management"'


def test_45_the_overview_always_has_what_tools_require(api, broker):
    """`/overview` always carries `queue_totals`, `object_totals`, `message_stats`, `listeners`, `churn_rates`,
    versions, `cluster_name`, `node`."""
    # RabbitMQ counts from its first sample on.
    eventually(lambda: "connection_created" in api.get("overview").json["churn_rates"], "counts", "")
    found = api.get("overview").json
    for text in ("cluster_name", "node", "erlang_version", "erlang_full_version", "rabbitmq_version", "product_name",
                 "product_version", "management_version"):
        assert isinstance(found[text], str), text
    assert isinstance(found["statistics_db_event_queue"], int)
    for word in ("connection", "channel"):
        assert isinstance(found["churn_rates"][f"{word}_created"], int)
        assert isinstance(found["churn_rates"][f"{word}_closed_details"]["rate"], float)
    assert isinstance(found["churn_rates"]["queue_declared"], int)
    assert found["object_totals"].keys() >= {"connections", "channels", "queues", "exchanges", "consumers"}
    assert isinstance(found["message_stats"], dict) and isinstance(found["queue_totals"], dict)
    if not broker.is_rabbitmq:
        assert found["queue_totals"].keys() >= {"messages", "messages_ready", "messages_unacknowledged"}
        assert found["message_stats"]["publish_details"].keys() == {"rate"}
    assert {each["protocol"] for each in found["listeners"]} >= {"amqp", "http"}
    for listener in found["listeners"]:
        assert isinstance(listener["port"], int) and isinstance(listener["ip_address"], str)
    for kind in found["exchange_types"]:
        assert kind.keys() >= {"name", "description", "enabled"}


def test_46_integers_stay_integers_and_tables_objects(api, broker, vhost):
    """Integers stay integers, tables stay objects, `os_pid` and `contexts[].port` strings."""
    with connected(broker, vhost) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.basic_publish("", "q", b"x")
        eventually(lambda: api.get(f"queues/{vhost}/q").json.get("messages") == 1, "one message", "")
        queue = api.get(f"queues/{vhost}/q").json
        [node] = api.get("nodes").json
        eventually(lambda: api.get("overview").json["contexts"], "the ports of HTTP", "")
        overview = api.get("overview").json
        binding = api.get(f"bindings/{vhost}").json[0]
        exchange = api.get(f"exchanges/{vhost}/amq.topic").json
    numbers = [
        *(queue[each] for each in ("messages", "messages_ready", "message_bytes", "consumers", "memory")),
        *(node[each] for each in ("mem_used", "mem_limit", "fd_total", "disk_free", "uptime", "proc_total", "processors")),
    ]
    assert {type(each) for each in numbers} == {int}
    assert type(queue["messages_details"]["rate"]) is float
    for table in (queue["arguments"], binding["arguments"], exchange["arguments"]):
        assert isinstance(table, dict)
    assert isinstance(node["os_pid"], str)
    assert {type(each["port"]) for each in overview["contexts"]} == {str}


def test_47_pages_filters_and_columns_as_scalers_and_exporters_ask(api, vhost):
    """Paging envelope only with `page`; `use_regex`, `name`, `page_size`, `sort=`, `columns`, `disable_stats`
    accepted."""
    for number in range(5):
        api.put(f"queues/{vhost}/jobs-{number}", {"durable": True})
    asked = f"queues/{vhost}?page=1&use_regex=true&pagination=false&name=%5Ejobs-%5B0-2%5D%24&page_size=100"
    found = api.get(asked).json
    assert (found["total_count"], found["filtered_count"], found["item_count"], found["page_count"]) == (5, 3, 3, 1)
    assert [each["name"] for each in found["items"]] == ["jobs-0", "jobs-1", "jobs-2"]
    for same in ("", "?sort=", "?name=jobs-0", "?page_size=1", "?disable_stats=true", "?sort=nothing"):
        assert len(api.get(f"queues/{vhost}{same}").json) == 5, same
    assert api.get(f"queues/{vhost}?columns=name").json[0] == {"name": "jobs-0"}
    assert [each["name"] for each in api.get(f"queues/{vhost}?sort=name&sort_reverse=true").json][0] == "jobs-4"
    assert api.get(f"queues/{vhost}?page=7").status == 400


def test_48_a_queues_counts_are_exact_now(api, broker, vhost):
    """Queue object has `messages`, `messages_ready`, `messages_unacknowledged`, `consumers`,
    `message_stats.publish_details.rate`, `deliver_get_details.rate` and `state`, exact now, not 5 s late."""
    with connected(broker, vhost) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "q", b"x")
        channel.basic_get("q")
        wanted = {"messages": 3, "messages_ready": 2, "messages_unacknowledged": 1, "consumers": 0, "state": "running"}

        def seen():
            return {key: api.get(f"queues/{vhost}/q").json.get(key) for key in wanted}

        if broker.is_rabbitmq:
            eventually(lambda: seen() == wanted, wanted, "")
        assert seen() == wanted
        stats = api.get(f"queues/{vhost}/q").json["message_stats"]
        assert (stats["publish"], stats["deliver_get"]) == (3, 1)
        assert {type(stats[f"{each}_details"]["rate"]) for each in ("publish", "deliver_get")} == {float}


def test_49_defaults_of_put_are_those_of_the_api(api, user, name):
    """PUT queue default durable=false, PUT vhost grants the caller; booleans as strings accepted."""
    somebody = user("administrator")
    try:
        assert somebody.put(f"vhosts/{name}").status == 201
        assert api.get(f"permissions/{name}/{name}").json["configure"] == ".*"
        assert somebody.put(f"queues/{name}/texts", {"durable": "true", "auto_delete": "false", "name": "texts"}).status == 201
        assert somebody.get(f"queues/{name}/texts").json["durable"] is True
        assert somebody.put(f"exchanges/{name}/x", {}).status == 201
        found = somebody.get(f"exchanges/{name}/x").json
        assert (found["type"], found["durable"]) == ("direct", False)
    finally:
        api.delete(f"vhosts/{name}")


def test_50_messages_are_published_and_taken_over_http(api, vhost):
    """POST publish/get incl. base64, `routed`, four ackmodes."""
    api.put(f"queues/{vhost}/q", {"durable": True})

    def publish(key="q", payload="text", encoding="string", properties=None):
        body = {"properties": properties or {}, "routing_key": key, "payload": payload, "payload_encoding": encoding}
        return api.post(f"exchanges/{vhost}/amq.default/publish", body).json

    def get(ackmode, encoding="auto", count=1, **more):
        return api.post(f"queues/{vhost}/q/get", {"count": count, "ackmode": ackmode, "encoding": encoding, **more}).json

    assert publish("nowhere") == {"routed": False}
    properties = {"delivery_mode": 2, "headers": {"n": 1}, "content_type": "text/plain"}
    assert publish(properties=properties) == {"routed": True}
    [message] = get("ack_requeue_true")
    assert message["payload"] == "text" and message["payload_encoding"] == "string"
    assert message["properties"] == properties
    assert (message["payload_bytes"], message["message_count"], message["redelivered"]) == (4, 0, False)
    [message] = get("reject_requeue_true", encoding="base64", count="1", truncate="2")
    assert message["payload"] == base64.b64encode(b"te").decode() and message["payload_bytes"] == 4
    assert message["redelivered"] is True
    assert len(get("reject_requeue_false")) == 1
    assert get("ack_requeue_true") == []
    raw = base64.b64encode(b"\xff\x00").decode()
    publish(payload=raw, encoding="base64")
    [message] = get("ack_requeue_false")
    assert (message["payload"], message["payload_encoding"]) == (raw, "base64")
    assert get("ack_requeue_false") == []


def test_51_a_connection_is_listed_at_once_and_closed_with_a_reason(api, broker, vhost):
    """DELETE connection closes with 320 and the `X-Reason` text; new connections appear in the list at once."""
    connection = connected(broker, vhost, connection_name="mine")

    def names():
        return [each["name"] for each in api.get(f"vhosts/{vhost}/connections").json if each.get("user_provided_name") == "mine"]

    if broker.is_rabbitmq:
        eventually(names, "the connection in the list", "")
    [name] = names()
    assert api.delete(f"connections/{quoted(name)}", X_Reason="go away").status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(1)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - go away")


def test_52_tags_and_permissions_decide_what_is_seen(api, broker, user, vhost, name):
    """Tags decide visibility: connections of others, queues of vhosts without permission, nodes."""
    api.put(f"queues/{vhost}/hidden", {"durable": True})
    with connected(broker, vhost) as connection:
        connection.channel()
        eventually(lambda: api.get(f"vhosts/{vhost}/connections").json, "the connection in the list", "")
        for tag, sees_all in (("management", False), ("policymaker", False), ("monitoring", True), ("administrator", True)):
            somebody = user(tag)
            seen = {each["vhost"] for each in somebody.get("queues").json}
            assert (vhost in seen) is (tag == "administrator"), tag
            assert (vhost in {each["name"] for each in somebody.get("vhosts").json}) is sees_all, tag
            others = [each for each in somebody.get("connections").json if each.get("vhost") == vhost]
            assert bool(others) is sees_all, tag
            assert somebody.get("nodes").status == (200 if sees_all else 401), tag
        somebody = user("management", vhost=vhost)
        assert {each["vhost"] for each in somebody.get("queues").json} == {vhost}
        assert [each["name"] for each in somebody.get("vhosts").json] == [vhost]


def test_53_health_checks_are_200_or_503(api, broker):
    """Health endpoints 200/503 with bodies; `aliveness-test` and `healthchecks/node` kept."""
    checks = "alarms local-alarms virtual-hosts node-is-quorum-critical is-in-service ready-to-serve-clients"
    for check in [*checks.split(), "below-node-connection-limit", "protocol-listener/amqp", f"port-listener/{broker.port}"]:
        answer = api.get(f"health/checks/{check}")
        assert (answer.status, answer.json["status"]) == (200, "ok"), check
    answer = api.get("health/checks/port-listener/9")
    assert answer.status == 503
    assert answer.json["status"] == "failed" and answer.json["missing"] == 9 and broker.port in answer.json["ports"]
    answer = api.get("health/checks/protocol-listener/mqtt")
    assert (answer.status, answer.json["missing"]) == (503, ["mqtt"])
    assert api.get("aliveness-test/%2F").json == {"status": "ok"}
    assert api.get("healthchecks/node").json == {"status": "ok"}


def test_54_feature_flags_and_lists_without_members(api, broker):
    """`/feature-flags` lists `quorum_queue`, `stream_queue` enabled; `/extensions`, `/deprecated-features`,
    `/federation-links`, `/shovels` return arrays."""
    flags = {each["name"]: each["state"] for each in api.get("feature-flags").json}
    assert flags["quorum_queue"] == flags["stream_queue"] == "enabled"
    for path in ("extensions", "deprecated-features", "deprecated-features/used"):
        assert isinstance(api.get(path).json, list), path
    if not broker.is_rabbitmq:
        # RabbitMQ has these with their plugins only.
        for path in ("federation-links", "shovels", "federation-links/%2F", "shovels/%2F"):
            assert api.get(path).json == [], path


def test_55_definitions_come_as_json_in_a_form_and_go_as_a_download(api, vhost):
    """POST `/definitions` by JSON and multipart `file`; GET with `?download=`."""
    definitions = {"queues": [{"name": "by json", "vhost": vhost}]}
    assert api.post("definitions", definitions).status == 204
    definitions["queues"][0]["name"] = "by form"
    form = (
        b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="d.json"\r\nContent-Type: application/json\r\n\r\n'
        + json.dumps(definitions).encode()
        + b"\r\n--xyz--\r\n"
    )
    assert api.request("POST", "definitions", form, kind="multipart/form-data; boundary=xyz").status in (200, 204)
    assert {each["name"] for each in api.get(f"queues/{vhost}").json} == {"by json", "by form"}
    answer = api.get("definitions?download=d.json")
    assert answer.headers["content-disposition"] == "attachment; filename=d.json"
    assert {each["name"] for each in answer.json["queues"]} >= {"by json", "by form"}


def test_67_operator_policies_limits_and_topic_permissions_hold(api, broker, user, vhost, name):
    """Operator policies, vhost/user limits, topic permissions enforced and merged."""
    api.put(f"policies/{vhost}/p", {"pattern": "^q", "definition": {"max-length": 5}})
    api.put(f"operator-policies/{vhost}/o", {"pattern": "^q", "definition": {"max-length": 2}})
    api.put(f"queues/{vhost}/q", {"durable": True, "arguments": {"x-max-length": 3}})
    eventually(lambda: api.get(f"queues/{vhost}/q").json.get("operator_policy") == "o", "the policy on the queue", "")
    assert api.get(f"queues/{vhost}/q").json["effective_policy_definition"] == {"max-length": 2}
    with connected(broker, vhost) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for _ in range(4):
            channel.basic_publish("", "q", b"x")
        assert channel.queue_declare("q", passive=True).method.message_count == 2
    assert api.put(f"vhost-limits/{vhost}/max-queues", {"value": 1}).status in (201, 204)
    assert api.put(f"queues/{vhost}/q2", {"durable": True}).status == 400
    assert api.put(f"vhost-limits/{vhost}/max-connections", {"value": 0}).status in (201, 204)
    with pytest.raises(pika.exceptions.AMQPError):
        connected(broker, vhost)
    api.delete(f"vhost-limits/{vhost}/max-connections")
    user("", vhost=vhost)
    body = {"exchange": "amq.topic", "write": "^mine", "read": ".*"}
    assert api.put(f"topic-permissions/{vhost}/{name}", body).status in (201, 204)
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, pika.PlainCredentials(name, "secret"))
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "mine.a", b"")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
            channel.basic_publish("amq.topic", "yours", b"")
    assert refused.value.reply_code == 403


def test_68_pages_of_other_origins_are_not_answered(api):
    """CORS off by default: no `access-control-*` headers even with `Origin`."""
    answer = api.get("overview", Origin="http://elsewhere")
    assert not [each for each in answer.headers if each.lower().startswith("access-control-")]
    assert api.request("OPTIONS", "overview").status == 200


def test_41_the_consumer_timeout_of_scripts_is_set_and_holds(api, broker, vhost):
    """`eval` set_env/get_env consumer_timeout."""
    if not broker.is_controlled:
        pytest.skip("nobody says how to run programs beside that broker")

    def evaluated(expression):
        code, out, err = broker.tool("rabbitmqctl", "eval", expression)
        assert code == 0, err
        return out.strip()

    before = evaluated("application:get_env(rabbit, consumer_timeout).")
    assert before.startswith("{ok,")
    try:
        assert evaluated("application:set_env(rabbit, consumer_timeout, 1000).") == "ok"
        assert evaluated("application:get_env(rabbit,consumer_timeout).") == "{ok,1000}"
        if broker.is_rabbitmq:
            # It looks at the time once a minute, and is not waited for.
            return
        with connected(broker, vhost) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
            got, cancelled = [], []
            channel.add_on_cancel_callback(cancelled.append)
            channel.basic_consume("q", lambda *each: got.append(each))
            channel.basic_publish("", "q", b"x")
            began = time.monotonic()

            def is_cancelled():
                connection.process_data_events(0.1)
                return cancelled

            eventually(is_cancelled, "the consumer that does not ack is cancelled", "")
            assert got and time.monotonic() - began >= 0.9
    finally:
        value = before.removeprefix("{ok,").removesuffix("}")
        evaluated(f"application:set_env(rabbit, consumer_timeout, {value}).")
