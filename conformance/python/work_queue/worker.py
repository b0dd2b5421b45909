#!/usr/bin/env python3
"""Works on tasks, one at a time: as many seconds as the task has dots. A task it does not finish goes to another.

    AMQP_HOST=localhost AMQP_PORT=5672 ./worker.py
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
    channel.basic_ack(delivery_tag=method.delivery_tag)
    print(" [x] Done", flush=True)


channel.basic_qos(prefetch_count=1)
channel.basic_consume(queue="task_queue", on_message_callback=on_task, auto_ack=False)

print(" [*] Waiting for tasks. To exit press CTRL+C", flush=True)
channel.start_consuming()
