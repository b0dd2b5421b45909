"""The event exchange: what happens to connections, queues, users and so on, as messages."""

import uuid

import pika
import pytest

import http_api

EVENTS = "amq.rabbitmq.event"
PLUGIN = "rabbitmq_event_exchange"
PATIENCE_SECS = 10


class Events:
    """What goes through the event exchange."""

    def __init__(self, connection):
        self._connection = connection
        self._channel = connection.channel()
        self._came = []
        self.queue = self._channel.queue_declare("", exclusive=True).method.queue
        self._channel.queue_bind(self.queue, EVENTS, "#")
        self._channel.basic_consume(self.queue, self._event, auto_ack=True)

    def _event(self, _channel, method, properties, body):
        assert body == b"", body
        assert properties.delivery_mode == 2
        headers = dict(properties.headers)
        assert headers["timestamp_in_ms"] // 1000 == properties.timestamp
        assert list(headers) == sorted(headers), "headers stand in the order of their names"
        del headers["timestamp_in_ms"]
        self._came.append((method.routing_key, headers))

    def of(self, key, **wanted):
        """The next event with this key and these headers; those before it are forgotten."""
        waited = 0.0
        while waited < PATIENCE_SECS:
            for at, (found, headers) in enumerate(self._came):
                if found == key and all(headers.get(name) == value for name, value in wanted.items()):
                    del self._came[: at + 1]
                    return headers
            self._connection.process_data_events(time_limit=0.05)
            waited += 0.05
        raise AssertionError(f"no {key} with {wanted} among {self._came}")

    def none_of(self, key, marker, **wanted):
        """What `marker` does is told, and no such event before it."""
        name = f"marker-{uuid.uuid4().hex}"
        marker(name)
        before = []
        while True:
            if self._came:
                found, headers = self._came.pop(0)
                if headers.get("name") == name:
                    break
                before.append((found, headers))
            else:
                self._connection.process_data_events(time_limit=0.05)
        hits = [
            headers
            for found, headers in before
            if found == key and all(headers.get(name) == value for name, value in wanted.items())
        ]
        assert not hits, hits


def plain(headers, *left_out):
    return {name: value for name, value in headers.items() if name not in left_out}


@pytest.fixture(scope="module")
def plugin(broker):
    """The plugin is enabled while these tests run."""
    if broker.http_url is None:
        pytest.skip("not run: needs the HTTP API, and neither BROKER_HTTP_URL nor a control command says where it is")
    is_enabled = http_api.Api(broker.http_url).get(f"exchanges/%2F/{EVENTS}").status == 200
    if not is_enabled:
        if not broker.is_controlled:
            pytest.skip(f"not run: {PLUGIN} is not enabled, and nothing says how to enable it")
        run(broker, "rabbitmq-plugins", "enable", PLUGIN)
    yield
    if not is_enabled:
        run(broker, "rabbitmq-plugins", "disable", PLUGIN)
        assert http_api.Api(broker.http_url).get(f"exchanges/%2F/{EVENTS}").status == 404


def run(broker, program, *arguments):
    code, out, err = broker.tool(program, *arguments)
    assert code == 0, (arguments, code, out, err)


@pytest.fixture
def connect(broker, api, vhost):  # which outlives its connections
    connections = []

    def connected(vhost="/", **options):
        parameters = pika.ConnectionParameters(
            broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), **options
        )
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1]

    yield connected
    for connection in connections:
        if connection.is_open:
            connection.close()


@pytest.fixture
def events(plugin, connect):
    return Events(connect())


def test_the_exchange_is_a_topic_that_clients_may_bind_and_not_publish_to(events, api, connect):
    exchange = api.get(f"exchanges/%2F/{EVENTS}").json
    assert (exchange["type"], exchange["durable"], exchange["internal"]) == ("topic", True, True)
    channel = connect().channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_publish(EVENTS, "queue.created", b"")
    assert refused.value.reply_code == 403


def test_who_binds_to_it_is_told_of_that_first(events):
    told = events.of("binding.created")
    assert plain(told) == {
        "arguments": [],
        "destination_kind": "queue",
        "destination_name": events.queue,
        "routing_key": "#",
        "source_kind": "exchange",
        "source_name": EVENTS,
        "user_who_performed_action": "guest",
        "vhost": "/",
    }


