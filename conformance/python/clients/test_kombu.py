"""kombu and py-amqp below it: what Celery stands on, used by hand."""

import contextlib
import socket
import threading

import amqp
import kombu
import kombu.mixins
import kombu.pools
import pytest

import workers
from program import LIMIT_SECS, eventually

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def connection(broker):
    with kombu.Connection(broker.url, transport_options={"confirm_publish": True}) as connection:
        yield connection


class Received:
    """A consumer's callback that keeps what it got, as (routing key, body)."""

    def __init__(self):
        self.messages = []

    def __call__(self, body, message):
        message.ack()
        self.messages.append((message.delivery_info["routing_key"], body))

    @property
    def routing_keys(self):
        return [key for key, _ in self.messages]

    def wait_for(self, connection, count):
        while len(self.messages) < count:
            connection.drain_events(timeout=LIMIT_SECS)


def subscriber(connection, exchange, *routing_keys):
    """A consumer that has begun, on a server-named exclusive queue bound by these keys."""
    channel = connection.channel()
    received = Received()
    queue = kombu.Queue(bindings=[kombu.binding(exchange, key) for key in routing_keys], exclusive=True)
    consumer = kombu.Consumer(channel, [queue], callbacks=[received])
    consumer.consume()
    return received


def test_hello_through_a_simple_queue(connection, queue_name):
    with connection.SimpleQueue(queue_name) as simple:
        simple.put({"hello": "world", "numbers": [1, 2.5, None]}, headers={"lang": "en"})
        message = simple.get(timeout=LIMIT_SECS)
        assert (message.payload, message.headers) == ({"hello": "world", "numbers": [1, 2.5, None]}, {"lang": "en"})
        message.ack()
        with pytest.raises(simple.Empty):
            simple.get_nowait()


def test_a_task_of_a_killed_worker_goes_to_another(connection, queue_name):
    staff = workers.start_workers("kombu_worker.py", queue_name, 3)
    try:
        queue = kombu.Queue(queue_name, durable=True)
        with kombu.pools.producers[connection].acquire(block=True) as producer:
            for number in range(1, 7):
                producer.publish(f"task-{number}", routing_key=queue_name, declare=[queue], retry=True)
        workers.share_six_tasks_of_which_one_is_lost(staff)
    finally:
        workers.kill_all(staff)
        kombu.pools.reset()


def test_fan_out(connection, exchange_name):
    exchange = kombu.Exchange(exchange_name, type="fanout")
    subscribers = [subscriber(connection, exchange, "") for _ in range(3)]
    kombu.Producer(connection, exchange).publish("news")
    for received in subscribers:
        received.wait_for(connection, 1)
        assert received.messages == [("", "news")]


def test_routing(connection, exchange_name):
    exchange = kombu.Exchange(exchange_name, type="direct")
    errors = subscriber(connection, exchange, "error")
    everything = subscriber(connection, exchange, "info", "error")
    producer = kombu.Producer(connection, exchange)
    for severity in ("debug", "info", "error", "info"):
        producer.publish(severity, routing_key=severity)
    everything.wait_for(connection, 3)
    errors.wait_for(connection, 1)
    assert (everything.routing_keys, errors.routing_keys) == (["info", "error", "info"], ["error"])


def test_topics(connection, exchange_name):
    exchange = kombu.Exchange(exchange_name, type="topic")
    critical = subscriber(connection, exchange, "*.critical")
    kernel = subscriber(connection, exchange, "kern.#")
    producer = kombu.Producer(connection, exchange)
    for key in ("cron.info", "cron.critical", "kern", "kern.critical", "kern.disk.full"):
        producer.publish("", routing_key=key)
    critical.wait_for(connection, 2)
    kernel.wait_for(connection, 3)
    assert critical.routing_keys == ["cron.critical", "kern.critical"]
    assert kernel.routing_keys == ["kern", "kern.critical", "kern.disk.full"]


def test_rpc_over_direct_reply_to(broker, connection, queue_name):
    def serve():
        with kombu.Connection(broker.url) as own:
            producer = kombu.Producer(own)

            def shout(body, message):
                properties = message.properties
                producer.publish(
                    body.upper(), routing_key=properties["reply_to"], correlation_id=properties["correlation_id"]
                )
                message.ack()

            with kombu.Consumer(own, [kombu.Queue(queue_name, durable=False)], callbacks=[shout]):
                own.drain_events(timeout=LIMIT_SECS)

    server = threading.Thread(target=serve, daemon=True)
    server.start()

    replies = []
    channel = connection.channel()
    reply_queue = kombu.Queue(REPLY_TO, no_declare=True)
    with kombu.Consumer(channel, [reply_queue], no_ack=True, callbacks=[lambda *reply: replies.append(reply)]):
        queue = kombu.Queue(queue_name, durable=False)
        kombu.Producer(channel).publish(
            "hello", routing_key=queue_name, reply_to=REPLY_TO, correlation_id="c-1", declare=[queue]
        )
        connection.drain_events(timeout=LIMIT_SECS)

    [(body, message)] = replies
    assert (body, message.properties["correlation_id"]) == ("HELLO", "c-1")
    server.join(LIMIT_SECS)


