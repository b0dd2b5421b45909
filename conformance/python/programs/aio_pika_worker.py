#!/usr/bin/env python3
"""Works on tasks with aio-pika, one at a time; a task is done when a line comes on the standard input.

    BROKER_URL=amqp://guest:guest@localhost ./aio_pika_worker.py QUEUE
"""

import asyncio
import os
import sys

import aio_pika


async def main(queue_name):
    connection = await aio_pika.connect_robust(os.environ["BROKER_URL"])
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=1)
        queue = await channel.declare_queue(queue_name, durable=True)
        async with queue.iterator() as messages:
            print("ready", flush=True)
            async for message in messages:
                async with message.process(requeue=True):
                    again = "again" if message.redelivered else "first"
                    print(f"received {message.body.decode()} {again}", flush=True)
                    await asyncio.to_thread(sys.stdin.readline)
                print(f"done {message.body.decode()}", flush=True)


asyncio.run(main(sys.argv[1]))