def test_a_connection_is_told_from_its_login_to_its_end(events, connect, vhost, broker):
    client = connect(vhost, client_properties={"connection_name": "called so"}, heartbeat=47)
    login = events.of("user.authentication.success")
    name = login["connection_name"]
    peer_port = int(name.split(" -> ")[0].rsplit(":", 1)[1])
    assert plain(login, "host", "peer_host", "connection_name") == {
        "auth_mechanism": "PLAIN",
        "connection_type": "network",
        "name": "guest",
        "peer_port": peer_port,
        "protocol": "{0,9,1}",
        "ssl": False,
    }
    created = events.of("connection.created", vhost=vhost)
    assert "{<<\"connection_name\">>,longstr,<<\"called so\">>}" in created["client_properties"]
    assert plain(created, "client_properties", "node", "pid", "connected_at") == {
        "auth_mechanism": "PLAIN",
        "channel_max": 2047,
        "frame_max": 131072,
        "host": "{127,0,0,1}",
        "name": name,
        "peer_cert_issuer": "",
        "peer_cert_serial_number": "",
        "peer_cert_subject": "",
        "peer_cert_validity": "",
        "peer_host": "{127,0,0,1}",
        "peer_port": peer_port,
        "port": broker.port,
        "protocol": "{0,9,1}",
        "ssl": False,
        "ssl_cipher": "",
        "ssl_hash": "",
        "ssl_key_exchange": "",
        "ssl_protocol": "",
        "timeout": 47,
        "type": "network",
        "user": "guest",
        "user_provided_name": "called so",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }
    client.close()
    closed = events.of("connection.closed", name=name)
    assert closed["pid"] == created["pid"]
    assert closed["user_provided_name"] == "called so"


def test_a_login_that_is_refused_is_told_with_its_reason(events, broker):
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        wrong = pika.PlainCredentials("guest", "wrong")
        pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, "/", wrong))
    told = events.of("user.authentication.failure")
    assert told["name"] == "guest"
    assert "".join(map(chr, told["error"])) == "user 'guest' - invalid credentials"
    events.of("connection.closed", name=told["connection_name"])


def test_channels_and_consumers_are_told_by_the_ids_of_their_channels(events, connect, vhost):
    client = connect(vhost)
    connection = events.of("connection.created", vhost=vhost)
    channel = client.channel()
    opened = events.of("channel.created", vhost=vhost)
    assert plain(opened, "pid") == {
        "connection": connection["pid"],
        "name": f"{connection['name']} (1)",
        "number": 1,
        "user": "guest",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }
    channel.queue_declare("jobs", exclusive=True)
    channel.basic_qos(prefetch_count=7)
    channel.basic_consume("jobs", lambda *_: None, consumer_tag="one", arguments={"x-priority": 3})
    consumer = events.of("consumer.created", vhost=vhost)
    assert consumer == {
        "ack_required": True,
        "arguments": ["{<<\"x-priority\">>,signedint,3}"],
        "channel": opened["pid"],
        "consumer_tag": "one",
        "exclusive": False,
        "prefetch_count": 7,
        "queue": "jobs",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }
    channel.basic_cancel("one")
    gone = events.of("consumer.deleted", vhost=vhost)
    assert (gone["channel"], gone["consumer_tag"], gone["queue"]) == (opened["pid"], "one", "jobs")
    channel.basic_consume("jobs", lambda *_: None, consumer_tag="two")
    channel.close()
    events.of("consumer.deleted", vhost=vhost, consumer_tag="two")
    closed = events.of("channel.closed", pid=opened["pid"])
    assert closed["user_who_performed_action"] == "guest"
    client.close()
    # It goes with its connection, which is nobody's doing.
    events.of("queue.deleted", vhost=vhost, name="jobs", user_who_performed_action="rmq-internal")


def test_queues_are_told_when_they_come_and_go(events, connect, vhost):
    channel = connect(vhost).channel()
    channel.queue_declare("jobs", durable=True, arguments={"x-max-length": 5})
    created = events.of("queue.created", vhost=vhost)
    assert plain(created, "leader", "members") == {
        "arguments": ["{<<\"x-max-length\">>,signedint,5}", "{<<\"x-queue-type\">>,longstr,<<\"classic\">>}"],
        "auto_delete": False,
        "durable": True,
        "exclusive": False,
        "name": "jobs",
        "owner_pid": "",
        "type": "rabbit_classic_queue",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }
    assert created["members"] == [created["leader"]]
    channel.queue_declare("jobs", durable=True, arguments={"x-max-length": 5})
    events.none_of("queue.created", lambda name: channel.exchange_declare(name), name="jobs")
    channel.queue_delete("jobs")
    assert events.of("queue.deleted", vhost=vhost) == {
        "name": "jobs",
        "type": "rabbit_classic_queue",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }


