"""Tools that people bring along, unmodified: rabbitmqadmin of both generations, Flower, a client of the HTTP API."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import urllib.parse
import urllib.request
import uuid

import celery
import pika
import pytest
from pyrabbit2.api import Client as Pyrabbit
from pyrabbit2.http import HTTPError

from drop_in import tools
from program import Program, eventually

LIMIT_SECS = 30


class Admin:
    """One generation of rabbitmqadmin, told where the broker is."""

    def __init__(self, tool, words):
        self._command, self._environment = tool
        self._words = words

    def __call__(self, *words, stdin=""):
        """Exit code, standard output, standard error."""
        done = subprocess.run(
            [*self._command, *self._words, *words],
            env=os.environ | self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def ok(self, *words, **options):
        code, out, err = self(*words, **options)
        assert code == 0, (words, code, out, err)
        return out


def taken(tool):
    try:
        return tool()
    except tools.NotThere as reason:
        pytest.skip(f"not run: {reason}")


@pytest.fixture(scope="module")
def v1_tool():
    return taken(tools.rabbitmqadmin_v1)


@pytest.fixture(scope="module")
def v2_tool():
    return taken(tools.rabbitmqadmin_v2)


@pytest.fixture
def at(api):
    return urllib.parse.urlsplit(api.base)


@pytest.fixture
def own(api):
    """A name for a vhost and a user of the test's own, which it makes itself."""
    name = f"tools-{uuid.uuid4().hex[:8]}"
    yield name
    api.delete(f"vhosts/{name}")
    api.delete(f"users/{name}")


# The first time a package is downloaded, which depends on the network.
@pytest.mark.timeout(600)
def test_35_the_unmodified_script_of_the_first_generation_works(v1_tool, at, api, broker, own, tmp_path):
    """Unmodified v1 Python script works against the HTTP API."""
    login = ["-H", at.hostname, "-P", str(at.port), "-u", api.user, "-p", api.password]
    admin = Admin(v1_tool, [*login, "-V", own])
    assert admin.ok("declare", "vhost", f"name={own}") == "vhost declared\n"
    assert admin.ok("declare", "user", f"name={own}", "password=s", "tags=management") == "user declared\n"
    rights = ("configure=.*", "write=.*", "read=.*")
    assert admin.ok("declare", "permission", f"vhost={own}", f"user={own}", *rights) == "permission declared\n"
    assert admin.ok("declare", "queue", "name=q", "durable=true", 'arguments={"x-max-length":5}') == "queue declared\n"
    assert admin.ok("declare", "queue", "name=qq", "queue_type=quorum") == "queue declared\n"
    assert admin.ok("declare", "exchange", "name=x", "type=topic") == "exchange declared\n"
    assert admin.ok("declare", "binding", "source=x", "destination=q", "routing_key=k.#") == "binding declared\n"
    policy = ('definition={"max-length":9}', "apply-to=queues", "priority=1")
    assert admin.ok("declare", "policy", "name=p", "pattern=^q", *policy) == "policy declared\n"
    limit = ("declare", "vhost_limit", f"vhost={own}", "name=max-queues", "value=50")
    assert admin.ok(*limit) == "vhost_limit declared\n"

    assert admin.ok("publish", "exchange=x", "routing_key=k.1", "payload=one") == "Message published\n"
    assert admin.ok("publish", "exchange=x", "routing_key=k.2", stdin="two") == "Message published\n"
    assert admin.ok("publish", "routing_key=nowhere", "payload=x") == "Message published but NOT routed\n"
    eventually(
        lambda: admin.ok("-f", "tsv", "-q", "list", "queues", "name", "messages") == "q\t2\nqq\t0\n", "two messages", ""
    )
    out = admin.ok("list", "queues", "name", "durable", "messages", "arguments.x-max-length")
    assert "| q    | True    | 2        | 5" in out
    out = admin.ok("get", "queue=q", "ackmode=ack_requeue_false")
    assert "| k.1 " in out and "| one " in out
    assert admin.ok("purge", "queue", "name=q") == "queue purged\n"

    for kind in ("nodes", "vhosts", "users", "permissions", "connections", "channels", "consumers", "queues", "exchanges",
                 "bindings", "policies", "parameters", "vhost_limits"):
        admin.ok("list", kind)
    assert json.loads(admin.ok("-f", "raw_json", "list", "exchanges", "name", "type"))
    assert "rabbitmq_version" in admin.ok("-f", "long", "show", "overview")

    connection = pika.BlockingConnection(parameters_of(broker, own))
    eventually(lambda: api.get(f"vhosts/{own}/connections").json, "the connection in the list", "")
    listed = json.loads(admin.ok("-f", "raw_json", "list", "connections", "name", "vhost"))
    [name] = [each["name"] for each in listed if each["vhost"] == own]
    assert admin.ok("close", "connection", f"name={name}") == "connection closed\n"
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        while True:
            connection.process_data_events(1)

    exported = tmp_path / "definitions.json"
    assert admin.ok("export", str(exported)).startswith("Exported definitions for ")
    assert {each["name"] for each in json.loads(exported.read_text())["queues"]} == {"q", "qq"}
    assert admin.ok("delete", "queue", "name=q") == "queue deleted\n"
    assert admin.ok("import", str(exported)).startswith(("Imported definitions for ", "Uploaded definitions"))
    assert "q\n" in admin.ok("-f", "tsv", "-q", "list", "queues", "name")

    code, out, err = admin("delete", "queue", "name=none")
    assert (code, out, err.rstrip()) == (1, "", f"*** Not found: /api/queues/{own}/none")
    code, _, err = Admin(v1_tool, [*login[:-1], "wrong"])("list", "queues")
    assert code == 1 and err.startswith("*** Access refused: /api/queues")
    assert admin.ok("delete", "binding", "source=x", "destination=q", "destination_type=queue", "properties_key=k.%23")
    assert admin.ok("delete", "exchange", "name=x") == "exchange deleted\n"
    assert admin.ok("delete", "policy", "name=p") == "policy deleted\n"
    assert admin.ok("delete", "permission", f"vhost={own}", f"user={own}") == "permission deleted\n"
    assert admin.ok("delete", "user", f"name={own}") == "user deleted\n"
    assert admin.ok("delete", "vhost", f"name={own}") == "vhost deleted\n"


