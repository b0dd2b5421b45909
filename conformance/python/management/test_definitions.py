"""What exports of earlier releases contain, and what is wrong with definitions, as RabbitMQ 4.3 takes it."""

import uuid

import pytest

HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


@pytest.fixture
def user(api):
    name = f"definitions-{uuid.uuid4().hex[:8]}"
    yield name
    api.delete(f"users/{name}")


def queue(vhost, name="q", **fields):
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}, **fields}


def arguments_of(api, vhost, name="q"):
    return api.get(f"queues/{vhost}/{name}?disable_stats=true").json["arguments"]


def test_an_export_of_an_early_release_comes_in(api, vhost, user):
    """Tags as a text, limits as lists, no types of queues, arguments that mean nothing any more, operator policies and limits
    among the parameters."""
    policy = {"pattern": "^q", "definition": {"max-length": 7}, "apply-to": "queues", "priority": 1}
    parameters = [
        {"vhost": vhost, "component": "operator_policy", "name": "op", "value": policy},
        {"vhost": vhost, "component": "vhost-limits", "name": "limits", "value": {"max-queues": 99}},
    ]
    old = {"x-queue-mode": "lazy", "x-max-priority": 3}
    document = {
        "rabbit_version": "3.8.9",
        "users": [{"name": user, "password_hash": HASH, "tags": "management,policymaker"}],
        "vhosts": [{"name": vhost, "limits": []}],
        "permissions": [{"user": user, "vhost": vhost, "configure": "^a", "write": "^b", "read": ".*"}],
        "topic_permissions": [{"user": user, "vhost": vhost, "exchange": "amq.topic", "write": "^w", "read": "^r"}],
        "global_parameters": [],
        "policies": [{"vhost": vhost, "name": "p", **policy}],
        "parameters": parameters,
        "queues": [queue(vhost, arguments=old)],
        "exchanges": [{"name": "x", "vhost": vhost, "type": "topic", "durable": True, "auto_delete": False, "arguments": {}}],
        "bindings": [
            {"source": "x", "vhost": vhost, "destination": "q", "destination_type": "queue", "routing_key": "k.#", "arguments": {}}
        ],
    }
    assert api.post("definitions", document).status == 204
    known = api.get(f"users/{user}").json
    assert (known["hashing_algorithm"], known["tags"]) == ("rabbit_password_hashing_sha256", ["management", "policymaker"])
    found = arguments_of(api, vhost)
    assert (found["x-queue-mode"], found["x-max-priority"], found["x-queue-type"]) == ("lazy", 3, "classic")
    assert api.get(f"permissions/{vhost}/{user}").json["write"] == "^b"
    [topic] = api.get(f"topic-permissions/{vhost}/{user}").json
    assert (topic["write"], topic["read"]) == ("^w", "^r")
    assert api.get(f"operator-policies/{vhost}").json[0]["definition"] == {"max-length": 7}
    assert api.get(f"vhost-limits/{vhost}").json == [{"vhost": vhost, "value": {"max-queues": 99}}]
    [binding] = [each for each in api.get(f"bindings/{vhost}").json if each["source"] == "x"]
    assert binding["routing_key"] == "k.#"


@pytest.mark.beyond
def test_a_queue_that_was_told_where_to_be_comes_in(api, vhost):
    """RabbitMQ answers 204 and makes no queue."""
    asked = queue(vhost, arguments={"x-queue-master-locator": "min-masters", "x-max-priority": 3})
    assert api.post("definitions", {"queues": [asked]}).status == 204
    assert arguments_of(api, vhost) == {"x-max-priority": 3, "x-queue-type": "classic"}


def test_the_type_of_a_queue_is_an_argument(api, vhost):
    assert api.post("definitions", {"queues": [queue(vhost, type="quorum"), queue(vhost, "other", type="default")]}).status == 204
    assert arguments_of(api, vhost)["x-queue-type"] == "classic"
    asked = queue(vhost, "asked", type="quorum", arguments={"x-queue-type": "quorum"})
    assert api.post("definitions", {"queues": [asked]}).status == 204
    assert arguments_of(api, vhost, "asked")["x-queue-type"] == "quorum"


def test_a_byte_order_mark_before_definitions_is_nothing(api, vhost):
    text = f'{{"queues": [{{"name": "q", "vhost": "{vhost}"}}]}}'.encode("utf-8-sig")
    assert api.post("definitions", text).status == 204
    assert api.get(f"queues/{vhost}/q").status == 200


def test_the_newer_name_of_the_version_says_how_passwords_were_hashed(api, user):
    users = [{"name": user, "password_hash": HASH, "tags": ""}]
    assert api.post("definitions", {"rabbit_version": "3.8.0", "rabbitmq_version": "3.5.0", "users": users}).status == 204
    assert api.get(f"users/{user}").json["hashing_algorithm"] == "rabbit_password_hashing_md5"


@pytest.mark.parametrize(
    ("section", "item", "reason"),
    [
        (
            "queues",
            {"arguments": {"x-max-priority": "x"}},
            "precondition_failed: invalid arg 'x-max-priority' for queue 'n' in vhost 'VHOST': "
            '"expected integer, got longstr"',
        ),
        (
            "queues",
            {"arguments": {"x-queue-type": "nope"}},
            "precondition_failed: invalid arg 'x-queue-type' for queue 'n' in vhost 'VHOST': \"unsupported queue type 'nope'\"",
        ),
        ("exchanges", {"type": "x-nope"}, "precondition_failed: unknown exchange type 'x-nope'"),
        (
            "policies",
            {"pattern": ".*", "definition": {"nope": 1}},
            'Validation failed\n\n[{<<"nope">>,1}] are not recognised policy settings\n (vhost: "VHOST" key: "n")',
        ),
        (
            "policies",
            {"pattern": ".*", "definition": {}},
            'Validation failed\n\nno policy provided\n (vhost: "VHOST" key: "n")',
        ),
        (
            "parameters",
            {"component": "nope", "value": 1},
            'Validation failed\n\ncomponent nope not found\n (vhost: "VHOST" / component: "nope" / key: "n")',
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(api, vhost, section, item, reason):
    answer = api.post("definitions", {section: [{"name": "n", "vhost": vhost, **item}]})
    told = {"error": "bad_request", "reason": reason.replace("VHOST", vhost)}
    assert (answer.status, answer.json) == (400, told)


def test_queues_beyond_the_limit_of_a_vhost_are_refused_before_one_is_made(api, vhost):
    assert api.put(f"vhost-limits/{vhost}/max-queues", {"value": 2}).status == 204
    api.put(f"queues/{vhost}/there", {"durable": True})
    reason = (
        f'Adding 2 queue(s) to virtual host "{vhost}" would exceed the limit of 2 queue(s).\n\n'
        "This virtual host currently has 1 queue(s) defined.\n\nImport aborted!"
    )
    for path in ("definitions", f"definitions/{vhost}"):
        answer = api.post(path, {"queues": [queue(vhost, name) for name in ("there", "b", "c")]})
        assert (answer.status, answer.json["reason"]) == (400, reason)
    assert [each["name"] for each in api.get(f"queues/{vhost}").json] == ["there"]
    assert api.post("definitions", {"queues": [queue(vhost, "b")]}).status == 204
