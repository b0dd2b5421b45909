"""What is answered to names that nothing has and to methods that a path does not take."""

import json
import uuid

import pytest

from http_api import quoted

NOWHERE = "conformance-no-such-vhost"
NOBODY = "conformance-nobody"
OBJECT_NOT_FOUND = (404, "Object Not Found", "Not Found")
NO_VHOST = (404, "not_found", "vhost_not_found")
NO_EXCHANGE = (404, "not_found", "exchange_not_found")
NO_QUEUE = (404, "not_found", "queue_not_found")
NO_ENDS = (400, "bad_request", "vhost_or_user_not_found")


def told(answer):
    return answer.status, answer.json["error"], answer.json["reason"]


def bad(reason):
    return 400, "bad_request", reason


@pytest.fixture
def user(api):
    name = f"conformance-{uuid.uuid4()}"
    api.put(f"users/{name}", {"password": "secret", "tags": ""})
    yield name
    api.delete(f"users/{name}")


@pytest.mark.parametrize("path", ["no-such-thing", "no/such/thing", "queues/v/q/no-such-thing", "users/guest/no"])
def test_a_path_that_nobody_knows_could_only_be_read(api, path):
    assert told(api.get(path)) == OBJECT_NOT_FOUND
    for method in ("PUT", "POST", "DELETE"):
        answer = api.request(method, path, None if method == "DELETE" else {})
        assert (answer.status, answer.body) == (405, b""), (method, answer)
        assert set(answer.headers["allow"].split(", ")) == {"HEAD", "GET", "OPTIONS"}
    assert api.request("OPTIONS", path).status == 200


@pytest.mark.parametrize(
    "path",
    [
        f"bindings/{NOWHERE}/e/x/q/q",
        f"bindings/{NOWHERE}/e/x/e/y",
        f"exchanges/{NOWHERE}/x/bindings/source",
        f"exchanges/{NOWHERE}/x/bindings/destination",
        f"queues/{NOWHERE}/q/bindings",
        f"users/{NOBODY}/queues",
    ],
)
def test_lists_of_what_is_not_there_are_empty(api, path):
    answer = api.get(path)
    assert (answer.status, answer.json) == (200, [])


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", f"definitions/{NOWHERE}", None, bad("vhost_not_found")),
        ("POST", f"definitions/{NOWHERE}", b"{}", NO_VHOST),
        ("POST", f"definitions/{NOWHERE}", b"nonsense", bad("failed_to_parse_json")),
        ("DELETE", f"vhosts/{NOWHERE}/deletion/protection", None, OBJECT_NOT_FOUND),
        ("GET", "healthchecks/node/no-such-node", None, OBJECT_NOT_FOUND),
        ("GET", "health/checks/certificate-expiration/soon/months", None, bad("Invalid expiration value.")),
        ("PUT", "feature-flags/no-such-flag/enable", b"{}", bad("unsupported")),
        ("POST", f"vhosts/{NOWHERE}/start/no-such-node", b"{}", bad("Unknown node: no-such-node")),
        ("PUT", f"user-limits/{NOBODY}/max-channels", b'{"value": 1}', bad(["no_such_user", NOBODY])),
        ("PUT", f"user-limits/{NOBODY}/max-channels", b"{}", bad("[{key_missing,value}]")),
        ("DELETE", f"user-limits/{NOBODY}/max-channels", None, NO_VHOST),
        ("PUT", f"vhost-limits/{NOWHERE}/max-queues", b'{"value": 1}', NO_VHOST),
        ("DELETE", f"vhost-limits/{NOWHERE}/max-queues", None, NO_VHOST),
        # What is not there is told before the body is looked at.
        ("PUT", f"queues/{NOWHERE}/q", b"nonsense", NO_VHOST),
        ("POST", f"queues/{NOWHERE}/q/get", b"nonsense", NO_VHOST),
        ("POST", f"queues/{NOWHERE}/q/actions", b"nonsense", NO_VHOST),
        ("POST", "queues/%2F/no-such-queue/get", b"nonsense", NO_QUEUE),
        ("POST", "queues/%2F/no-such-queue/actions", b"nonsense", NO_QUEUE),
        ("PUT", f"exchanges/{NOWHERE}/x", b"nonsense", NO_VHOST),
        ("POST", "exchanges/%2F/no-such-exchange/publish", b"nonsense", NO_EXCHANGE),
        ("PUT", f"permissions/{NOWHERE}/guest", b"nonsense", NO_ENDS),
        ("PUT", f"topic-permissions/{NOWHERE}/guest/x", b"nonsense", NO_ENDS),
        ("PUT", f"parameters/no-such-component/{NOWHERE}/p", b"nonsense", NO_VHOST),
        ("PUT", "parameters/no-such-component/%2F/p", b"nonsense", bad("not_json")),
        ("PUT", "parameters/no-such-component/%2F/p", b"{}", bad("[{key_missing,value}]")),
        (
            "PUT",
            "parameters/no-such-component/%2F/p",
            b'{"value": 1}',
            bad("Validation failed\n\ncomponent no-such-component not found\n"),
        ),
    ],
)
def test_what_is_not_there_is_told_as_the_request_has_it(api, method, path, body, expected):
    assert told(api.request(method, path, body)) == expected


