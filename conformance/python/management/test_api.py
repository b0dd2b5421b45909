"""The HTTP API: statuses, bodies and effects, the same against both brokers."""

import base64
import gzip
import json
import time
import uuid

import pika
import pytest

from http_api import quoted

PATIENCE_SECS = 15


def eventually(condition):
    """RabbitMQ's numbers are up to five seconds old; those of others are exact at once."""
    deadline = time.monotonic() + PATIENCE_SECS
    while True:
        found = condition()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)


@pytest.fixture
def user(api):
    """Makes users with tags, as clients of the API; a permission where a vhost is named."""
    names = []

    def make(tags, vhost=None, password="secret"):
        name = f"conformance-{uuid.uuid4()}"
        names.append(name)
        assert api.put(f"users/{name}", {"password": password, "tags": tags}).status == 201
        if vhost is not None:
            rights = {"configure": "^mine", "write": ".*", "read": ".*"}
            assert api.put(f"permissions/{vhost}/{name}", rights).status == 201
        return api.as_user(name, password)

    yield make
    for name in names:
        api.delete(f"users/{name}")


@pytest.fixture
def connection(broker, api, vhost):
    credentials = pika.PlainCredentials(api.user, api.password)
    parameters = pika.ConnectionParameters(
        broker.host,
        broker.port,
        vhost,
        credentials,
        socket_timeout=5,
        client_properties={"connection_name": f"of {vhost}"},
    )
    connection = pika.BlockingConnection(parameters)
    yield connection
    if connection.is_open:
        connection.close()


def with_policy(queue):
    """The queue, once its policy shows."""
    return queue if queue.get("effective_policy_definition") else None


def error(answer):
    return answer.status, answer.json["error"], answer.json["reason"]


# Who asks


NOWHERE = "conformance-no-such-vhost"
OBJECT_NOT_FOUND = (404, "Object Not Found", "Not Found")
NO_VHOST = (404, "not_found", "vhost_not_found")


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("get", f"queues/{NOWHERE}", OBJECT_NOT_FOUND),
        ("get", f"queues/{NOWHERE}/q", OBJECT_NOT_FOUND),
        ("delete", f"queues/{NOWHERE}/q", OBJECT_NOT_FOUND),
        ("delete", f"queues/{NOWHERE}/q/contents", OBJECT_NOT_FOUND),
        ("put", f"queues/{NOWHERE}/q", NO_VHOST),
        ("get", f"exchanges/{NOWHERE}/x", OBJECT_NOT_FOUND),
        ("put", f"exchanges/{NOWHERE}/x", NO_VHOST),
        ("get", f"policies/{NOWHERE}", OBJECT_NOT_FOUND),
        ("delete", f"policies/{NOWHERE}/p", OBJECT_NOT_FOUND),
        ("get", f"vhost-limits/{NOWHERE}", OBJECT_NOT_FOUND),
        ("get", f"consumers/{NOWHERE}", OBJECT_NOT_FOUND),
        ("get", f"vhosts/{NOWHERE}/connections", OBJECT_NOT_FOUND),
        ("put", f"permissions/{NOWHERE}/guest", (400, "bad_request", "vhost_or_user_not_found")),
        ("put", f"topic-permissions/{NOWHERE}/guest", (400, "bad_request", "vhost_or_user_not_found")),
    ],
)
def test_a_vhost_that_is_not_there_is_told_as_the_request_has_it(api, method, path, told):
    answer = getattr(api, method)(path, *([{}] if method == "put" else []))
    assert error(answer) == told


def test_a_topic_permission_is_for_an_exchange_that_is_there(api, vhost):
    path, patterns = f"topic-permissions/{vhost}/guest", {"write": "^a", "read": ".*"}
    refused = api.put(path, {"exchange": "no-exchange", **patterns})
    assert error(refused) == (400, "bad_request", ["no_such_exchange", "no-exchange"])
    assert api.get(path).status == 404
    statuses = [api.put(path, {"exchange": exchange, **patterns}).status for exchange in ("amq.topic", "", "amq.topic")]
    assert statuses == [201, 204, 204]
    assert {shown["exchange"] for shown in api.get(path).json} == {"amq.topic", ""}


def test_bindings_of_what_is_not_there_are_none(api, vhost):
    for path in ("e/no-exchange/q/no-queue", "e/amq.topic/q/no-queue", "e/no-exchange/e/amq.topic"):
        answer = api.get(f"bindings/{vhost}/{path}")
        assert (answer.status, answer.json) == (200, []), path
    answer = api.get(f"exchanges/{vhost}/no-exchange/bindings/source")
    assert (answer.status, answer.json) == (200, [])


def test_every_key_that_is_missing_is_named(api, vhost):
    for path, keys in {
        f"policies/{vhost}/p": "{key_missing,pattern},{key_missing,definition}",
        f"permissions/{vhost}/guest": "{key_missing,configure},{key_missing,write},{key_missing,read}",
        f"topic-permissions/{vhost}/guest": "{key_missing,exchange},{key_missing,write},{key_missing,read}",
    }.items():
        assert error(api.put(path, {})) == (400, "bad_request", f"[{keys}]")
    keys = ("routing_key", "properties", "payload", "payload_encoding")
    wanted = ",\n ".join(f"{{key_missing,{key}}}" for key in keys)
    assert error(api.post(f"exchanges/{vhost}/amq.topic/publish", {})) == (400, "bad_request", f"[{wanted}]")
    api.put(f"queues/{vhost}/q")
    wanted = "[{key_missing,ackmode},{key_missing,count},{key_missing,encoding}]"
    assert error(api.post(f"queues/{vhost}/q/get", {})) == (400, "bad_request", wanted)


def test_whoami(api, user):
    assert api.get("whoami").json["tags"] == ["administrator"]
    somebody = user("management,x")
    assert somebody.get("whoami").json == {"name": somebody.user, "tags": ["management", "x"], "is_internal_user": True}


def test_without_credentials_one_is_asked_for_them(api):
    api.user = None
    answer = api.get("whoami")
    assert (answer.status, answer.body) == (401, b"")
    assert answer.headers["www-authenticate"].startswith("Basic realm=")


def test_wrong_credentials_are_not_asked_for_again(api):
    answer = api.as_user("nobody", "x").get("whoami")
    assert error(answer) == (401, "not_authorized", "Not_Authorized")
    assert answer.headers["www-authenticate"] is None


