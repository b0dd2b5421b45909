"""The firehose: copies of what is published and delivered in a vhost, while somebody asked for them."""

import uuid

import pika
import pytest

TRACE = "amq.rabbitmq.trace"
PATIENCE_SECS = 10


class Copies:
    """What goes through the trace exchange of a vhost."""

    def __init__(self, connection):
        self._connection = connection
        self._channel = connection.channel()
        self._copies = []
        queue = self._channel.queue_declare("", exclusive=True).method.queue
        self._channel.queue_bind(queue, TRACE, "#")
        self._channel.basic_consume(queue, self._came, auto_ack=True)

    def _came(self, _channel, method, properties, body):
        self._copies.append((method.routing_key, properties, body))

    def take(self, count):
        """The next copies."""
        waited = 0.0
        while len(self._copies) < count and waited < PATIENCE_SECS:
            self._connection.process_data_events(time_limit=0.1)
            waited += 0.1
        taken, self._copies = self._copies[:count], self._copies[count:]
        assert len(taken) == count, f"{len(taken)} copies came, not {count}: {taken}"
        return taken

    def expect_none_before(self, publish):
        """What `publish` does is copied, and nothing was before it."""
        publish()
        [(_, _, body)] = self.take(1)
        assert body == b"marker", body


@pytest.fixture
def connect(broker, api, vhost):
    connections = []

    def connected():
        parameters = pika.ConnectionParameters(
            broker.host, broker.port, vhost, pika.PlainCredentials(api.user, api.password), socket_timeout=5
        )
        connections.append(pika.BlockingConnection(parameters))
        return connections[-1]

    yield connected
    for connection in connections:
        if connection.is_open:
            connection.close()


@pytest.fixture
def channel(connect):
    channel = connect().channel()
    channel.exchange_declare("x", "topic")
    channel.queue_declare("q")
    channel.queue_bind("q", "x", "k.#")
    return channel


@pytest.fixture
def trace(api, vhost):
    def switch(is_on):
        assert api.put(f"vhosts/{vhost}", {"tracing": is_on}).status == 204
        assert api.get(f"vhosts/{vhost}").json["tracing"] is is_on

    return switch


def test_a_publish_is_copied_with_everything_that_is_known_of_it(api, vhost, connect, channel, trace):
    copies = Copies(connect())
    trace(True)
    properties = pika.BasicProperties(
        message_id="m", content_type="text/plain", delivery_mode=2, priority=3, headers={"h": 1, "l": [1, "a"]}
    )
    channel.basic_publish("x", "k.1", b"body", properties)
    [(key, copy, body)] = copies.take(1)
    assert (key, body) == ("publish.x", b"body")
    assert copy.delivery_mode is None and copy.content_type is None
    headers = copy.headers
    connection = headers.pop("connection")
    node = headers.pop("node")
    assert node == api.get("overview").json["node"]
    assert connection.count(" -> ") == 1
    assert headers == {
        "exchange_name": "x",
        "routing_keys": ["k.1"],
        "properties": {
            "message_id": "m",
            "content_type": "text/plain",
            "delivery_mode": 2,
            "priority": 3,
            "headers": {"h": 1, "l": [1, "a"]},
        },
        "vhost": vhost,
        "channel": 1,
        "user": api.user,
        "routed_queues": ["q"],
    }


def test_all_routing_keys_are_told_also_those_that_nobody_else_sees(connect, channel, trace):
    copies = Copies(connect())
    trace(True)
    channel.basic_publish("x", "k.1", b"", pika.BasicProperties(headers={"CC": ["k.2"], "BCC": ["k.3"]}))
    [(_, copy, _)] = copies.take(1)
    assert copy.headers["routing_keys"] == ["k.1", "k.2", "k.3"]
    assert copy.headers["properties"] == {"headers": {"CC": ["k.2"]}}


def test_the_default_exchange_has_no_name_in_the_key(connect, channel, trace):
    copies = Copies(connect())
    trace(True)
    channel.basic_publish("", "q", b"b")
    [(key, copy, body)] = copies.take(1)
    assert (key, copy.headers["exchange_name"], body) == ("publish.", "", b"b")


def test_what_goes_nowhere_is_copied_too(connect, channel, trace):
    copies = Copies(connect())
    trace(True)
    channel.basic_publish("x", "no.binding", b"lost")
    [(key, copy, _)] = copies.take(1)
    assert (key, copy.headers["routed_queues"]) == ("publish.x", [])


def test_deliveries_and_gets_are_copied(api, connect, channel, trace):
    channel.basic_publish("x", "k.1", b"one")
    copies = Copies(connect())
    trace(True)
    method, _, _ = channel.basic_get("q")
    [(key, copy, body)] = copies.take(1)
    assert (key, body) == ("deliver.q", b"one")
    assert copy.headers["redelivered"] == 0
    assert copy.headers["routing_keys"] == ["k.1"]
    assert copy.headers["user"] == api.user
    assert "routed_queues" not in copy.headers
    channel.basic_nack(method.delivery_tag, requeue=True)
    channel.basic_consume("q", lambda *_: None, auto_ack=True)
    [(key, copy, _)] = copies.take(1)
    assert (key, copy.headers["redelivered"], copy.headers["channel"]) == ("deliver.q", 1, 1)


def test_a_get_over_http_is_copied_with_who_got_it(api, vhost, connect, channel, trace):
    channel.basic_publish("x", "k.1", b"one")
    copies = Copies(connect())
    trace(True)
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert len(api.post(f"queues/{vhost}/q/get", taken).json) == 1
    [(key, copy, body)] = copies.take(1)
    assert (key, body, copy.headers["user"]) == ("deliver.q", b"one", api.user)


def test_copies_are_made_only_between_on_and_off(connect, channel, trace):
    copies = Copies(connect())
    channel.basic_publish("x", "k.1", b"before")
    # An answer behind the publish: it was routed.
    channel.queue_declare("q", passive=True)
    trace(True)
    copies.expect_none_before(lambda: channel.basic_publish("x", "k.1", b"marker"))
    trace(False)
    channel.basic_publish("x", "k.1", b"after")
    channel.queue_declare("q", passive=True)
    trace(True)
    copies.expect_none_before(lambda: channel.basic_publish("x", "k.1", b"marker"))


def test_another_vhost_is_not_traced(api, connect, channel, trace):
    other = f"conformance-{uuid.uuid4()}"
    api.put(f"vhosts/{other}")
    try:
        assert api.put(f"vhosts/{other}", {"tracing": True}).status == 204
        assert api.get(f"vhosts/{other}").json["tracing"] is True
        copies = Copies(connect())
        channel.basic_publish("x", "k.1", b"untraced")
        channel.queue_declare("q", passive=True)
        trace(True)
        copies.expect_none_before(lambda: channel.basic_publish("x", "k.1", b"marker"))
    finally:
        api.delete(f"vhosts/{other}")
