"""Every method and every route against every right; docs/rights.md is the table."""

import contextlib
import os
import time
import uuid

import pika
import pytest

import rights
from frames.client import Connection, ConnectionClosed, Endpoint
from frames.wire import METHODS
from http_api import quoted

PASSWORD = "rights-password"
PATIENCE_SECS = 30
REFUSED = (401, 403)

# Whoever has no tag may still have rights, and the other way round.
VISITORS = {
    "nobody": None,
    "no tag": "",
    "management": "management",
    "no right": "management",
    "policymaker": "policymaker",
    "monitoring": "monitoring",
    "administrator": "administrator",
    "other vhost": "management,policymaker",
}

NEEDS = {
    "For everybody.": "nothing",
    "For users with any of the tags of management.": "management",
    "For policymakers and administrators.": "policymaker",
    "For users who monitor, and administrators.": "monitoring",
    "For administrators.": "administrator",
}

# Answered by plugins that the oracle has not, or by nobody but Leveret.
NOT_IN_RABBITMQ = ("x/", "federation-links", "shovels")

# The administrator's own call would take the broker away from the tests, or change what all others see of it.
UNTRIED = {
    "queues/quorum/replicas/on/{node}/shrink",
    "x/node/alarms/{alarm}",
    "x/node/channel-max",
    "x/node/close-connections",
    "x/node/disk-free-limit",
    "x/node/log-level",
    "x/node/loopback-users",
    "x/node/memory-limit",
    "x/node/plugins",
    "x/node/reset",
    "x/node/start-app",
    "x/node/stop",
    "x/node/stop-app",
}
# From nowhere to nowhere: what RabbitMQ may make of it finds no broker.
SHOVEL = {"src-uri": "amqp://127.0.0.1:1", "src-queue": "q", "dest-uri": "amqp://127.0.0.1:1", "dest-queue": "q"}

# With these the administrator ends somebody's connection.
ENDS_CONNECTIONS = ("connections/{name}", "connections/username/{user}", "vhosts/{vhost}", "users/{user}")


def is_writing():
    return os.environ.get("WRITE_RIGHTS") == "1"


def eventually(condition):
    deadline = time.monotonic() + PATIENCE_SECS
    while not (found := condition()):
        assert time.monotonic() < deadline, "still not so"
        time.sleep(0.05)
    return found


def compare(title, rows, keys):
    """What was seen against what is written; says each difference in a line."""
    if is_writing():
        rights.write(title, rows)
        return
    written = {tuple(row[key] for key in keys): row for row in rights.read(title)}
    seen = {tuple(row[key] for key in keys): row for row in rows}
    wrong = [f"{' '.join(key)}: no row in docs/rights.md" for key in seen.keys() - written.keys()]
    for key, row in seen.items():
        for column, cell in row.items():
            wanted = written.get(key, row)[column]
            if cell != wanted:
                wrong.append(f"{' '.join(key)}, {column}: {cell} instead of {wanted}")
    assert not wrong, "\n".join(sorted(wrong))


# --- HTTP -----------------------------------------------------------------------------------------------------------