def parameters_of(broker, vhost):
    credentials = pika.PlainCredentials(broker.user, broker.password)
    return pika.ConnectionParameters(broker.host, broker.port, vhost, credentials, socket_timeout=10)


@pytest.mark.timeout(600)
def test_35_the_unmodified_binary_of_the_second_generation_works(v2_tool, at, api, own):
    """Unmodified v2 binary works against the HTTP API."""
    login = ["--host", at.hostname, "--port", str(at.port), "--username", api.user, "--password", api.password]
    admin = Admin(v2_tool, [*login, "--vhost", own])
    node = api.get("overview").json["node"]
    everything = ("--configure", ".*", "--read", ".*", "--write", ".*")
    for words in (
        ("vhost", "--name", own),
        ("user", "--name", own, "--password", "s", "--tags", "management"),
        ("permissions", "--user", own, *everything),
        ("queue", "--name", "q", "--type", "classic", "--durable", "true"),
        ("queue", "--name", "qq", "--type", "quorum"),
        ("stream", "--name", "s", "--expiration", "8h", "--max-length-bytes", "1000000"),
        ("exchange", "--name", "x", "--type", "topic", "--durable", "true"),
        ("binding", "--source", "x", "--destination-type", "queue", "--destination", "q", "--routing-key", "k.#"),
        ("policy", "--name", "p", "--pattern", "^q", "--apply-to", "queues", "--definition", '{"max-length": 10}'),
        ("vhost_limit", "--name", "max-queues", "--value", "100"),
        ("user_limit", "--user", own, "--name", "max-channels", "--value", "100"),
    ):
        assert admin("declare", *words) == (0, "", ""), words
    message = ("publish", "message", "--exchange", "x", "--routing-key", "k.1", "--payload", "one")
    assert admin.ok(*message) == "Message published and routed successfully\n"
    out = admin.ok("get", "messages", "--queue", "q", "--count", "1", "--ack-mode", "ack_requeue_true")
    assert "k.1" in out and "one" in out
    for kind in ("nodes", "vhosts", "users", "connections", "channels", "consumers", "queues", "exchanges", "bindings",
                 "policies", "operator_policies", "permissions", "parameters", "vhost_limits", "user_limits", "feature_flags",
                 "deprecated_features", "deprecated_features_in_use"):
        admin.ok("list", kind)
    for words in (("overview",), ("churn",), ("endpoint",), ("memory_breakdown_in_bytes", "--node", node),
                  ("memory_breakdown_in_percent", "--node", node)):
        admin.ok("show", *words)
    for check in ("local_alarms", "cluster_wide_alarms", "node_is_quorum_critical"):
        assert admin.ok("health_check", check) == "health check passed\n"
    assert admin("health_check", "port_listener", "--port", "9")[0] == 69
    assert json.loads(admin.ok("definitions", "export", "--stdout"))["vhosts"]
    assert {each["name"] for each in json.loads(admin.ok("definitions", "export_from_vhost", "--stdout"))["queues"]} == {
        "q",
        "qq",
        "s",
    }
    admin.ok("purge", "queue", "--name", "q")
    admin.ok("rebalance", "queues")
    code, _, err = admin("delete", "queue", "--name", "none")
    assert (code, err) == (65, "API responded with a 404 Not Found\n")
    admin.ok("delete", "queue", "--name", "none", "--idempotently")
    for words in (("policy", "--name", "p"), ("exchange", "--name", "x"), ("queue", "--name", "q"), ("stream", "--name", "s"),
                  ("permissions", "--user", own), ("user", "--name", own), ("vhost", "--name", own)):
        assert admin("delete", *words) == (0, "", ""), words
    assert api.get(f"vhosts/{own}").status == 404