def test_quorum_queues_of_a_vhost_that_is_not_there_lack_no_leader(api):
    path = f"health/checks/quorum-queues-without-elected-leaders/vhost/{NOWHERE}"
    for path in (path, f"{path}/pattern/q"):
        answer = api.get(path)
        assert (answer.status, answer.json["status"]) == (200, "ok")


@pytest.mark.parametrize(("value", "shown"), [("x", '<<"x">>'), ("5", '<<"5">>'), (1.5, "1.5"), (True, "true")])
def test_a_limit_is_a_number(api, vhost, user, value, shown):
    wrong = f"max-queues should be a number, actually was {shown}"
    answer = api.put(f"vhost-limits/{vhost}/max-queues", {"value": value})
    assert told(answer) == bad(f"Validation failed\n\n{wrong}\n")
    answer = api.put(f"user-limits/{user}/max-channels", {"value": value})
    assert told(answer) == bad(f"max-channels should be a number, actually was {shown}")


def test_a_limit_that_is_none_can_be_removed_and_not_be_set(api, vhost, user):
    terms = 'Unrecognised terms [{<<"no-limit">>,5}] in'
    answer = api.put(f"vhost-limits/{vhost}/no-limit", {"value": 5})
    assert told(answer) == bad(f"Validation failed\n\n{terms} limits\n")
    assert told(api.put(f"user-limits/{user}/no-limit", {"value": 5})) == bad(f"{terms} user-limits")
    assert api.delete(f"vhost-limits/{vhost}/no-limit").status == 204
    assert api.delete(f"user-limits/{user}/no-limit").status == 204


def test_a_vhost_is_started_on_its_node_only(api, vhost):
    node = api.get("overview").json["node"]
    assert api.post(f"vhosts/{vhost}/start/{quoted(node)}").status == 204
    answer = api.post(f"vhosts/{NOWHERE}/start/{quoted(node)}")
    # Erlang breaks a long term into lines.
    status, _, reason = told(answer)
    wanted = f'Request to node {node} failed with {{no_such_vhost,<<"{NOWHERE}">>}}'
    assert (status, "".join(reason.split())) == (400, "".join(wanted.split()))


def test_mirrored_queues_have_no_actions_any_more(api, vhost):
    api.put(f"queues/{vhost}/q", {"durable": True})
    assert told(api.post(f"queues/{vhost}/q/actions", {})) == bad("[{key_missing,action}]")
    answer = api.post(f"queues/{vhost}/q/actions", {"action": "sync"})
    assert answer.status == 400 and json.loads(answer.body)["reason"] == ["unknown", "sync"]