NEEDS = {
    "whoami": {"management", "policymaker", "monitoring", "administrator"},
    "overview": {"management", "policymaker", "monitoring", "administrator"},
    "vhosts": {"management", "policymaker", "monitoring", "administrator"},
    "queues": {"management", "policymaker", "monitoring", "administrator"},
    "connections": {"management", "policymaker", "monitoring", "administrator"},
    "policies": {"management", "policymaker", "monitoring", "administrator"},
    "health/checks/alarms": {"management", "policymaker", "monitoring", "administrator"},
    "nodes": {"monitoring", "administrator"},
    "parameters": {"policymaker", "administrator"},
    "global-parameters": {"policymaker", "administrator"},
    "users": {"administrator"},
    "permissions": {"administrator"},
    "topic-permissions": {"administrator"},
    "user-limits": {"administrator"},
    "definitions": {"administrator"},
}


@pytest.mark.parametrize("tag", ["", "management", "policymaker", "monitoring", "administrator", "impersonator"])
def test_tags_open_doors(user, tag):
    somebody = user(tag)
    answers = {path: somebody.get(path).status for path in NEEDS}
    assert answers == {path: 200 if tag in tags else 401 for path, tags in NEEDS.items()}


def test_who_is_kept_out_learns_what_is_missing(user):
    assert error(user("").get("overview")) == (401, "not_authorised", "Not management user")
    assert error(user("management").get("users")) == (401, "not_authorised", "Not administrator user")
    assert error(user("management").get("nodes")) == (401, "not_authorised", "Not monitor user")


def test_a_login_by_form_gives_a_token(api):
    kind = "application/x-www-form-urlencoded"
    form = f"username={api.user}&password={api.password}".encode()
    answer = api.request("POST", "login", form, kind=kind)
    assert answer.json["user"] == api.get("whoami").json
    assert base64.b64decode(answer.json["token"]["value"]).decode() == f"{api.user}:{api.password}"
    assert api.request("POST", "login", b"username=guest&password=wrong", kind=kind).status == 401


def test_version_is_for_everybody(api):
    api.user = None
    assert api.get("version").json.count(".") == 2


# Paths


def test_unknown_paths_and_methods(api):
    assert error(api.get("no-such-thing")) == (404, "Object Not Found", "Not Found")
    answer = api.request("POST", "overview", {})
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("path", ["users/", "vhosts/", "queues/%2F/", "queues/%2f", "whoami/", "bindings/"])
def test_a_trailing_slash_changes_nothing(api, path):
    assert api.get(path).status == 200


def test_names_are_decoded_once(api, vhost):
    name = "é a/b%2F+"
    path = f"queues/{vhost}/{quoted(name)}"
    assert api.put(path, {"durable": True}).status == 201
    assert api.get(path).json["name"] == name
    assert api.delete(path).status == 204
    assert api.get(path).status == 404


def test_bodies_that_are_no_json_object(api, vhost):
    for body in (b"{", b"[]", b"x"):
        assert api.request("PUT", f"queues/{vhost}/q", body).status == 400


# Users, vhosts, permissions