def test_exchanges_and_bindings_are_told_when_they_come_and_go(events, connect, vhost):
    channel = connect(vhost).channel()
    channel.queue_declare("jobs", durable=True)
    channel.exchange_declare("in", "topic", durable=True, arguments={"alternate-exchange": "amq.fanout"})
    assert events.of("exchange.created", vhost=vhost, name="in") == {
        "arguments": ["{<<\"alternate-exchange\">>,longstr,<<\"amq.fanout\">>}"],
        "auto_delete": False,
        "durable": True,
        "internal": False,
        "name": "in",
        "policy": "",
        "type": "topic",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }
    binding = {
        "arguments": ["{<<\"n\">>,signedint,1}"],
        "destination_kind": "queue",
        "destination_name": "jobs",
        "routing_key": "a.b",
        "source_kind": "exchange",
        "source_name": "in",
        "user_who_performed_action": "guest",
        "vhost": vhost,
    }
    for _ in range(2):
        channel.queue_bind("jobs", "in", "a.b", arguments={"n": 1})
        assert events.of("binding.created", vhost=vhost) == binding
    channel.queue_unbind("jobs", "in", "a.b", arguments={"n": 1})
    assert events.of("binding.deleted", vhost=vhost) == binding
    channel.exchange_bind("amq.fanout", "in", "k")
    assert events.of("binding.created", vhost=vhost)["destination_kind"] == "exchange"
    channel.queue_bind("jobs", "in", "x")
    channel.queue_delete("jobs")
    along = events.of("binding.deleted", vhost=vhost)
    assert (along["routing_key"], along["user_who_performed_action"]) == ("x", "rmq-internal")
    events.of("queue.deleted", vhost=vhost, name="jobs")
    channel.exchange_delete("in")
    events.of("exchange.deleted", vhost=vhost, name="in", user_who_performed_action="guest")
    events.of("binding.deleted", vhost=vhost, destination_name="amq.fanout")


def test_a_vhost_is_told_with_what_is_in_it(events, api):
    name = f"ev-{uuid.uuid4().hex[:8]}"
    assert api.put(f"vhosts/{name}").status == 201
    events.of("exchange.created", vhost=name)
    created = events.of("vhost.created", name=name)
    assert list(created["cluster_state"].values()) == ["running"]
    assert plain(created, "cluster_state") == {
        "default_queue_type": "classic",
        "description": "",
        "metadata": '#{description => <<>>,tags => [],default_queue_type => <<"classic">>}',
        "name": name,
        "protected_from_deletion": False,
        "tags": [],
        "tracing": False,
        "user_who_performed_action": "guest",
    }
    events.of("permission.created", vhost=name, user="guest")
    api.put(f"vhosts/{name}", {"description": "mine", "tags": "a,b"})
    updated = events.of("vhost.updated", name=name)
    assert (updated["description"], updated["tags"]) == ("mine", ["a", "b"])
    assert updated["metadata"] == (
        '#{description => <<"mine">>,tags => [a,b],default_queue_type => <<"classic">>}'
    )
    api.put(f"vhost-limits/{name}/max-connections", {"value": 50})
    assert events.of("parameter.set", vhost=name)["value"] == {"max-connections": 50}
    assert events.of("vhost.limits.set", vhost=name)["max-connections"] == 50
    api.delete(f"vhosts/{name}")
    events.of("permission.deleted", vhost=name, user="guest")
    events.of("vhost.deleted", name=name)
    events.of("vhost.down", name=name, user_who_performed_action="rmq-internal")


