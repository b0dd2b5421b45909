"""aio-pika: its tutorials, its patterns, and its connections that mend themselves."""

import asyncio

import aio_pika
import aio_pika.exceptions
import aio_pika.patterns
import aiormq.exceptions
import pytest

import workers
from program import LIMIT_SECS

REPLY_TO = "amq.rabbitmq.reply-to"


def with_channel(broker, scenario):
    """Runs the coroutine function `scenario(channel)` on a channel of a new connection."""

    async def main():
        connection = await aio_pika.connect_robust(broker.url)
        async with connection:
            await asyncio.wait_for(scenario(await connection.channel()), LIMIT_SECS)

    asyncio.run(main())


async def take(queue, count):
    """So many messages, acknowledged, as (routing key, body)."""
    taken = []
    async with queue.iterator() as messages:
        async for message in messages:
            async with message.process():
                taken.append((message.routing_key, message.body))
            if len(taken) == count:
                return taken


async def subscriber(channel, exchange, *routing_keys):
    queue = await channel.declare_queue(exclusive=True)
    for key in routing_keys:
        await queue.bind(exchange, routing_key=key)
    return queue


def test_hello(broker, queue_name):
    async def scenario(channel):
        queue = await channel.declare_queue(queue_name)
        hello = aio_pika.Message(b"Hello World!", content_type="text/plain", headers={"lang": "en", "stars": 5})
        await channel.default_exchange.publish(hello, routing_key=queue_name)

        message = await queue.get(timeout=LIMIT_SECS)

        async with message.process():
            assert (message.body, message.content_type) == (b"Hello World!", "text/plain")
            assert message.headers == {"lang": "en", "stars": 5}
        assert await queue.get(fail=False) is None

    with_channel(broker, scenario)