def test_users_come_change_and_go(api):
    path = f"users/conformance-{uuid.uuid4()}"
    assert error(api.put(path, {"password": "x"}))[0] == 400
    assert api.put(path, {"password": "x", "tags": "b,a"}).status == 201
    assert api.get(path).json["tags"] == ["b", "a"]
    assert api.put(path, {"password_hash": "", "tags": ["c"]}).status == 204
    found = api.get(path).json
    assert (found["password_hash"], found["tags"], found["limits"]) == ("", ["c"], {})
    assert found["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    assert api.put(path, {"password": "x", "password_hash": "eA==", "tags": ""}).status == 400
    assert api.put(path, {"password_hash": "@@", "tags": ""}).status == 400
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404
    assert api.get(path).status == 404


HASHES = {
    "rabbit_password_hashing_sha256": "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR",
    "rabbit_password_hashing_sha512": "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8TaOmAzjP2azv84GbINYwX2cDWb4DHnc=",
    "rabbit_password_hashing_md5": "kI3GChNpte2FApYFXScl+0dIluk=",
}


@pytest.mark.parametrize("algorithm", HASHES)
def test_hashes_of_every_algorithm_verify(api, algorithm):
    name = f"conformance-{uuid.uuid4()}"
    user = {"password_hash": HASHES[algorithm], "hashing_algorithm": algorithm, "tags": "management"}
    assert api.put(f"users/{name}", user).status == 201
    try:
        assert api.as_user(name, "test12").get("whoami").status == 200
        assert api.as_user(name, "test13").get("whoami").status == 401
    finally:
        api.delete(f"users/{name}")


def test_vhosts_come_change_and_go(api):
    name = f"conformance-{uuid.uuid4()}"
    assert api.put(f"vhosts/{name}", {"description": "d", "tags": "x,y"}).status == 201
    try:
        assert api.put(f"vhosts/{name}").status == 204
        found = api.get(f"vhosts/{name}").json
        assert (found["name"], found["tracing"], found["protected_from_deletion"]) == (name, False, False)
        # Who makes it may use it.
        assert api.get(f"permissions/{name}/{api.user}").json["configure"] == ".*"
        exchanges = [each["name"] for each in api.get(f"exchanges/{name}").json]
        assert sorted(exchanges) == [
            "",
            "amq.direct",
            "amq.fanout",
            "amq.headers",
            "amq.match",
            "amq.rabbitmq.trace",
            "amq.topic",
        ]
        assert api.post(f"vhosts/{name}/deletion/protection").status == 204
        assert api.delete(f"vhosts/{name}").status == 412
        assert api.delete(f"vhosts/{name}/deletion/protection").status == 204
    finally:
        assert api.delete(f"vhosts/{name}").status == 204
    assert api.delete(f"vhosts/{name}").status == 404
    assert api.get(f"vhosts/{name}").status == 404


def test_permissions_come_change_and_go(api, vhost, user):
    path = f"permissions/{vhost}/{user('').user}"
    assert error(api.put(path, {"configure": "", "write": ""})) == (400, "bad_request", "[{key_missing,read}]")
    rights = {"configure": "^a", "write": "", "read": ".*"}
    assert api.put(path, rights).status == 201
    assert api.put(path, rights).status == 204
    assert rights.items() <= api.get(path).json.items()
    assert api.put(path, {**rights, "read": "("}).status == 400
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404
    assert api.put(f"permissions/{vhost}/nobody", rights).status == 400
    assert api.put(f"permissions/nowhere/{api.user}", rights).status == 400


def test_limits_are_set_and_taken_back(api, vhost, user):
    assert api.put(f"vhost-limits/{vhost}/max-queues", {"value": 5}).status == 204
    assert api.get(f"vhost-limits/{vhost}").json == [{"vhost": vhost, "value": {"max-queues": 5}}]
    assert api.delete(f"vhost-limits/{vhost}/max-queues").status == 204
    assert api.put(f"vhost-limits/{vhost}/max-nonsense", {"value": 5}).status == 400
    name = user("").user
    assert api.put(f"user-limits/{name}/max-channels", {"value": 5}).status == 204
    assert api.get(f"user-limits/{name}").json == [{"user": name, "value": {"max-channels": 5}}]
    assert api.get(f"users/{name}").json["limits"] == {"max-channels": 5}
    assert api.delete(f"user-limits/{name}/max-channels").status == 204


# Queues, exchanges, bindings


def test_queues_come_and_go(api, vhost):
    path = f"queues/{vhost}/q"
    assert api.get(path).status == 404
    assert api.put(path, {"durable": "true", "arguments": {"x-max-length": 5}}).status == 201
    assert api.put(path, {"durable": True, "arguments": {"x-max-length": 5}}).status == 204
    found = api.get(path).json
    assert (found["durable"], found["auto_delete"], found["exclusive"], found["type"]) == (True, False, False, "classic")
    assert found["arguments"] == {"x-max-length": 5, "x-queue-type": "classic"}
    text = f"inequivalent arg 'durable' for queue 'q' in vhost '{vhost}': received 'false' but current is 'true'"
    assert error(api.put(path, {"arguments": {"x-max-length": 5}})) == (400, "bad_request", text)
    assert api.put(f"queues/{vhost}/amq.q", {"durable": True}).status == 401
    assert api.put("queues/nowhere/q", {"durable": True}).status == 404
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404


def test_a_queue_in_use_or_not_empty_may_be_spared(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_publish("", "q", b"")
    eventually(lambda: api.get(f"queues/{vhost}/q").json.get("messages"))
    assert api.delete(f"queues/{vhost}/q?if-empty=true").status == 400
    channel.basic_consume("q", lambda *_: None)
    assert api.delete(f"queues/{vhost}/q?if-unused=true").status == 400
    assert api.delete(f"queues/{vhost}/q").status == 204


def test_a_queue_is_emptied(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"")
    assert api.delete(f"queues/{vhost}/q/contents").status == 204
    assert channel.queue_declare("q", passive=True).method.message_count == 0


def test_exchanges_come_and_go(api, vhost):
    path = f"exchanges/{vhost}/x"
    assert api.put(path, {"type": "topic", "durable": True, "internal": True}).status == 201
    assert api.put(path, {"type": "topic", "durable": True, "internal": True}).status == 204
    found = api.get(path).json
    assert (found["type"], found["durable"], found["internal"], found["arguments"]) == ("topic", True, True, {})
    assert api.put(path, {"type": "direct"}).status == 400
    assert api.put(f"exchanges/{vhost}/y", {"type": "nonsense"}).status == 400
    assert api.get(f"exchanges/{vhost}/amq.default").json["name"] == ""
    assert api.delete(path).status == 204
    assert api.delete(path).status == 404


def test_bindings_have_a_key_that_names_them(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True})
    between = f"bindings/{vhost}/e/amq.topic/q/q"
    answer = api.post(between, {"routing_key": "a b.#/*"})
    assert answer.status == 201
    assert answer.headers["location"] == "q/a%2Bb.%2523%252F%252A"
    binding = next(each for each in api.get(between).json)
    assert binding["properties_key"] == "a+b.%23%2F%2A"
    assert (binding["source"], binding["destination"], binding["destination_type"]) == ("amq.topic", "q", "queue")
    assert api.post(between, {"routing_key": "k", "arguments": {"n": 1}}).status == 201
    keys = {each["properties_key"] for each in api.get(between).json}
    assert len(keys) == 2 and any(key.startswith("k~") for key in keys)
    listed = [each["properties_key"] for each in api.get(f"queues/{vhost}/q/bindings").json]
    assert set(listed) == keys | {"q"}
    for key in keys:
        assert api.get(f"{between}/{quoted(key)}").status == 200
        assert api.delete(f"{between}/{quoted(key)}").status == 204
    assert api.get(between).json == []
    assert api.get(f"{between}/x").status == 404
    assert api.post(f"bindings/{vhost}/e/amq.topic/q/none", {}).status == 404
    assert api.post(f"bindings/{vhost}/e/none/q/q", {}).status == 404


def test_a_binding_is_the_one_whose_key_is_in_the_path_even_if_another_looks_like_it_decoded(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True})
    between = f"bindings/{vhost}/e/amq.topic/q/q"
    for key in ("a b", "a+b"):
        assert api.post(between, {"routing_key": key}).status == 201
    keys = {each["routing_key"]: each["properties_key"] for each in api.get(between).json}
    assert keys == {"a b": "a+b", "a+b": "a%2Bb"}
    for key in keys:
        assert api.get(f"{between}/{quoted(keys[key])}").json["routing_key"] == key
    assert api.delete(f"{between}/{quoted(keys['a b'])}").status == 204
    assert [each["routing_key"] for each in api.get(between).json] == ["a+b"]


def test_exchanges_are_bound_to_exchanges(api, vhost):
    between = f"bindings/{vhost}/e/amq.topic/e/amq.fanout"
    assert api.post(between, {}).status == 201
    assert api.get(between).json[0]["properties_key"] == "~"
    assert len(api.get(f"exchanges/{vhost}/amq.topic/bindings/source").json) == 1
    assert len(api.get(f"exchanges/{vhost}/amq.fanout/bindings/destination").json) == 1
    assert api.delete(f"{between}/~").status == 204


def test_permissions_bind_the_api_too(api, vhost, user):
    somebody = user("administrator", vhost)
    assert somebody.put(f"queues/{vhost}/mine", {"durable": True}).status == 201
    assert error(somebody.put(f"queues/{vhost}/yours", {"durable": True})) == (401, "not_authorised", "Access refused.")
    stranger = user("management")
    assert stranger.get(f"queues/{vhost}").status in (401, 404)
    assert vhost not in [each["vhost"] for each in stranger.get("queues").json]


def test_topic_permissions_bind_the_api_too(api, vhost, user):
    somebody = user("management", vhost)
    topics = {"exchange": "amq.topic", "write": "^pub", "read": "^pub"}
    assert api.put(f"topic-permissions/{vhost}/{somebody.user}", topics).status == 201
    api.put(f"queues/{vhost}/q", {"durable": True})
    between = f"bindings/{vhost}/e/amq.topic/q/q"
    refused = (401, "not_authorised", "Access refused.")
    assert somebody.post(between, {"routing_key": "public.#"}).status == 201
    assert error(somebody.post(between, {"routing_key": "secret.#"})) == refused
    assert api.post(between, {"routing_key": "secret.#"}).status == 201
    assert error(somebody.delete(f"{between}/{quoted('secret.%23')}")) == refused
    assert somebody.delete(f"{between}/{quoted('public.%23')}").status == 204
    assert [each["routing_key"] for each in api.get(between).json] == ["secret.#"]


# Lists