def test_users_and_what_they_may_do_are_told(events, api, vhost):
    name = f"ev-{uuid.uuid4().hex[:8]}"
    api.put(f"users/{name}", {"password": "x", "tags": "management"})
    assert events.of("user.created", name=name) == {"name": name, "user_who_performed_action": "guest"}
    assert events.of("user.tags.set", name=name)["tags"] == ["management"]
    api.put(f"users/{name}", {"password": "y", "tags": "management,policymaker"})
    events.of("user.password.changed", name=name)
    assert events.of("user.tags.set", name=name)["tags"] == ["management", "policymaker"]
    api.put(f"user-limits/{name}/max-connections", {"value": 5})
    assert events.of("user.limits.set", username=name)["max-connections"] == 5
    api.delete(f"user-limits/{name}/max-connections")
    events.of("user.limits.cleared", username=name)
    member = {"user": name, "user_who_performed_action": "guest", "vhost": vhost}
    api.put(f"permissions/{vhost}/{name}", {"configure": "", "write": "a", "read": ".*"})
    assert events.of("permission.created", user=name) == {
        **member,
        "configure": "",
        "read": ".*",
        "write": "a",
    }
    api.put(f"topic-permissions/{vhost}/{name}", {"exchange": "amq.topic", "write": "^a", "read": ".*"})
    topic = events.of("topic.permission.created", user=name)
    assert topic == {**member, "exchange": "amq.topic", "read": ".*", "write": "^a"}
    api.delete(f"topic-permissions/{vhost}/{name}")
    assert events.of("topic.permission.deleted", user=name) == member
    api.delete(f"permissions/{vhost}/{name}")
    assert events.of("permission.deleted", user=name) == member
    api.delete(f"users/{name}")
    events.of("user.deleted", name=name)


def test_policies_and_parameters_are_told(events, api, vhost):
    policy = {"pattern": "^none", "definition": {"max-length": 10}, "priority": 1, "apply-to": "queues"}
    told = {**policy, "name": "p", "vhost": vhost, "user_who_performed_action": "guest"}
    api.put(f"policies/{vhost}/p", policy)
    assert events.of("policy.set", vhost=vhost) == told
    api.delete(f"policies/{vhost}/p")
    events.of("policy.cleared", vhost=vhost, name="p")
    api.put(f"operator-policies/{vhost}/p", policy)
    assert events.of("parameter.set", vhost=vhost, component="operator_policy")["value"] == policy
    assert events.of("policy.set", vhost=vhost) == told
    api.delete(f"operator-policies/{vhost}/p")
    events.of("parameter.cleared", vhost=vhost, component="operator_policy")
    events.of("operator.policy.cleared", vhost=vhost, name="p")
    name = f"ev-{uuid.uuid4().hex[:8]}"
    api.put(f"global-parameters/{name}", {"name": name, "value": {"a": 1}})
    assert events.of("parameter.set", name=name) == {
        "component": "global",
        "name": name,
        "user_who_performed_action": "guest",
        "value": {"a": 1},
    }
    api.delete(f"global-parameters/{name}")
    events.of("parameter.cleared", name=name, component="global")


def test_queues_that_a_policy_comes_to_or_leaves_are_told_first(events, api, vhost):
    api.put(f"queues/{vhost}/jobs", {"durable": True})
    api.put(f"queues/{vhost}/other", {"durable": True})
    policy = {"pattern": "^jobs$", "definition": {"max-length": 10}, "priority": 1, "apply-to": "queues"}
    of_queue = {"name": "jobs", "vhost": vhost, "type": "rabbit_classic_queue", "user_who_performed_action": "guest"}
    api.put(f"policies/{vhost}/p", policy)
    assert events.of("queue.policy.updated", vhost=vhost) == {**policy, **of_queue}
    events.of("policy.set", vhost=vhost, name="p")
    api.put(f"policies/{vhost}/p", {**policy, "definition": {"max-length": 20}})
    assert events.of("queue.policy.updated", vhost=vhost)["definition"] == {"max-length": 20}
    api.delete(f"policies/{vhost}/p")
    assert events.of("queue.policy.cleared", vhost=vhost) == of_queue
    api.put(f"operator-policies/{vhost}/p", policy)
    assert events.of("queue.policy.updated", vhost=vhost) == {**policy, **of_queue}
    api.delete(f"operator-policies/{vhost}/p")
    assert events.of("queue.policy.cleared", vhost=vhost) == of_queue


def test_the_command_line_has_a_name_of_its_own(events, broker):
    if not broker.is_controlled:
        pytest.skip("nobody says how to run programs beside that broker")
    name = f"ev-{uuid.uuid4().hex[:8]}"
    run(broker, "rabbitmqctl", "add_user", name, "secret")
    events.of("user.created", name=name, user_who_performed_action="rmq-cli")
    run(broker, "rabbitmqctl", "delete_user", name)
    events.of("user.deleted", name=name, user_who_performed_action="rmq-cli")