def test_a_client_of_the_http_api_in_python_works(at, api, broker, own):
    client = Pyrabbit(f"{at.hostname}:{at.port}", api.user, api.password)
    assert client.is_alive()
    assert client.get_whoami()["name"] == api.user
    assert client.create_vhost(own) and own in client.get_vhost_names()
    assert client.create_user(own, "secret", "management")
    assert client.set_vhost_permissions(own, own, ".*", ".*", ".*")
    assert [each["vhost"] for each in client.get_user_permissions(own)] == [own]
    client.create_exchange(own, "x", "topic")
    client.create_queue(own, "q", durable=True, arguments={"x-max-length": 5})
    client.create_binding(own, "x", "q", "k.#")
    assert client.publish(own, "x", "k.1", "payload", properties={"delivery_mode": 2}) is True
    eventually(lambda: client.get_queue_depth(own, "q") == 1, "one message", "")
    [message] = client.get_messages(own, "q", count=1, requeue=False)
    assert (message["payload"], message["properties"]["delivery_mode"]) == ("payload", 2)
    client.purge_queue(own, "q")
    assert {each["name"] for each in client.get_queues(own)} == {"q"}
    assert "x" in {each["name"] for each in client.get_exchanges(own)}
    assert "k.#" in {each["routing_key"] for each in client.get_bindings()}
    assert client.get_overview()["rabbitmq_version"]
    [node] = client.get_nodes()
    assert node["running"] is True
    client.delete_queue(own, "q")
    with pytest.raises(HTTPError) as missing:
        client.get_queue(own, "q")
    assert missing.value.status == 404
    client.delete_exchange(own, "x")
    client.delete_user(own)
    client.delete_vhost(own)


def free_port():
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


def test_flower_sees_workers_and_queues(api, broker, own, tmp_path):
    """Celery Flower against AMQP and the HTTP API."""
    assert api.put(f"vhosts/{own}").status == 201
    url = f"amqp://{broker.user}:{broker.password}@{broker.host}:{broker.port}/{own}"
    (tmp_path / "flowery.py").write_text(
        f"import celery\napp = celery.Celery('flowery', broker={url!r}, backend='rpc://')\n"
        "app.conf.task_default_queue = 'tasks'\n"
        "@app.task(name='add')\ndef add(a, b):\n    return a + b\n"
    )
    # Celery takes a BROKER_URL of the environment for its own.
    environment = {name: value for name, value in os.environ.items() if name != "BROKER_URL"}
    environment |= {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "FLOWER_UNAUTHENTICATED_API": "1"}
    port = free_port()
    management = f"http://{api.user}:{api.password}@{urllib.parse.urlsplit(api.base).netloc}/api/"
    command = [sys.executable, "-m", "celery", "-A", "flowery"]
    worker = Program(
        "worker", [*command, "worker", "--pool=solo", "--events", "--hostname=w@here", "-l", "info"], environment, tmp_path
    )
    flower = Program(
        "flower",
        [*command, "flower", f"--broker-api={management}", f"--port={port}", "--address=127.0.0.1"],
        environment,
        tmp_path,
    )

    def ask(path):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/{path}", timeout=10) as answer:
            return json.loads(answer.read())
        return None

    try:
        worker.wait_for(r"w@here ready")
        app = celery.Celery("asks", broker=url, backend="rpc://")
        app.conf.task_default_queue = "tasks"
        assert app.send_task("add", (1, 2)).get(timeout=20) == 3
        eventually(lambda: ask("workers?refresh=1") and "w@here" in ask("workers"), "Flower knows the worker", flower)
        eventually(
            lambda: any(each["state"] == "SUCCESS" for each in (ask("tasks") or {}).values()) or app.send_task("add", (1, 2)) is None,
            "Flower saw a task succeed",
            flower,
        )
        [queue] = ask("queues/length")["active_queues"]
        assert (queue["name"], queue["messages"]) == ("tasks", 0)
        app.close()
    finally:
        flower.kill()
        worker.kill()