def test_lists_come_in_pages(api, vhost):
    for name in ("a1", "a2", "b1"):
        api.put(f"queues/{vhost}/{name}", {"durable": True})
    page = api.get(f"queues/{vhost}?page=1&page_size=1&name=A&columns=name&sort=name&sort_reverse=true").json
    assert page == {
        "total_count": 3,
        "filtered_count": 2,
        "item_count": 1,
        "page": 1,
        "page_size": 1,
        "page_count": 2,
        "items": [{"name": "a2"}],
    }
    page = api.get(f"queues/{vhost}?page=1&name=^b&use_regex=true").json
    assert [item["name"] for item in page["items"]] == ["b1"]
    assert api.get(f"queues/{vhost}?page=7").status == 400
    assert api.get(f"queues/{vhost}?page=x").status == 400
    names = api.get(f"queues/{vhost}?columns=name,vhost").json
    assert names == [{"name": name, "vhost": vhost} for name in ("a1", "a2", "b1")]
    plain = api.get(f"queues/{vhost}?disable_stats=true&enable_queue_totals=true").json[0]
    assert plain["messages"] == 0 and "message_stats" not in plain


# Messages


def test_a_message_goes_in_and_comes_out(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True})
    publish = f"exchanges/{vhost}/amq.default/publish"
    message = {
        "properties": {"delivery_mode": 2, "headers": {"k": "v", "n": 1}, "content_type": "text/plain", "type": "t"},
        "routing_key": "q",
        "payload": "hello",
        "payload_encoding": "string",
    }
    assert api.post(publish, message).json == {"routed": True}
    assert api.post(publish, {**message, "routing_key": "none"}).json == {"routed": False}
    raw = base64.b64encode(b"\xff\x00").decode()
    assert api.post(publish, {**message, "payload": raw, "payload_encoding": "base64"}).json == {"routed": True}
    get = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    first, second = api.post(f"queues/{vhost}/q/get", get).json
    assert first == {
        "payload_bytes": 5,
        "redelivered": False,
        "exchange": "",
        "routing_key": "q",
        "message_count": 1,
        "properties": message["properties"],
        "payload": "hello",
        "payload_encoding": "string",
    }
    assert (second["payload"], second["payload_encoding"]) == (raw, "base64")
    again = api.post(f"queues/{vhost}/q/get", {**get, "ackmode": "ack_requeue_false", "truncate": 2}).json
    assert [each["redelivered"] for each in again] == [True, True]
    assert (again[0]["payload"], again[0]["payload_bytes"]) == ("he", 5)
    assert api.post(f"queues/{vhost}/q/get", get).json == []


def test_nobody_publishes_to_an_internal_exchange(api, vhost):
    api.put(f"exchanges/{vhost}/internal", {"type": "fanout", "internal": True})
    message = {"properties": {}, "routing_key": "", "payload": "x", "payload_encoding": "string"}
    reason = f"403 ACCESS_REFUSED - cannot publish to internal exchange 'internal' in vhost '{vhost}'"
    answer = api.post(f"exchanges/{vhost}/internal/publish", message)
    assert error(answer) == (400, "bad_request", reason)


def test_a_message_must_be_whole(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True})
    publish = f"exchanges/{vhost}/amq.default/publish"
    assert api.post(publish, {"routing_key": "q", "payload": "", "payload_encoding": "string"}).status == 400
    assert api.post(f"exchanges/{vhost}/none/publish", {}).status == 404
    assert api.post(f"queues/{vhost}/q/get", {"count": 1, "encoding": "auto", "ackmode": "nonsense"}).status == 400
    assert api.post(f"queues/{vhost}/none/get", {"count": 1, "encoding": "auto", "ackmode": "ack_requeue_true"}).status == 404


# Connections, channels, consumers


def test_connections_channels_and_consumers_are_listed(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_qos(prefetch_count=7)
    channel.confirm_delivery()
    channel.basic_consume("q", lambda *_: None, consumer_tag="ctag", arguments={"x-priority": 3})
    listed = eventually(lambda: api.get(f"vhosts/{vhost}/connections").json)
    name = listed[0]["name"]
    found = eventually(lambda: api.get(f"connections/{quoted(name)}").json)
    assert (found["user"], found["vhost"], found["protocol"]) == (api.user, vhost, "AMQP 0-9-1")
    assert found["user_provided_name"] == f"of {vhost}"
    assert found["client_properties"]["connection_name"] == f"of {vhost}"
    channels = eventually(lambda: api.get(f"connections/{quoted(name)}/channels").json)
    assert channels[0]["name"] == f"{name} (1)"
    detail = eventually(lambda: (lambda a: a.json if a.status == 200 and a.json.get("consumer_details") else None)(
        api.get(f"channels/{quoted(name + ' (1)')}")
    ))
    assert (detail["confirm"], detail["consumer_count"]) == (True, 1)
    consumer = eventually(lambda: api.get(f"consumers/{vhost}").json)[0]
    assert (consumer["consumer_tag"], consumer["prefetch_count"]) == ("ctag", 7)
    assert (consumer["ack_required"], consumer["exclusive"], consumer["arguments"]) == (True, False, {"x-priority": 3})
    assert consumer["queue"] == {"name": "q", "vhost": vhost}


@pytest.mark.parametrize(("reason", "text"), [(None, "Closed via management plugin"), ("spring cleaning",) * 2])
def test_a_connection_is_closed_by_an_operator(api, vhost, connection, reason, text):
    listed = eventually(lambda: api.get(f"vhosts/{vhost}/connections").json)
    headers = {"X_Reason": reason} if reason else {}
    assert api.delete(f"connections/{quoted(listed[0]['name'])}", **headers).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(time_limit=10)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, f"CONNECTION_FORCED - {text}")
    assert api.delete("connections/none").status == 404


def test_numbers_are_exact_once_they_are_there(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "q", b"12345")
    channel.basic_get("q")
    def counted(found):
        is_there = found.get("messages_unacknowledged") == 1 and found.get("message_bytes") and "consumers" in found
        return found if is_there else None

    found = eventually(lambda: counted(api.get(f"queues/{vhost}/q").json))
    assert (found["messages"], found["messages_ready"], found["consumers"]) == (3, 2, 0)
    assert found["message_bytes"] == 15
    stats = eventually(lambda: api.get(f"queues/{vhost}/q").json.get("message_stats"))
    assert (stats["publish"], stats["get"], stats["deliver_get"], stats["ack"]) == (3, 1, 1, 0)


def test_what_no_queue_takes_is_counted_in_its_vhost(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("q")
    channel.queue_declare("q2")
    for queue in ("q", "q2"):
        channel.queue_bind(queue, "amq.fanout")
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"")
    channel.basic_publish("", "nowhere", b"")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("", "nowhere", b"", mandatory=True)

    def counted():
        stats = api.get(f"vhosts/{vhost}").json.get("message_stats", {})
        return stats if stats.get("confirm") == 3 else None

    stats = eventually(counted)
    assert stats is not None, api.get(f"vhosts/{vhost}")
    assert (stats["publish"], stats["drop_unroutable"], stats["return_unroutable"]) == (3, 1, 1)


