"""pika as its tutorials and its documentation use it. The work queue has a file of its own."""

import itertools
import queue
import threading

import pika
import pika.exceptions
import pytest

from program import LIMIT_SECS

REPLY_TO = "amq.rabbitmq.reply-to"


def take(channel, queue_name, count):
    """So many messages of a queue, acknowledged, as (routing key, body)."""
    taken = []
    for method, _, body in channel.consume(queue_name, inactivity_timeout=LIMIT_SECS):
        assert method is not None, f"only {taken} after {LIMIT_SECS} s"
        channel.basic_ack(method.delivery_tag)
        taken.append((method.routing_key, body))
        if len(taken) == count:
            break
    channel.cancel()
    return taken


def subscriber(channel, exchange, *routing_keys):
    """A queue of a subscriber's own, bound by these keys."""
    name = channel.queue_declare(queue="", exclusive=True).method.queue
    for key in routing_keys:
        channel.queue_bind(queue=name, exchange=exchange, routing_key=key)
    return name


def is_empty(channel, queue_name):
    return channel.queue_declare(queue=queue_name, passive=True).method.message_count == 0


def test_fan_out_gives_every_subscriber_a_copy(channel, exchange_name):
    channel.exchange_declare(exchange=exchange_name, exchange_type="fanout")
    subscribers = [subscriber(channel, exchange_name, "") for _ in range(3)]

    channel.basic_publish(exchange=exchange_name, routing_key="", body=b"news")

    for each in subscribers:
        assert take(channel, each, 1) == [("", b"news")]


def test_routing_gives_a_subscriber_only_the_severities_it_asked_for(channel, exchange_name):
    channel.exchange_declare(exchange=exchange_name, exchange_type="direct")
    errors = subscriber(channel, exchange_name, "error")
    everything = subscriber(channel, exchange_name, "info", "warning", "error")

    for severity in ("info", "error", "warning", "debug"):
        channel.basic_publish(exchange=exchange_name, routing_key=severity, body=severity.encode())

    assert take(channel, everything, 3) == [("info", b"info"), ("error", b"error"), ("warning", b"warning")]
    assert take(channel, errors, 1) == [("error", b"error")]
    assert is_empty(channel, everything) and is_empty(channel, errors)


def test_topics_match_words_with_star_and_hash(channel, exchange_name):
    channel.exchange_declare(exchange=exchange_name, exchange_type="topic")
    orange = subscriber(channel, exchange_name, "*.orange.*")
    lazy = subscriber(channel, exchange_name, "*.*.rabbit", "lazy.#")

    keys = ["quick.orange.rabbit", "lazy.orange.elephant", "lazy.pink.rabbit", "quick.brown.fox", "lazy", "orange"]
    for key in keys:
        channel.basic_publish(exchange=exchange_name, routing_key=key, body=b"")

    assert [key for key, _ in take(channel, orange, 2)] == ["quick.orange.rabbit", "lazy.orange.elephant"]
    # Once, although two of its bindings match the pink rabbit.
    assert [key for key, _ in take(channel, lazy, 4)] == [
        "quick.orange.rabbit",
        "lazy.orange.elephant",
        "lazy.pink.rabbit",
        "lazy",
    ]
    assert is_empty(channel, orange) and is_empty(channel, lazy)


def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def serve_fibonacci(broker, queue_name, count):
    with broker.connect() as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        for method, properties, body in itertools.islice(channel.consume(queue_name), count):
            channel.basic_publish(
                exchange="",
                routing_key=properties.reply_to,
                properties=pika.BasicProperties(correlation_id=properties.correlation_id),
                body=str(fibonacci(int(body))).encode(),
            )
            channel.basic_ack(method.delivery_tag)


