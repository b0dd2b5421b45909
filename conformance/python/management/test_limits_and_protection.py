"""Limits of vhosts as parameters, and users that are protected: as RabbitMQ has them."""

import uuid

import pytest


@pytest.fixture
def limited(vhost, api):
    return api, f"parameters/vhost-limits/{vhost}"


def test_limits_of_a_vhost_are_parameters(limited, vhost):
    api, path = limited
    assert api.put(f"{path}/limits", {"value": {"max-queues": 5}}).status == 201
    [known] = api.get(path).json
    assert known == {"component": "vhost-limits", "vhost": vhost, "name": "limits", "value": {"max-queues": 5}}
    assert api.put(f"{path}/limits", {"value": {"max-connections": 7}}).status == 204
    assert api.get(f"vhost-limits/{vhost}").json == [{"vhost": vhost, "value": {"max-connections": 7}}]
    assert api.delete(f"{path}/limits").status == 204
    assert api.delete(f"{path}/limits").status == 404
    assert api.get(f"vhost-limits/{vhost}").json == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"max-nonsense": 1}, 'Unrecognised terms [{<<"max-nonsense">>,1}] in limits'),
        ({"max-queues": "a"}, 'max-queues should be a number, actually was <<"a">>'),
        (3, "limits not a list 3"),
    ],
)
def test_what_is_no_limit_is_refused(limited, value, reason):
    api, path = limited
    answer = api.put(f"{path}/limits", {"value": value})
    assert answer.status == 400
    assert answer.json == {"error": "bad_request", "reason": f"Validation failed\n\n{reason}\n"}


def test_protected_users_stay(api):
    name = f"protected-{uuid.uuid4().hex[:8]}"
    refused = {"error": "bad_request", "reason": "Protected users cannot be modified via the HTTP API"}
    assert api.put(f"users/{name}", {"password": "x", "tags": "protected"}).status == 201
    for answer in (api.put(f"users/{name}", {"password": "y", "tags": ""}), api.delete(f"users/{name}")):
        assert (answer.status, answer.json) == (400, refused)
    assert api.post("users/bulk-delete", {"users": [name]}).status == 204
    assert api.get(f"users/{name}").json["tags"] == ["protected"]
    # An import is the way out.
    assert api.post("definitions", {"users": [{"name": name, "password": "x", "tags": []}]}).status in (200, 204)
    assert api.delete(f"users/{name}").status == 204


def test_everybody_may_read_their_own_limits(api):
    own, other = (f"limits-{uuid.uuid4().hex[:8]}" for _ in range(2))
    for name in (own, other):
        assert api.put(f"users/{name}", {"password": "x", "tags": "management"}).status == 201
        assert api.put(f"user-limits/{name}/max-channels", {"value": 7}).status == 204
    visitor = api.as_user(own, "x")
    assert visitor.get(f"user-limits/{own}").json == [{"user": own, "value": {"max-channels": 7}}]
    refused = {"error": "not_authorised", "reason": "User not authorised to access object"}
    for path in (f"user-limits/{other}", "user-limits/nobody-of-that-name"):
        answer = visitor.get(path)
        assert (answer.status, answer.json) == (401, refused)
    assert visitor.get("user-limits").status == 401
    for name in (own, other):
        assert api.delete(f"users/{name}").status == 204