@pytest.mark.parametrize("other", ["quorum", "stream"])
def test_a_vhost_has_a_type_for_queues_that_ask_for_none(api, vhost, other):
    assert api.put(f"vhosts/{vhost}", {"default_queue_type": other}).status == 204
    types = {}
    for name, flags in {
        "plain": {"durable": True},
        "transient": {"durable": False},
        "with its consumers": {"durable": True, "auto_delete": True},
        "outspoken": {"durable": True, "arguments": {"x-queue-type": "classic"}},
    }.items():
        path = f"queues/{vhost}/{quoted(name)}"
        assert api.put(path, flags).status == 201
        assert api.put(path, flags).status == 204
        types[name] = api.get(path).json["type"]
    assert types == {"plain": other, "transient": "classic", "with its consumers": "classic", "outspoken": "classic"}


# Policies and parameters


def test_a_policy_takes_effect_and_goes(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("jobs")
    channel.confirm_delivery()
    for body in (b"1", b"2", b"3"):
        channel.basic_publish("", "jobs", body)
    policy = {"pattern": "^jobs$", "definition": {"max-length": 1}, "apply-to": "queues", "priority": 2}
    assert api.put(f"policies/{vhost}/p", policy).status == 201
    assert api.put(f"policies/{vhost}/p", policy).status == 204
    assert api.get(f"policies/{vhost}/p").json == {"vhost": vhost, "name": "p", **policy}
    assert eventually(lambda: channel.queue_declare("jobs", passive=True).method.message_count == 1)
    found = eventually(lambda: (lambda q: q if q.get("policy") else None)(api.get(f"queues/{vhost}/jobs").json))
    assert (found["policy"], found["effective_policy_definition"]) == ("p", {"max-length": 1})
    # An operator's word and that of an argument: the lowest counts.
    operator = {"pattern": ".*", "definition": {"max-length": 0}}
    assert api.put(f"operator-policies/{vhost}/o", operator).status == 201
    assert eventually(lambda: channel.queue_declare("jobs", passive=True).method.message_count == 0)
    assert api.delete(f"operator-policies/{vhost}/o").status == 204
    assert api.delete(f"policies/{vhost}/p").status == 204
    assert api.delete(f"policies/{vhost}/p").status == 404

    def takes_two():
        channel.queue_purge("jobs")
        for body in (b"1", b"2"):
            channel.basic_publish("", "jobs", body)
        return channel.queue_declare("jobs", passive=True).method.message_count == 2

    assert eventually(takes_two)


def test_a_policy_with_a_key_that_a_queue_knows_nothing_of_is_not_for_it(api, vhost, connection):
    channel = connection.channel()
    for kind in ("classic", "quorum", "stream"):
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
    for name, priority, definition in (
        ("limited", 2, {"max-length-bytes": 5000, "delivery-limit": 5}),
        ("plain", 1, {"max-length-bytes": 9000}),
    ):
        policy = {"pattern": ".*", "definition": definition, "apply-to": "queues", "priority": priority}
        assert api.put(f"policies/{vhost}/{name}", policy).status == 201
    for kind, name in (("classic", "plain"), ("quorum", "limited"), ("stream", "plain")):
        assert eventually(lambda: with_policy(api.get(f"queues/{vhost}/{kind}").json))["policy"] == name, kind  # noqa: B023


@pytest.mark.parametrize(
    "policy, reasons",
    [
        ({"definition": {}}, ["no policy provided"]),
        ({"definition": {"message-ttl": "1", "a": 1}}, ['<<"1">> is not a valid message TTL']),
        ({"definition": {"b": 1, "a": ["x"]}}, ['[{<<"a">>,[<<"x">>]},{<<"b">>,1}] are not recognised policy settings']),
        (
            {"pattern": 5, "definition": {"max-length": -1}, "priority": "high"},
            [
                "-1 is not a valid maximum length",
                "pattern should be a binary but was 5",
                'priority should be a number, actually was <<"high">>',
            ],
        ),
    ],
)
def test_everything_that_is_wrong_with_a_policy_is_told(api, vhost, policy, reasons):
    refused = api.put(f"policies/{vhost}/p", {"pattern": ".*", **policy})
    assert refused.status == 400
    assert refused.json["reason"] == "Validation failed\n\n" + "".join(reason + "\n" for reason in reasons)


def test_a_policy_names_where_dead_messages_go(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("jobs")
    channel.queue_declare("dead")
    channel.confirm_delivery()
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    assert api.put(f"policies/{vhost}/p", {"pattern": "^jobs$", "definition": definition}).status == 201

    def rejected():
        channel.basic_publish("", "jobs", b"x")
        method, _, _ = channel.basic_get("jobs")
        channel.basic_reject(method.delivery_tag, requeue=False)
        return channel.queue_declare("dead", passive=True).method.message_count > 0

    assert eventually(rejected)


def test_a_policy_limits_deliveries(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("dead")
    definition = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead", "delivery-limit": 1}
    assert api.put(f"policies/{vhost}/p", {"pattern": "^jobs$", "definition": definition}).status == 201
    assert eventually(lambda: with_policy(api.get(f"queues/{vhost}/jobs").json))
    channel.confirm_delivery()
    channel.basic_publish("", "jobs", b"x")

    def rejected():
        method, _, _ = channel.basic_get("jobs")
        if method:
            channel.basic_reject(method.delivery_tag, requeue=True)
        return channel.queue_declare("dead", passive=True).method.message_count == 1

    assert eventually(rejected)
    _, properties, _ = channel.basic_get("dead")
    [death] = properties.headers["x-death"]
    assert death["reason"] == "delivery_limit"


@pytest.mark.beyond
def test_a_policy_holds_back_what_comes_back(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True)
    policy = {"pattern": "^jobs$", "definition": {"retry-min": "1h", "retry-backoff": "fixed"}}
    assert api.put(f"policies/{vhost}/p", policy).status == 201
    channel.confirm_delivery()
    for body in (b"first", b"second"):
        channel.basic_publish("", "jobs", body)
    method, _, _ = channel.basic_get("jobs")
    channel.basic_reject(method.delivery_tag, requeue=True)
    assert channel.basic_get("jobs")[2] == b"second"
    assert channel.basic_get("jobs") == (None, None, None)
    wrong = {"pattern": ".*", "definition": {"retry-min": "soon"}}
    assert api.put(f"policies/{vhost}/q", wrong).status == 400


def test_a_policy_names_an_alternate_exchange(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("rest")
    channel.queue_bind("rest", "amq.fanout")
    channel.exchange_declare("x")
    channel.confirm_delivery()
    policy = {"pattern": "^x$", "definition": {"alternate-exchange": "amq.fanout"}, "apply-to": "exchanges"}
    assert api.put(f"policies/{vhost}/p", policy).status == 201

    def arrives():
        channel.basic_publish("x", "nowhere", b"")
        return channel.queue_declare("rest", passive=True).method.message_count > 0

    assert eventually(arrives)


def test_a_policy_that_cannot_be_is_refused(api, vhost):
    path = f"policies/{vhost}/p"
    status, _, reason = error(api.put(path, {"pattern": ".*", "definition": {"max-lengthx": 1}}))
    assert (status, reason) == (
        400,
        'Validation failed\n\n[{<<"max-lengthx">>,1}] are not recognised policy settings\n',
    )
    assert api.put(path, {"pattern": "(", "definition": {"max-length": 1}}).status == 400
    assert api.put(path, {"pattern": ".*", "definition": {"max-length": -1}}).status == 400
    assert api.put(path, {"pattern": ".*"}).status == 400
    assert api.put(f"operator-policies/{vhost}/o", {"pattern": ".*", "definition": {"dead-letter-exchange": "x"}}).status == 400


def test_global_parameters_come_and_go(api):
    name = f"conformance-{uuid.uuid4()}"
    assert api.put(f"global-parameters/{name}", {"value": {"a": [1, "b"]}}).status == 201
    assert api.get(f"global-parameters/{name}").json == {"name": name, "value": {"a": [1, "b"]}}
    assert name in [each["name"] for each in api.get("global-parameters").json]
    assert api.delete(f"global-parameters/{name}").status == 204
    assert api.delete(f"global-parameters/{name}").status == 404


# Health


@pytest.mark.parametrize(
    "check",
    [
        "alarms",
        "local-alarms",
        "virtual-hosts",
        "is-in-service",
        "ready-to-serve-clients",
        "below-node-connection-limit",
        "protocol-listener/amqp",
        "protocol-listener/amqp091",
        "certificate-expiration/1/months",
    ],
)
def test_a_healthy_broker_says_so(api, check):
    answer = api.get(f"health/checks/{check}")
    assert (answer.status, answer.json["status"]) == (200, "ok")


def test_the_only_node_is_not_critical(api):
    assert api.get("health/checks/node-is-quorum-critical").json == {"status": "ok", "reason": "single node cluster"}


def test_health_of_ports(api, broker):
    assert api.get(f"health/checks/port-listener/{broker.port}").json == {"status": "ok", "port": broker.port}
    answer = api.get("health/checks/port-listener/1")
    assert (answer.status, answer.json["status"], answer.json["missing"]) == (503, "failed", 1)
    assert api.get("health/checks/port-listener/x").status == 400
    answer = api.get("health/checks/protocol-listener/mqtt")
    assert (answer.status, answer.json["missing"]) == (503, ["mqtt"])
    assert api.get("health/checks/certificate-expiration/1/fortnights").status == 400


def test_aliveness(api, vhost):
    assert api.get(f"aliveness-test/{vhost}").json == {"status": "ok"}
    assert api.get("aliveness-test/nowhere").status == 404


# Definitions


def test_definitions_of_a_vhost_go_out_and_in(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True, "arguments": {"x-max-length": 3}})
    api.put(f"queues/{vhost}/transient", {"durable": False, "auto_delete": True})
    api.put(f"exchanges/{vhost}/x", {"type": "topic", "durable": True})
    api.post(f"bindings/{vhost}/e/x/q/q", {"routing_key": "k", "arguments": {"a": "b"}})
    policy = {"pattern": "^q", "definition": {"expires": 1000000}, "apply-to": "queues", "priority": 1}
    api.put(f"policies/{vhost}/p", policy)
    definitions = api.get(f"definitions/{vhost}").json
    assert "q" in [queue["name"] for queue in definitions["queues"]]
    assert [exchange["name"] for exchange in definitions["exchanges"]] == ["x"]
    assert definitions["bindings"] == [
        {"source": "x", "destination": "q", "destination_type": "queue", "routing_key": "k", "arguments": {"a": "b"}}
    ]
    assert definitions["rabbitmq_definition_format"] == "single_virtual_host"
    other = f"conformance-{uuid.uuid4()}"
    api.put(f"vhosts/{other}")
    try:
        assert api.post(f"definitions/{other}", definitions).status == 204
        again = api.get(f"definitions/{other}").json
        for section in ("queues", "exchanges", "bindings", "policies"):
            assert sorted(map(str, again[section])) == sorted(map(str, definitions[section]))
    finally:
        api.delete(f"vhosts/{other}")


@pytest.mark.beyond
def test_an_exchange_that_delays_goes_out_and_in(api, vhost):
    asked = {"type": "x-delayed-message", "durable": True, "arguments": {"x-delayed-type": "topic"}}
    assert api.put(f"exchanges/{vhost}/x", asked).status == 201
    definitions = api.get(f"definitions/{vhost}").json
    assert api.delete(f"exchanges/{vhost}/x").status == 204
    assert api.post(f"definitions/{vhost}", definitions).status == 204
    again = api.get(f"exchanges/{vhost}/x").json
    assert (again["type"], again["arguments"]) == (asked["type"], asked["arguments"])


def test_what_leaves_its_type_open_comes_in_as_what_the_new_vhost_has_for_it(api, vhost):
    api.put(f"vhosts/{vhost}", {"default_queue_type": "quorum"})
    assert api.put(f"queues/{vhost}/q", {"durable": True, "arguments": {"x-queue-type": ""}}).status == 201
    definitions = api.get(f"definitions/{vhost}").json
    [queue] = definitions["queues"]
    assert (queue["type"], queue["arguments"]) == ("quorum", {"x-queue-type": ""})
    other = f"conformance-{uuid.uuid4()}"
    api.put(f"vhosts/{other}", {"default_queue_type": "stream"})
    try:
        assert api.post(f"definitions/{other}", {"queues": definitions["queues"]}).status == 204
        assert api.get(f"queues/{other}/q").json["type"] == "stream"
    finally:
        api.delete(f"vhosts/{other}")


def test_definitions_have_what_does_not_outlive_a_restart_too(api, vhost):
    api.put(f"exchanges/{vhost}/x", {"type": "fanout", "durable": False})
    api.put(f"exchanges/{vhost}/y", {"type": "fanout", "durable": True})
    api.post(f"bindings/{vhost}/e/y/e/x", {"routing_key": "k"})
    definitions = api.get(f"definitions/{vhost}").json
    durable = {exchange["name"]: exchange["durable"] for exchange in definitions["exchanges"]}
    assert durable == {"x": False, "y": True}
    assert [(binding["source"], binding["destination"]) for binding in definitions["bindings"]] == [("y", "x")]


def test_definitions_of_the_whole_broker_have_users_and_vhosts(api, vhost, user):
    name = user("management", vhost).user
    definitions = api.get("definitions").json
    assert name in [each["name"] for each in definitions["users"]]
    assert vhost in [each["name"] for each in definitions["vhosts"]]
    assert {"user": name, "vhost": vhost, "configure": "^mine", "write": ".*", "read": ".*"} in definitions["permissions"]
    download = api.get("definitions?download=d.json")
    assert download.headers["content-disposition"] == "attachment; filename=d.json"


def test_definitions_are_applied(api):
    vhost, name = (f"conformance-{uuid.uuid4()}" for _ in range(2))
    definitions = {
        "users": [{"name": name, "password": "secret", "tags": "management"}],
        "vhosts": [{"name": vhost, "metadata": {"description": "d"}}],
        "permissions": [{"user": name, "vhost": vhost, "configure": "^a", "write": "", "read": ".*"}],
        "topic_permissions": [{"user": name, "vhost": vhost, "exchange": "amq.topic", "write": "a", "read": "b"}],
        "policies": [{"vhost": vhost, "name": "p", "pattern": ".*", "definition": {"max-length": 5}}],
        "parameters": [
            {"vhost": vhost, "component": "vhost-limits", "name": "limits", "value": {"max-queues": 9}},
            {
                "vhost": vhost,
                "component": "operator_policy",
                "name": "o",
                "value": {"pattern": ".*", "definition": {"expires": 10000000}, "apply-to": "queues", "priority": 0},
            }
        ],
        "queues": [{"name": "q", "vhost": vhost}, {"name": "q2", "vhost": vhost, "durable": False, "auto_delete": True}],
        "exchanges": [{"name": "x", "vhost": vhost, "type": "fanout"}],
        "bindings": [
            {"source": "x", "vhost": vhost, "destination": "q", "destination_type": "queue", "routing_key": "k"},
        ],
        "nonsense": 1,
    }
    try:
        assert api.post("definitions", definitions).status == 204
        assert api.as_user(name, "secret").get("whoami").status == 200
        assert api.get(f"vhost-limits/{vhost}").json == [{"vhost": vhost, "value": {"max-queues": 9}}]
        assert api.get(f"permissions/{vhost}/{name}").json["configure"] == "^a"
        queue = eventually(lambda: with_policy(api.get(f"queues/{vhost}/q").json))
        # What is not said is the other way round than for a PUT.
        assert (queue["durable"], queue["auto_delete"]) == (True, False)
        assert queue["effective_policy_definition"] == {"expires": 10000000, "max-length": 5}
        assert len(api.get(f"exchanges/{vhost}/x/bindings/source").json) == 1
        # What exists stays as it is.
        changed = {"queues": [{"name": "q", "vhost": vhost, "durable": False, "auto_delete": True}]}
        assert api.post("definitions", changed).status == 204
        assert api.get(f"queues/{vhost}/q").json["durable"] is True
    finally:
        api.delete(f"vhosts/{vhost}")
        api.delete(f"users/{name}")


def test_definitions_that_cannot_be_are_refused(api):
    assert api.request("POST", "definitions", b"{").status == 400
    assert api.request("POST", "definitions", b"[]").status == 400
    assert api.post("definitions", {}).status == 204
    answer = api.post("definitions", {"queues": [{"name": "q", "vhost": "conformance-nowhere"}]})
    assert answer.status == 400
    assert 'Please create virtual host "conformance-nowhere" prior to importing definitions.' in answer.json["reason"]
    nobody = {"permissions": [{"user": "nobody", "vhost": "/", "configure": "", "write": "", "read": ""}]}
    assert api.post("definitions", nobody).status == 400
    assert api.post("definitions", {"users": [{"name": "x", "password": "y"}]}).status == 400


# What is counted and measured


@pytest.mark.parametrize(
    ("component", "name", "value", "reason"),
    [
        ("policy", "bad", "x", "policies may not be set using this method"),
        ("policy", "bad", {"pattern": "x", "definition": {}}, "policies may not be set using this method"),
        ("operator_policy", "bad", "x", 'Validation failed\n\nbad not a list <<"x">>\n'),
        ("nosuch", "bad", {}, "Validation failed\n\ncomponent nosuch not found\n"),
        ("", "bad", {}, "Validation failed\n\ncomponent  not found\n"),
        ("vhost-limits", "limits", "x", 'Validation failed\n\nlimits not a list <<"x">>\n'),
        ("vhost-limits", "limits", {"n": 1}, 'Validation failed\n\nUnrecognised terms [{<<"n">>,1}] in limits\n'),
    ],
)
def test_parameters_of_definitions_must_be_some(api, vhost, component, name, value, reason):
    parameter = {"component": component, "vhost": vhost, "name": name, "value": value}
    context = f' (vhost: "{vhost}" / component: "{component}" / key: "{name}")'
    for path in ("definitions", f"definitions/{vhost}"):
        answer = api.post(path, {"parameters": [parameter]})
        assert error(answer) == (400, "bad_request", reason + context)
    for path in ("policies", "operator-policies", "parameters", "global-parameters", "definitions"):
        assert api.get(path).status == 200
    assert api.get(f"policies/{vhost}").json == []


def test_limits_that_were_taken_back_are_definitions(api, vhost):
    parameter = {"component": "vhost-limits", "vhost": vhost, "name": "limits", "value": []}
    assert api.post("definitions", {"parameters": [parameter]}).status in (200, 204)
    assert api.get(f"vhost-limits/{vhost}").status == 200


@pytest.mark.beyond
def test_an_upstream_of_definitions_must_be_one(api, vhost):
    upstream = {"component": "federation-upstream", "vhost": vhost, "name": "up", "value": {"nouri": 1}}
    answer = api.post("definitions", {"parameters": [upstream]})
    assert answer.status == 400 and 'Key "uri" not found in up' in answer.json["reason"]


def test_logins_are_counted_by_protocol(api, broker):
    node = quoted(api.get("overview").json["node"])
    broker.connect().close()
    attempts = {known["protocol"]: known for known in api.get(f"auth/attempts/{node}").json}
    for protocol in ["amqp091", "http"]:
        counts = attempts[protocol]
        assert counts["auth_attempts"] == counts["auth_attempts_succeeded"] + counts["auth_attempts_failed"]
        assert counts["auth_attempts_succeeded"] > 0
    failed = attempts["http"]["auth_attempts_failed"]
    assert api.as_user("nobody", "wrong").get("whoami").status == 401
    attempts = {known["protocol"]: known for known in api.get(f"auth/attempts/{node}").json}
    assert attempts["http"]["auth_attempts_failed"] == failed + 1
    assert api.get(f"auth/attempts/{node}/source").json == []
    assert api.get("auth/attempts/nobody").status == 404


def test_a_node_is_measured(api):
    [node] = api.get("nodes").json
    assert 0 < node["mem_used"] < node["mem_limit"]
    assert node["disk_free"] > node["disk_free_limit"] > 0
    assert (node["mem_alarm"], node["disk_free_alarm"]) == (False, False)
    memory = api.get(f"nodes/{quoted(node['name'])}/memory").json["memory"]
    total = memory.pop("total")
    assert memory.pop("strategy") == "rss"
    assert all(isinstance(size, int) for size in memory.values())
    assert total["rss"] > 0
    percent = api.get(f"nodes/{quoted(node['name'])}/memory/relative").json["memory"]
    assert percent["total"] == 100
    assert api.get("nodes/nobody/memory").status == 404


def test_a_channel_tells_what_went_through_it(api, vhost, connection):
    channel = connection.channel()
    channel.queue_declare("q")
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "q", b"1")
    method, _, _ = channel.basic_get("q")
    channel.basic_ack(method.delivery_tag)
    channel.basic_get("q", auto_ack=True)

    def stats():
        connection.process_data_events(time_limit=0)
        channels = api.get(f"vhosts/{vhost}/channels").json
        found = channels[0].get("message_stats", {}) if channels else {}
        return found if found.get("get_no_ack") == 1 else None

    found = eventually(stats)
    assert {name: found[name] for name in ["publish", "confirm", "get", "get_no_ack", "ack", "deliver_get"]} == {
        "publish": 3,
        "confirm": 3,
        "get": 1,
        "get_no_ack": 1,
        "ack": 1,
        "deliver_get": 2,
    }


def test_an_exchange_tells_what_went_through_it(api, vhost, connection):
    channel = connection.channel()
    channel.exchange_declare("x", "fanout")
    for queue in ["q1", "q2"]:
        channel.queue_declare(queue)
        channel.queue_bind(queue, "x")
    assert "message_stats" not in api.get(f"exchanges/{vhost}/x").json
    for _ in range(3):
        channel.basic_publish("x", "", b"1")

    def stats():
        connection.process_data_events(time_limit=0)
        found = api.get(f"exchanges/{vhost}/x").json.get("message_stats", {})
        return found if found.get("publish_out") == 6 else None

    assert eventually(stats)["publish_in"] == 3


def test_samples_are_told_newest_first(api):
    totals = api.get("overview?lengths_age=60&lengths_incr=5&columns=queue_totals").json["queue_totals"]
    details = totals["messages_details"]
    assert len(details["samples"]) == 13
    times = [sample["timestamp"] for sample in details["samples"]]
    assert [newer - older for newer, older in zip(times, times[1:], strict=False)] == [5000] * 12
    assert {"avg", "avg_rate", "rate"} <= set(details)
    assert "samples" not in api.get("overview").json["queue_totals"]["messages_details"]
    refused = api.get("overview?lengths_age=600000&lengths_incr=1")
    assert error(refused) == (400, "bad_request", "Invalid range parameters: age 600000, incr 1")


# How it is sent


def test_long_answers_are_packed_for_those_who_ask(api):
    packed = api.get("overview", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(packed.body))["node"] == api.get("overview").json["node"]
    assert api.get("overview").headers["content-encoding"] is None


def test_pages_of_other_origins_are_not_answered(api):
    answer = api.get("overview", Origin="http://example.org")
    assert answer.headers["access-control-allow-origin"] is None
    options = api.request("OPTIONS", "overview", headers={"Origin": "http://example.org"})
    assert (options.status, options.body) == (200, b"")
    assert {method.strip() for method in options.headers["allow"].split(",")} == {"HEAD", "GET", "OPTIONS"}


def test_definitions_come_in_a_form(api, vhost):
    def form(**fields):
        parts = [
            f'--xx\r\nContent-Disposition: form-data; name="{name}"; filename="f.json"\r\n\r\n{content}\r\n'
            for name, content in fields.items()
        ]
        return "".join([*parts, "--xx--\r\n"]).encode()

    kind = "multipart/form-data; boundary=xx"
    queue = {"name": "of-form", "durable": True, "auto_delete": False, "arguments": {}}
    definitions = json.dumps({"queues": [queue]})
    path = f"definitions/{vhost}"
    assert api.request("POST", path, form(file=definitions), kind=kind).status == 204
    assert api.get(f"queues/{vhost}/of-form").status == 200
    refused = api.request("POST", path, form(other=definitions), kind=kind)
    assert error(refused) == (400, "bad_request", "failed_to_parse_json")


def test_every_protocol_that_is_asked_for_must_be_there(api):
    assert "amqp" in api.get("health/checks/protocol-listener/amqp091").json["protocols"]
    missing = api.get("health/checks/protocol-listener/amqp,mqtt")
    assert (missing.status, missing.json["status"], missing.json["missing"]) == (503, "failed", ["mqtt"])


@pytest.mark.beyond
def test_whoever_asks_learns_that_the_broker_is_ready(api):
    api.user = None
    assert api.get("x/ready").json == {"status": "ok"}


@pytest.mark.beyond
def test_the_api_describes_itself(api):
    description = api.get("x/openapi.json").json
    assert description["openapi"].startswith("3.1")
    queue = description["paths"]["/queues/{vhost}/{queue}"]
    assert set(queue) == {"get", "put", "delete"}
    assert [known["name"] for known in queue["get"]["parameters"]] == ["vhost", "queue"]


def test_the_name_of_the_cluster_is_told_to_the_next_client(api, broker):
    before = api.get("cluster-name").json["name"]
    try:
        assert api.put("cluster-name", {"name": "renamed"}).status == 204
        with broker.connect() as connection:
            assert connection._impl.server_properties["cluster_name"] == "renamed"
    finally:
        api.put("cluster-name", {"name": before})


@pytest.mark.parametrize(
    ("component", "value", "why"),
    [
        ("federation-upstream", {}, 'Key "uri" not found in x'),
        ("federation-upstream", {"uri": None}, "uri should be list, actually was null"),
        ("federation-upstream", {"uri": "amqp://x", "max-hops": "a"}, 'max-hops should be a number, actually was <<"a">>'),
        ("federation-upstream", {"uri": "amqp://x", "foo": 1}, 'Unrecognised terms [{<<"foo">>,1}] in x'),
        ("shovel", {"src-uri": "amqp://", "dest-uri": "amqp://"}, "Must specify 'src-exchange' or 'src-queue'"),
    ],
)
def test_parameters_of_plugins_are_checked(api, vhost, component, value, why):
    refused = api.put(f"parameters/{component}/{vhost}/x", {"value": value})
    if "not found" in refused.json["reason"] and f"component {component}" in refused.json["reason"]:
        pytest.skip(f"not run: this broker has no {component}")
    assert (refused.status, refused.json["reason"]) == (400, f"Validation failed\n\n{why}\n")