def test_a_task_of_a_killed_worker_goes_to_another(broker, queue_name):
    async def send(channel):
        await channel.declare_queue(queue_name, durable=True)
        for number in range(1, 7):
            task = aio_pika.Message(f"task-{number}".encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
            await channel.default_exchange.publish(task, routing_key=queue_name)

    staff = workers.start_workers("aio_pika_worker.py", queue_name, 3)
    try:
        with_channel(broker, send)
        workers.share_six_tasks_of_which_one_is_lost(staff)
    finally:
        workers.kill_all(staff)


def test_fan_out(broker, exchange_name):
    async def scenario(channel):
        exchange = await channel.declare_exchange(exchange_name, aio_pika.ExchangeType.FANOUT)
        subscribers = [await subscriber(channel, exchange, "") for _ in range(3)]
        await exchange.publish(aio_pika.Message(b"news"), routing_key="")
        assert [await take(each, 1) for each in subscribers] == [[("", b"news")]] * 3

    with_channel(broker, scenario)


def test_routing(broker, exchange_name):
    async def scenario(channel):
        exchange = await channel.declare_exchange(exchange_name, aio_pika.ExchangeType.DIRECT)
        errors = await subscriber(channel, exchange, "error")
        everything = await subscriber(channel, exchange, "info", "error")
        for severity in ("info", "error", "debug", "info"):
            await exchange.publish(aio_pika.Message(severity.encode()), routing_key=severity)
        assert [key for key, _ in await take(everything, 3)] == ["info", "error", "info"]
        assert [key for key, _ in await take(errors, 1)] == ["error"]

    with_channel(broker, scenario)


def test_topics(broker, exchange_name):
    async def scenario(channel):
        exchange = await channel.declare_exchange(exchange_name, aio_pika.ExchangeType.TOPIC)
        critical = await subscriber(channel, exchange, "*.critical")
        kernel = await subscriber(channel, exchange, "kern.#", "kern.critical")
        for key in ("kern.critical", "cron.critical", "kern", "kern.disk.full", "cron.info", "critical"):
            # Each publish waits for its confirm; the two that match no queue are confirmed too.
            await exchange.publish(aio_pika.Message(b""), routing_key=key, mandatory=False)
        assert [key for key, _ in await take(critical, 2)] == ["kern.critical", "cron.critical"]
        assert [key for key, _ in await take(kernel, 3)] == ["kern.critical", "kern", "kern.disk.full"]

    with_channel(broker, scenario)


def test_rpc_over_direct_reply_to(broker, queue_name):
    async def scenario(channel):
        requests = await channel.declare_queue(queue_name)

        async def shout(message):
            async with message.process():
                reply = aio_pika.Message(message.body.upper(), correlation_id=message.correlation_id)
                await channel.default_exchange.publish(reply, routing_key=message.reply_to)

        await requests.consume(shout)
        replies, is_complete = {}, asyncio.Event()

        async def on_reply(message):
            replies[message.correlation_id] = message.body
            if len(replies) == 2:
                is_complete.set()

        reply_queue = await channel.get_queue(REPLY_TO, ensure=False)
        await reply_queue.consume(on_reply, no_ack=True)
        for correlation_id, body in {"a": b"hello", "b": b"world"}.items():
            request = aio_pika.Message(body, correlation_id=correlation_id, reply_to=REPLY_TO)
            await channel.default_exchange.publish(request, routing_key=queue_name)
        await is_complete.wait()
        assert replies == {"a": b"HELLO", "b": b"WORLD"}

    with_channel(broker, scenario)


def test_the_rpc_pattern(broker, queue_name):
    async def multiply(*, x, y):
        return x * y

    async def fail():
        raise ValueError("not today")

    async def scenario(channel):
        rpc = await aio_pika.patterns.RPC.create(channel)
        await rpc.register(queue_name, multiply, auto_delete=True)
        await rpc.register(f"{queue_name}-fail", fail, auto_delete=True)
        assert [await rpc.call(queue_name, {"x": x, "y": 3}) for x in (1, 2, 3)] == [3, 6, 9]
        with pytest.raises(ValueError, match="not today"):
            await rpc.call(f"{queue_name}-fail", {})
        with pytest.raises(aio_pika.exceptions.MessageProcessError, match="returned"):
            await rpc.call(f"{queue_name}-nobody", {})
        # Nobody serves this queue: the call expires there and comes back through the pattern's dead-letter exchange.
        arguments = {"x-dead-letter-exchange": aio_pika.patterns.RPC.DLX_NAME}
        await channel.declare_queue(f"{queue_name}-silent", exclusive=True, arguments=arguments)
        with pytest.raises(asyncio.TimeoutError):
            await rpc.call(f"{queue_name}-silent", {}, expiration=0.05)

    with_channel(broker, scenario)


def test_the_master_and_worker_pattern(broker, queue_name):
    async def scenario(channel):
        done, is_complete, refused = [], asyncio.Event(), []

        async def work(*, number):
            if number == 2 and not refused:
                refused.append(number)
                raise aio_pika.patterns.NackMessage(requeue=True)
            done.append(number)
            if len(done) == 3:
                is_complete.set()

        master = aio_pika.patterns.Master(channel)
        await master.create_worker(queue_name, work, durable=True)
        for number in (1, 2, 3):
            await master.create_task(queue_name, {"number": number})
        await is_complete.wait()
        assert (sorted(done), refused) == ([1, 2, 3], [2])

    with_channel(broker, scenario)


def test_confirms_returns_and_refusals(broker, queue_name):
    async def scenario(channel):
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
        await channel.declare_queue(queue_name, arguments=arguments)
        publish = channel.default_exchange.publish

        assert await publish(aio_pika.Message(b"fits"), routing_key=queue_name)
        with pytest.raises(aio_pika.exceptions.DeliveryError):
            await publish(aio_pika.Message(b"too many"), routing_key=queue_name)
        with pytest.raises(aio_pika.exceptions.DeliveryError) as raised:
            await channel.default_exchange.publish(aio_pika.Message(b"lost"), routing_key=f"{queue_name}-nobody")
        assert raised.value.message.delivery.reply_code == 312

    async def main():
        connection = await aio_pika.connect_robust(broker.url)
        async with connection:
            channel = await connection.channel(on_return_raises=True)
            await asyncio.wait_for(scenario(channel), LIMIT_SECS)

    asyncio.run(main())


def test_a_transaction(broker, queue_name):
    async def main():
        connection = await aio_pika.connect_robust(broker.url)
        async with connection:
            channel = await connection.channel(publisher_confirms=False)
            queue = await channel.declare_queue(queue_name)
            async with channel.transaction():
                await channel.default_exchange.publish(aio_pika.Message(b"kept"), routing_key=queue_name)
            with pytest.raises(KeyError):
                async with channel.transaction():
                    await channel.default_exchange.publish(aio_pika.Message(b"dropped"), routing_key=queue_name)
                    raise KeyError
            assert await asyncio.wait_for(take(queue, 1), LIMIT_SECS) == [(queue_name, b"kept")]
            assert await queue.get(fail=False) is None

    asyncio.run(main())


def test_an_error_closes_the_channel_and_the_connection_goes_on(broker, queue_name):
    async def main():
        connection = await aio_pika.connect_robust(broker.url)
        async with connection:
            channel = await connection.channel()
            with pytest.raises(aiormq.exceptions.ChannelNotFoundEntity, match="no queue"):
                await channel.declare_queue(queue_name, passive=True)
            await (await connection.channel()).declare_queue(queue_name)

    asyncio.run(main())


@pytest.mark.timeout(120)
def test_a_robust_connection_restores_its_topology_after_a_restart(restartable_broker, exchange_name):
    async def main():
        connection = await aio_pika.connect_robust(restartable_broker.url, reconnect_interval=0.1)
        is_back = asyncio.Event()
        connection.reconnect_callbacks.add(lambda *_: is_back.set())
        async with connection:
            channel = await connection.channel()
            exchange = await channel.declare_exchange(exchange_name, aio_pika.ExchangeType.TOPIC)
            queue = await channel.declare_queue(exclusive=True)
            await queue.bind(exchange, routing_key="news.#")
            received = asyncio.Queue()
            await queue.consume(received.put, no_ack=True)
            await exchange.publish(aio_pika.Message(b"before"), routing_key="news.local")
            assert (await asyncio.wait_for(received.get(), LIMIT_SECS)).body == b"before"

            # Exchange, queue, binding and consumer are all gone with it: none of them is durable.
            await asyncio.to_thread(restartable_broker.restart)
            await asyncio.wait_for(is_back.wait(), LIMIT_SECS)

            await exchange.publish(aio_pika.Message(b"after"), routing_key="news.local")
            assert (await asyncio.wait_for(received.get(), LIMIT_SECS)).body == b"after"

    asyncio.run(main())
