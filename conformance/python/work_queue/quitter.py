#!/usr/bin/env python3
"""A worker that never finishes: it takes one task, waits for a line on its input, and leaves as its argument says.

    connection      closes the connection
    channel         closes the channel and keeps the connection open until its input ends

    AMQP_HOST=localhost AMQP_PORT=5672 ./quitter.py channel
"""

import os
import sys

import pika

HOST = os.environ.get("AMQP_HOST", "localhost")
PORT = int(os.environ.get("AMQP_PORT", "5672"))

way_out = sys.argv[1]
credentials = pika.PlainCredentials("guest", "guest")
connection = pika.BlockingConnection(pika.ConnectionParameters(host=HOST, port=PORT, credentials=credentials))
channel = connection.channel()

channel.queue_declare(queue="task_queue", durable=True)


def on_task(channel, method, properties, body):
    again = ", redelivered" if method.redelivered else ""
    print(f" [x] Received {body.decode()}{again}", flush=True)
    sys.stdin.readline()
    {"connection": connection, "channel": channel}[way_out].close()
    print(" [x] Left", flush=True)


channel.basic_qos(prefetch_count=1)
channel.basic_consume(queue="task_queue", on_message_callback=on_task, auto_ack=False)

print(" [*] Waiting for tasks. To exit press CTRL+C", flush=True)
channel.start_consuming()
sys.stdin.read()
