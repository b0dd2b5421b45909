#!/usr/bin/env python3
"""Works on tasks with kombu, one at a time; a task is done when a line comes on the standard input.

    BROKER_URL=amqp://guest:guest@localhost ./kombu_worker.py QUEUE
"""

import os
import sys

import kombu
import kombu.mixins


class Worker(kombu.mixins.ConsumerMixin):
    def __init__(self, connection, queue_name):
        self.connection = connection
        self.queue = kombu.Queue(queue_name, durable=True)

    def get_consumers(self, Consumer, channel):
        return [Consumer([self.queue], callbacks=[self.on_task], prefetch_count=1)]

    def on_consume_ready(self, connection, channel, consumers, **kwargs):
        print("ready", flush=True)

    def on_task(self, body, message):
        again = "again" if message.delivery_info["redelivered"] else "first"
        print(f"received {body} {again}", flush=True)
        sys.stdin.readline()
        message.ack()
        print(f"done {body}", flush=True)


with kombu.Connection(os.environ["BROKER_URL"]) as connection:
    Worker(connection, sys.argv[1]).run()
