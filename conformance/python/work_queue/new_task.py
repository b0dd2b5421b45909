#!/usr/bin/env python3
"""Hands one task to the workers: the words of the command line, each dot one second of work.

    AMQP_HOST=localhost AMQP_PORT=5672 ./new_task.py dig the garden..
"""

import os
import sys

import pika

HOST = os.environ.get("AMQP_HOST", "localhost")
PORT = int(os.environ.get("AMQP_PORT", "5672"))

credentials = pika.PlainCredentials("guest", "guest")
connection = pika.BlockingConnection(pika.ConnectionParameters(host=HOST, port=PORT, credentials=credentials))
channel = connection.channel()

channel.queue_declare(queue="task_queue", durable=True)

task = " ".join(sys.argv[1:]) or "Hello World!"
channel.basic_publish(
    exchange="",
    routing_key="task_queue",
    body=task,
    properties=pika.BasicProperties(delivery_mode=2),  # persistent: outlives a restart of the broker
)
print(f" [x] Sent {task}")
connection.close()