def test_confirms_returns_and_refusals_of_py_amqp(broker, queue_name):
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with amqp.Connection(f"{broker.host}:{broker.port}", broker.user, broker.password, confirm_publish=True) as own:
        channel = own.channel()
        channel.queue_declare(queue_name, durable=True, auto_delete=False, arguments=arguments)
        returned = []
        channel.events["basic_return"].add(lambda *event: returned.append(event))

        channel.basic_publish_confirm(amqp.Message("fits", delivery_mode=2), routing_key=queue_name)
        with pytest.raises(amqp.exceptions.MessageNacked):
            channel.basic_publish_confirm(amqp.Message("too many"), routing_key=queue_name)
        channel.basic_publish_confirm(amqp.Message("lost"), routing_key=f"{queue_name}-nobody", mandatory=True)

        [(error, exchange, routing_key, message)] = returned
        assert (error.reply_code, error.reply_text) == (312, "NO_ROUTE")
        assert (exchange, routing_key) == ("", f"{queue_name}-nobody")
        assert message.body == "lost"
        message = channel.basic_get(queue_name)
        assert message.body == "fits"
        channel.basic_ack(message.delivery_tag)


def test_a_transaction_of_py_amqp(broker, queue_name):
    with amqp.Connection(f"{broker.host}:{broker.port}", broker.user, broker.password) as own:
        channel = own.channel()
        channel.queue_declare(queue_name)
        channel.tx_select()
        channel.basic_publish(amqp.Message("dropped"), routing_key=queue_name)
        channel.tx_rollback()
        channel.basic_publish(amqp.Message("kept"), routing_key=queue_name)
        channel.tx_commit()
        assert channel.basic_get(queue_name, no_ack=True).body == "kept"
        assert channel.basic_get(queue_name) is None


def test_an_error_closes_the_channel_and_the_connection_goes_on(connection, queue_name):
    channel = connection.channel()
    with pytest.raises(amqp.exceptions.NotFound, match="no queue"):
        channel.queue_declare(queue_name, passive=True)
    kombu.Queue(queue_name, channel=connection.channel()).declare()


def test_heartbeats_keep_an_idle_connection(broker):
    with kombu.Connection(broker.url, heartbeat=1) as own:
        own.connect()
        frames_at_first = own.connection.bytes_recv
        # So many from a broker that sends one each half second; a client that misses two gives up, and the broker too.
        while own.connection.bytes_recv < frames_at_first + 6:
            with contextlib.suppress(socket.timeout):
                own.drain_events(timeout=0.2)
            own.heartbeat_check()
        assert own.connected


class Reconnecting(kombu.mixins.ConsumerMixin):
    """The consumer of kombu's documentation: it connects again and declares again by itself."""

    def __init__(self, connection, queue):
        self.connection = connection
        self.queue = queue
        self.bodies = []
        self.revivals = 0

    def get_consumers(self, Consumer, channel):
        return [Consumer([self.queue], callbacks=[self.on_message])]

    def on_consume_ready(self, connection, channel, consumers, **kwargs):
        self.revivals += 1

    def on_message(self, body, message):
        message.ack()
        self.bodies.append(body)
        self.should_stop = body == "stop"

    def __str__(self):
        return f"{self.bodies}, subscribed {self.revivals} times"


@pytest.mark.timeout(120)
def test_a_consumer_mixin_goes_on_after_a_restart(restartable_broker, exchange_name):
    exchange = kombu.Exchange(exchange_name, type="topic", durable=False)
    queue = kombu.Queue(f"{exchange_name}-news", exchange, routing_key="news.#", durable=False, exclusive=True)
    consumer = Reconnecting(kombu.Connection(restartable_broker.url), queue)
    thread = threading.Thread(target=consumer.run, daemon=True)
    thread.start()
    eventually(lambda: consumer.revivals == 1, "subscribed", shown=consumer)

    with kombu.Connection(restartable_broker.url) as own:
        producer = kombu.Producer(own, exchange)
        producer.publish("before", routing_key="news.local")
        eventually(lambda: consumer.bodies == ["before"], "received", shown=consumer)

        restartable_broker.restart()
        eventually(lambda: consumer.revivals == 2, "subscribed again", shown=consumer)

        policy = {"interval_start": 0, "interval_step": 0.1, "interval_max": 1, "max_retries": LIMIT_SECS}
        for body in ("after", "stop"):
            producer.publish(body, routing_key="news.local", retry=True, retry_policy=policy, declare=[exchange])
        thread.join(LIMIT_SECS)
    assert not thread.is_alive()
    assert consumer.bodies == ["before", "after", "stop"]
