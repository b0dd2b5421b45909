"""Replicas of quorum queues where there is one node: all of them are there, and the last one stays."""

import pytest

UNAVAILABLE = (503, "service_unavailable")


@pytest.fixture
def queues(api, vhost):
    for name, kind in (("replicated", "quorum"), ("plain", "classic"), ("log", "stream")):
        assert api.put(f"queues/{vhost}/{name}", {"durable": True, "arguments": {"x-queue-type": kind}}).status == 201
    return f"queues/quorum/{vhost}"


@pytest.fixture
def node(api):
    return api.get("overview").json["node"]


def told(answer):
    return answer.status, answer.json["error"], answer.json["reason"]


def test_a_quorum_queue_tells_of_its_replica(api, queues, node):
    [replica] = api.get(f"{queues}/replicated/status").json
    assert (replica["Node Name"], replica["Raft State"], replica["Membership"]) == (node, "leader", "voter")
    assert (replica["Machine Version"], replica["Term"]) == (8, 1)
    assert len(replica) == 10
    for name, reason in (("plain", "classic_queue_not_supported"), ("log", "not_quorum_queue")):
        answer = api.get(f"{queues}/{name}/status")
        assert (answer.status, answer.json) == (503, {"status": "failed", "reason": reason})
    assert api.get(f"{queues}/none/status").status == 404
    assert api.put(f"{queues}/replicated/status").status == 405


def test_a_replica_that_is_there_is_added_and_the_last_one_stays(api, queues, node):
    here, elsewhere = {"node": node}, {"node": "none@nowhere"}
    add, delete = f"{queues}/replicated/replicas/add", f"{queues}/replicated/replicas/delete"
    assert api.post(add, here).status == 204
    assert told(api.post(add, {})) == (400, "bad_request", "[{key_missing,node}]")
    assert told(api.post(add, elsewhere)) == (400, "bad_request", "Node is not a cluster member")
    assert told(api.post(f"{queues}/plain/replicas/add", here)) == (*UNAVAILABLE, "classic_queue_not_supported")
    assert told(api.post(f"{queues}/none/replicas/add", here)) == (*UNAVAILABLE, "not_found")
    assert told(api.request("DELETE", delete, here)) == (*UNAVAILABLE, "last_node")
    assert told(api.request("DELETE", delete, elsewhere)) == (400, "bad_request", "Node is not a cluster member")
    assert api.request("DELETE", f"{queues}/none/replicas/delete", here).status == 404


def test_a_node_has_all_replicas_there_can_be(api, queues, node):
    grow = f"queues/quorum/replicas/on/{node}/grow"
    assert api.post(grow, {"vhost_pattern": "^none$", "queue_pattern": "^none$", "strategy": "all"}).status == 204
    reason = "[{key_missing,vhost_pattern},\n {key_missing,queue_pattern},\n {key_missing,strategy}]"
    assert told(api.post(grow, {})) == (400, "bad_request", reason)
    assert api.delete("queues/quorum/replicas/on/none@nowhere/shrink").status == 404