def test_rpc_over_direct_reply_to(broker, channel, queue_name):
    channel.queue_declare(queue=queue_name)
    requests = {"a": (5, b"5"), "b": (10, b"55"), "c": (15, b"610")}
    server = threading.Thread(target=serve_fibonacci, args=(broker, queue_name, len(requests)), daemon=True)
    server.start()

    received = {}

    def on_reply(_channel, _method, properties, body):
        received[properties.correlation_id] = body

    # The reply consumer first: the broker insists.
    channel.basic_consume(REPLY_TO, on_reply, auto_ack=True)
    for correlation_id, (number, _) in requests.items():
        channel.basic_publish(
            exchange="",
            routing_key=queue_name,
            properties=pika.BasicProperties(reply_to=REPLY_TO, correlation_id=correlation_id),
            body=str(number).encode(),
        )
    while len(received) < len(requests):
        channel.connection.process_data_events(time_limit=LIMIT_SECS)

    assert received == {correlation_id: reply for correlation_id, (_, reply) in requests.items()}
    server.join(LIMIT_SECS)
    assert not server.is_alive()


def test_a_confirmed_publish_returns_and_the_message_is_in_the_queue(channel, queue_name):
    channel.queue_declare(queue=queue_name, durable=True)
    channel.confirm_delivery()

    for number in range(3):
        channel.basic_publish(
            exchange="",
            routing_key=queue_name,
            body=str(number).encode(),
            properties=pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent),
            mandatory=True,
        )

    assert channel.queue_declare(queue=queue_name, passive=True).method.message_count == 3
    assert [body for _, body in take(channel, queue_name, 3)] == [b"0", b"1", b"2"]


def test_a_mandatory_publish_that_reaches_no_queue_is_an_error_with_the_message_in_it(channel):
    channel.confirm_delivery()

    with pytest.raises(pika.exceptions.UnroutableError) as raised:
        channel.basic_publish(exchange="amq.direct", routing_key="nobody", body=b"lost", mandatory=True)

    [returned] = raised.value.messages
    assert (returned.method.reply_code, returned.method.reply_text, returned.body) == (312, "NO_ROUTE", b"lost")


def test_a_publish_that_a_full_queue_refuses_is_an_error(channel, queue_name):
    channel.queue_declare(queue=queue_name, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.confirm_delivery()
    channel.basic_publish(exchange="", routing_key=queue_name, body=b"fits")

    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish(exchange="", routing_key=queue_name, body=b"too many")

    assert [body for _, body in take(channel, queue_name, 1)] == [b"fits"]


class ReconnectingConsumer(threading.Thread):
    """The loop that pika's documentation recommends: connect, consume, and start over when the connection is lost."""

    def __init__(self, broker, queue_name):
        super().__init__(daemon=True)
        self.bodies = queue.Queue()
        self.connections = 0
        self._queue_name = queue_name
        self._parameters = pika.URLParameters(broker.url)
        self._parameters.connection_attempts = LIMIT_SECS * 10
        self._parameters.retry_delay = 0.1

    def run(self):
        while True:
            try:
                connection = pika.BlockingConnection(self._parameters)
                self.connections += 1
                channel = connection.channel()
                channel.queue_declare(queue=self._queue_name, durable=True)
                for method, _, body in channel.consume(self._queue_name):
                    channel.basic_ack(method.delivery_tag)
                    self.bodies.put(body)
                    if body == b"stop":
                        connection.close()
                        return
            except pika.exceptions.AMQPConnectionError:
                continue


@pytest.mark.timeout(120)
def test_a_consumer_that_reconnects_in_a_loop_goes_on_after_a_restart(restartable_broker, queue_name):
    consumer = ReconnectingConsumer(restartable_broker, queue_name)
    consumer.start()
    send_durably(restartable_broker, queue_name, b"before")
    assert consumer.bodies.get(timeout=LIMIT_SECS) == b"before"

    restartable_broker.restart()

    send_durably(restartable_broker, queue_name, b"after")
    send_durably(restartable_broker, queue_name, b"stop")
    assert consumer.bodies.get(timeout=LIMIT_SECS) == b"after"
    consumer.join(LIMIT_SECS)
    assert not consumer.is_alive()
    assert consumer.connections == 2


def send_durably(broker, queue_name, body):
    with broker.connect() as connection:
        channel = connection.channel()
        channel.queue_declare(queue=queue_name, durable=True)
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
        channel.basic_publish(exchange="", routing_key=queue_name, body=body, properties=properties)
