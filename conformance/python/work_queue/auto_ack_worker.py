#!/usr/bin/env python3
"""The worker before it learnt to acknowledge: a task counts as done as soon as the broker has sent it.

    AMQP_HOST=localhost AMQP_PORT=5672 ./auto_ack_worker.py
"""

import os
import time

import pika

HOST = os.environ.get("AMQP_HOST", "localhost")
PORT = int(os.environ.get("AMQP_PORT", "5672"))

credentials = pika.PlainCredentials("guest", "guest")
connection = pika.BlockingConnection(pika.ConnectionParameters(host=HOST, port=PORT, credentials=credentials))
channel = connection.channel()

channel.queue_declare(queue="task_queue", durable=True)


def on_task(channel, method, properties, body):
    again = ", redelivered" if method.redelivered else ""
    print(f" [x] Received {body.decode()}{again}", flush=True)
    time.sleep(body.count(b"."))
    print(" [x] Done", flush=True)


channel.basic_consume(queue="task_queue", on_message_callback=on_task, auto_ack=True)

print(" [*] Waiting for tasks. To exit press CTRL+C", flush=True)
channel.start_consuming()