class House:
    """A vhost with one of everything in it, and a user for every kind of visitor."""

    def __init__(self, broker, api):
        self.broker, self.api = broker, api
        self.id = uuid.uuid4().hex[:12]
        self.vhost, self.elsewhere = f"rights-{self.id}", f"elsewhere-{self.id}"
        self.somebody = f"somebody-{self.id}"
        self.node = api.get("overview").json["node"]
        self.cluster = api.get("cluster-name").json["name"]
        self.flag = next(flag["name"] for flag in api.get("feature-flags").json if flag["state"] == "enabled")
        self._client = None
        for vhost in (self.vhost, self.elsewhere):
            self.put(f"vhosts/{vhost}", {})
        self.visitors = {}
        for visitor, tags in VISITORS.items():
            if tags is None:
                self.visitors[visitor] = NoCredentials(broker.http_url)
                continue
            name = self.user_of(visitor)
            self.put(f"users/{name}", {"password": PASSWORD, "tags": tags})
            pattern = "^$" if visitor == "no right" else ".*"
            vhost = self.elsewhere if visitor == "other vhost" else self.vhost
            self.allow(vhost, name, pattern)
            self.visitors[visitor] = api.as_user(name, PASSWORD)
        self.furnish()

    def user_of(self, visitor):
        return f"{visitor.replace(' ', '-')}-{self.id}"

    def put(self, path, body):
        answer = self.api.put(path, body)
        assert answer.status in (201, 204), (path, answer)

    def allow(self, vhost, user, pattern):
        self.put(f"permissions/{vhost}/{user}", dict.fromkeys(("configure", "write", "read"), pattern))

    def furnish(self):
        """Puts back whatever a visitor may have taken away."""
        vhost = self.vhost
        self.put(f"vhosts/{vhost}", {})
        self.put(f"users/{self.somebody}", {"password": PASSWORD, "tags": ""})
        self.allow(vhost, self.somebody, ".*")
        for visitor in VISITORS:
            if visitor not in ("nobody", "other vhost"):
                self.allow(vhost, self.user_of(visitor), "^$" if visitor == "no right" else ".*")
        self.put(f"queues/{vhost}/q", {})
        self.put(f"queues/{vhost}/replicated", {"durable": True, "arguments": {"x-queue-type": "quorum"}})
        for exchange in ("x", "x2"):
            self.put(f"exchanges/{vhost}/{exchange}", {"type": "topic"})
        for path in (f"bindings/{vhost}/e/x/q/q", f"bindings/{vhost}/e/x/e/x2"):
            assert self.api.post(path, {"routing_key": "k"}).status == 201
        self.put(f"policies/{vhost}/p", {"pattern": "^none$", "definition": {"max-length": 9}})
        self.put(f"operator-policies/{vhost}/p", {"pattern": "^none$", "definition": {"max-length": 9}})
        self.put(f"topic-permissions/{vhost}/{self.somebody}", {"exchange": "x", "write": ".*", "read": ".*"})
        self.put(f"parameters/shovel/{vhost}/s", {"value": SHOVEL})
        self.put(f"vhost-limits/{vhost}/max-connections", {"value": 900})
        self.put(f"user-limits/{self.somebody}/max-connections", {"value": 900})
        self.put(f"global-parameters/rights-{self.id}", {"value": "v"})
        if self._client is None or not self.is_connected():
            self.connect()

    def connect(self):
        """A connection of somebody's with a channel and a consumer, once the API shows them."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.close()
        parameters = pika.ConnectionParameters(
            self.broker.host,
            self.broker.port,
            self.vhost,
            pika.PlainCredentials(self.somebody, PASSWORD),
            socket_timeout=10,
        )
        self._client = pika.BlockingConnection(parameters)
        self.tag = self._client.channel().basic_consume("q", print)
        connections = eventually(lambda: self.shown("connections"))
        self.connection = connections[0]["name"]
        self.channel = eventually(lambda: self.shown("channels"))[0]["name"]
        eventually(lambda: self.api.get(f"connections/{quoted(self.connection)}").status == 200)
        eventually(lambda: self.api.get(f"channels/{quoted(self.channel)}").status == 200)
        eventually(lambda: self.api.get(f"consumers/{self.vhost}").json)

    def shown(self, what):
        """Those of a connection that lives; RabbitMQ shows closed ones for a while."""
        answer = self.api.get(f"vhosts/{self.vhost}/{what}")
        here = self._client._impl._transport._sock.getsockname()[1]
        listed = answer.json if answer.status == 200 else []
        return [one for one in listed if f":{here} ->" in one.get("name", "") and one.get("user") == self.somebody]

    def is_connected(self):
        try:
            self._client.process_data_events(0)
        except (pika.exceptions.AMQPError, ValueError):
            # The second is how pika says that it is closed already.
            return False
        return self._client.is_open

    def tear_down(self):
        with contextlib.suppress(Exception):
            self._client.close()
        # The last row about it protected it.
        self.api.delete(f"vhosts/{self.vhost}/deletion/protection")
        for vhost in (self.vhost, self.elsewhere):
            assert self.api.delete(f"vhosts/{vhost}").status == 204
        for user in [self.somebody, *(self.user_of(visitor) for visitor in VISITORS)]:
            self.api.delete(f"users/{user}")
        self.api.delete(f"global-parameters/rights-{self.id}")
        self.api.put("cluster-name", {"name": self.cluster})

    def path(self, route):
        words = {
            "alarm": "memory",
            "channel": "1",
            "component": "shovel",
            "connection": self.connection,
            "destination": "x2",
            "exchange": "x",
            "filter": "management",
            "flag": self.flag,
            "limit": "max-connections",
            "node": self.node,
            "number": "1",
            "password": "secret",
            "pattern": "^none$",
            "port": str(self.broker.port),
            "props": "k",
            "protocols": "amqp",
            "queue": "q",
            "source": "x",
            "tag": self.tag,
            "unit": "weeks",
            "user": self.somebody,
            "vhost": self.vhost,
        }
        names = {
            "channels": self.channel,
            "connections": self.connection,
            "global-parameters": f"rights-{self.id}",
            "operator-policies": "p",
            "parameters": "s",
            "policies": "p",
        }
        if route.startswith("queues/quorum/"):
            words["queue"] = "replicated"
        words["name"] = names.get(route.split("/")[0])
        parts = []
        for part in route.split("/"):
            parts.append(quoted(words[part[1:-1]]) if part.startswith("{") else part)
        return "/".join(parts)

    def body(self, method, route):
        if method not in ("PUT", "POST"):
            return None
        policy = {"pattern": "^none$", "definition": {"max-length": 9}}
        allowed = dict.fromkeys(("configure", "write", "read"), ".*")
        exact = {
            "cluster-name": {"name": self.cluster},
            "exchanges/{vhost}/{exchange}": {"type": "topic"},
            "exchanges/{vhost}/{exchange}/publish": {
                "routing_key": "nowhere",
                "payload": "",
                "payload_encoding": "string",
                "properties": {},
            },
            "global-parameters/{name}": {"value": "v"},
            "operator-policies/{vhost}/{name}": policy,
            "parameters/{component}/{vhost}/{name}": {"value": SHOVEL},
            "permissions/{vhost}/{user}": allowed,
            "policies/{vhost}/{name}": policy,
            "queues/quorum/{vhost}/{queue}/replicas/add": {"node": self.node},
            "queues/quorum/replicas/on/{node}/grow": {"vhost_pattern": "^none$", "queue_pattern": "^none$", "strategy": "all"},
            "queues/{vhost}/{queue}/get": {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"},
            "topic-permissions/{vhost}/{user}": {"exchange": "amq.topic", "write": ".*", "read": ".*"},
            "user-limits/{user}/{limit}": {"value": 900},
            "users/bulk-delete": {"users": []},
            "users/{user}": {"password": PASSWORD, "tags": ""},
            "vhost-limits/{vhost}/{limit}": {"value": 900},
        }
        return exact.get(route, {"routing_key": "k"} if route.startswith("bindings/") else {})


class NoCredentials:
    """A visitor who says nothing of who they are."""

    def __init__(self, url):
        import http_api

        self._api = http_api.Api(url)
        self._api.user = None

    def request(self, *arguments, **options):
        return self._api.request(*arguments, **options)


def ask(house, visitor, method, route):
    if route == "login":
        form = f"username={house.user_of('management')}&password={PASSWORD}".encode()
        return visitor.request("POST", "login", form, kind="application/x-www-form-urlencoded")
    return visitor.request(method, house.path(route), house.body(method, route))


def try_route(house, row):
    """Fills the cells of a row."""
    method, route = row["method"], row["route"]
    whole = None
    cells = {}
    # The administrator first: what they see is all there is to see.
    for name in sorted(VISITORS, key=lambda name: name != "administrator"):
        if name == "administrator" and method != "GET" and route in UNTRIED:
            cells[name] = "untried"
            continue
        answer = ask(house, house.visitors[name], method, route)
        if name == "administrator":
            whole = answer
        if name == "administrator" and (answer.status in (404, 405)):
            cells[name] = f"{answer.status}, as if it were not there"
        elif answer.status in REFUSED or b"403 ACCESS_REFUSED" in answer.body:
            cells[name] = "no"
        elif answer.status == 404:
            cells[name] = "404"
        else:
            assert answer.status < 500, (method, route, name, answer)
            marks = [mark.encode() for mark in (house.vhost, house.somebody) if mark.encode() in whole.body]
            is_whole = method != "GET" or all(mark in answer.body for mark in marks)
            cells[name] = "yes" if is_whole else "without"
        if method == "DELETE" and cells[name] == "yes":
            if route in ENDS_CONNECTIONS and name == "administrator":
                eventually(lambda: not house.is_connected())
            if route.startswith("x/consumers/"):
                house.connect()
            house.furnish()
    return {**row, **{name: cells[name] for name in VISITORS}}


@pytest.fixture(scope="module")
def house(broker):
    import http_api

    if broker.http_url is None:
        pytest.skip("not run: needs the HTTP API, and neither BROKER_HTTP_URL nor a control command says where it is")
    house = House(broker, http_api.Api(broker.http_url))
    yield house
    house.tear_down()


def routes_of(broker, house):
    """The rows to fill: those Leveret names itself, or for RabbitMQ those that are written."""
    if broker.is_rabbitmq:
        return [{key: row[key] for key in ("method", "route", "needs")} for row in rights.read("HTTP API")]
    described = house.api.get("x/openapi.json").json["paths"]
    return [
        {"method": method.upper(), "route": path[1:], "needs": NEEDS[operation["description"]]}
        for path, methods in described.items()
        for method, operation in methods.items()
    ]


@pytest.mark.timeout(300)
def test_every_route_asks_every_visitor_for_their_right(broker, house):
    seen = []
    for row in routes_of(broker, house):
        if broker.is_rabbitmq and row["route"].startswith(NOT_IN_RABBITMQ):
            continue
        seen.append(try_route(house, row))
    assert len(seen) > 140
    compare("HTTP API", seen, ("method", "route"))


def test_no_row_is_about_a_route_that_is_gone(broker, house):
    written = {(row["method"], row["route"]) for row in rights.read("HTTP API")}
    there = {(row["method"], row["route"]) for row in routes_of(broker, house)}
    assert written == there


def test_what_is_said_to_be_leverets_only_is_not_in_rabbitmq(broker, house):
    for row in rights.read("HTTP API"):
        if row["route"].startswith(NOT_IN_RABBITMQ) and broker.is_rabbitmq:
            assert ask(house, house.api, row["method"], row["route"]).status in (404, 405), row


# --- AMQP -----------------------------------------------------------------------------------------------------------

RIGHTS = {
    "none": (),
    "configure": ("configure",),
    "write": ("write",),
    "read": ("read",),
    "all": ("configure", "write", "read"),
    "exclusive": ("configure", "write", "read"),
}

FROM_THE_BROKER = {
    *(name for name in METHODS if name.endswith("-ok") and not name.startswith(("connection.", "channel."))),
    "basic.deliver",
    "basic.get-empty",
    "basic.return",
    "channel.open-ok",
    "connection.blocked",
    "connection.open-ok",
    "connection.secure",
    "connection.start",
    "connection.tune",
    "connection.unblocked",
    "connection.update-secret-ok",
    # Answers that only make sense to a question of the broker's, which asks none of them.
    "channel.flow-ok",
    "connection.secure-ok",
}

# Done by whoever opens a connection and a channel and closes both.
BY_CONNECTING = (
    "connection.start-ok",
    "connection.tune-ok",
    "connection.open",
    "channel.open",
    "channel.close",
    "channel.close-ok",
    "connection.close",
    "connection.close-ok",
)

# Each: name of the row, the method, its arguments. `Q` stands for the queue of the column.
Q = object()
PROBES = [
    ("access.request", "access.request", {"realm": "/data", "active": True}),
    ("basic.ack", "basic.ack", {"delivery_tag": 0, "multiple": True}),
    ("basic.cancel", "basic.cancel", {"consumer_tag": "none"}),
    ("basic.consume", "basic.consume", {"queue": Q}),
    ("basic.consume of replies", "basic.consume", {"queue": "amq.rabbitmq.reply-to", "no_ack": True}),
    ("basic.get", "basic.get", {"queue": Q}),
    ("basic.nack", "basic.nack", {"delivery_tag": 0, "multiple": True, "requeue": True}),
    ("basic.publish", "basic.publish", {"exchange": "x", "routing_key": "k"}),
    ("basic.publish to the default exchange", "basic.publish", {"exchange": "", "routing_key": "q"}),
    ("basic.qos", "basic.qos", {"prefetch_count": 1}),
    ("basic.recover", "basic.recover", {"requeue": True}),
    ("basic.recover-async", "basic.recover-async", {"requeue": True}),
    ("basic.reject", "basic.reject", {"delivery_tag": 1, "requeue": True}),
    ("channel.flow", "channel.flow", {"active": True}),
    ("confirm.select", "confirm.select", {}),
    ("connection.update-secret", "connection.update-secret", {"new_secret": PASSWORD, "reason": "a test"}),
    ("exchange.bind", "exchange.bind", {"destination": "x2", "source": "x", "routing_key": "k"}),
    ("exchange.declare", "exchange.declare", {"exchange": "x", "type": "topic", "durable": True}),
    ("exchange.declare, passive", "exchange.declare", {"exchange": "x", "type": "topic", "passive": True}),
    (
        "exchange.declare with alternate-exchange",
        "exchange.declare",
        {"exchange": "new", "type": "topic", "arguments": {"alternate-exchange": "x2"}},
    ),
    ("exchange.delete", "exchange.delete", {"exchange": "x"}),
    ("exchange.unbind", "exchange.unbind", {"destination": "x2", "source": "x", "routing_key": "k"}),
    ("queue.bind", "queue.bind", {"queue": Q, "exchange": "x", "routing_key": "k"}),
    ("queue.declare", "queue.declare", {"queue": Q, "durable": True}),
    ("queue.declare, passive", "queue.declare", {"queue": Q, "passive": True}),
    ("queue.declare, server-named", "queue.declare", {"queue": "", "exclusive": True}),
    (
        "queue.declare with x-dead-letter-exchange",
        "queue.declare",
        {"queue": "new", "durable": True, "arguments": {"x-dead-letter-exchange": "x2"}},
    ),
    ("queue.delete", "queue.delete", {"queue": Q}),
    ("queue.purge", "queue.purge", {"queue": Q}),
    ("queue.unbind", "queue.unbind", {"queue": Q, "exchange": "x", "routing_key": "k"}),
    ("tx.commit", "tx.commit", {}),
    ("tx.rollback", "tx.rollback", {}),
    ("tx.select", "tx.select", {}),
]
NO_ANSWER = {"basic.ack", "basic.nack", "basic.reject", "basic.publish", "basic.recover-async"}
OF_RIGHTS = (403, 405, 530)


class Hall:
    """A vhost, a user per column, and a queue that belongs to a connection that stays."""

    def __init__(self, broker, api, vhost):
        self.api, self.vhost = api, vhost
        self.endpoint = Endpoint(broker.host, broker.port, api.user, api.password, vhost)
        self.owner = Connection(self.endpoint).login()
        self.owners_channel = self.owner.channel()
        self.owners_channel.call("queue.declare", queue="exclusive", durable=True, exclusive=True)
        self.users = {}
        for column, having in RIGHTS.items():
            user = f"{column}-{uuid.uuid4().hex[:12]}"
            assert api.put(f"users/{user}", {"password": PASSWORD, "tags": ""}).status == 201
            patterns = {right: ".*" if right in having else "^$" for right in ("configure", "write", "read")}
            assert api.put(f"permissions/{vhost}/{user}", patterns).status == 201
            self.users[column] = user
        self.furnish()

    def furnish(self):
        for exchange in ("x", "x2"):
            self.owners_channel.call("exchange.declare", exchange=exchange, type="topic", durable=True)
        self.owners_channel.call("queue.declare", queue="q", durable=True)
        for made in ("exchange", "queue"):
            self.owners_channel.call(f"{made}.delete", **{made: "new"})

    def outcome(self, column, method, arguments):
        """`yes`, or the reply code with which the user is refused."""
        queue = "exclusive" if column == "exclusive" else "q"
        arguments = {key: queue if value is Q else value for key, value in arguments.items()}
        connection = Connection(self.endpoint).login(user=self.users[column], password=PASSWORD)
        channel = connection.channel()
        try:
            if method.startswith("tx.") and method != "tx.select":
                channel.call("tx.select")
            if method.startswith("connection."):
                connection.send(0, method, **arguments)
                answer = connection.next(0)
            else:
                channel.send(method, **arguments)
                if method == "basic.publish":
                    channel.send_frame(2, b"\x00\x3c\x00\x00" + bytes(8) + b"\x00\x00")
                if method in NO_ANSWER:
                    channel.send("basic.qos", prefetch_count=1)
                answer = channel.next()
        except ConnectionClosed as closed:
            code = closed.close.code
        else:
            code = answer.reply_code if answer.name.endswith(".close") else None
        finally:
            connection.hang_up()
        return str(code) if code in OF_RIGHTS else "yes"

    def tear_down(self):
        self.owner.hang_up()
        for user in self.users.values():
            self.api.delete(f"users/{user}")


@pytest.fixture
def hall(broker, api, vhost):
    hall = Hall(broker, api, vhost)
    yield hall
    hall.tear_down()


def test_every_method_asks_for_its_right(hall):
    seen = [{"method": name, **dict.fromkeys(RIGHTS, "yes"), "exclusive": "-"} for name in BY_CONNECTING]
    for column, user in hall.users.items():
        connection = Connection(hall.endpoint).login(user=user, password=PASSWORD)
        connection.channel().close()
        connection.close()
        assert column in seen[0]
    for name, method, arguments in PROBES:
        row = {"method": name}
        for column in RIGHTS:
            has_queue = any(value is Q for value in arguments.values())
            if column == "exclusive" and not has_queue:
                row[column] = "-"
                continue
            row[column] = hall.outcome(column, method, arguments)
            if row[column] == "yes":
                hall.furnish()
        seen.append(row)
    compare("AMQP", seen, ("method",))


def test_every_method_of_the_protocol_has_a_row():
    tried = {method for _, method, _ in PROBES} | set(BY_CONNECTING)
    assert tried | FROM_THE_BROKER == set(METHODS)
    assert not tried & FROM_THE_BROKER
    written = {row["method"] for row in rights.read("AMQP")}
    assert written == {name for name, _, _ in PROBES} | set(BY_CONNECTING)


def test_a_vhost_without_a_permission_is_closed_to_every_method(broker, api, vhost):
    user = f"outside-{uuid.uuid4().hex[:12]}"
    assert api.put(f"users/{user}", {"password": PASSWORD, "tags": "administrator"}).status == 201
    connection = Connection(Endpoint(broker.host, broker.port, user, PASSWORD, vhost))
    connection.greet()
    connection.send_start_ok()
    connection.tune = connection.expect("connection.tune")
    connection.send_tune_ok()
    connection.send(0, "connection.open", virtual_host=vhost)
    connection.expect_close(530, None, "connection.open")
    api.delete(f"users/{user}")
