"""Works on tasks, one at a time: a second for every dot. A task is acknowledged when it is done, so that one whose worker
dies goes to another."""

import os
import socket
import time

import pika

QUEUE = "task_queue"
SECS_PER_DOT = float(os.environ.get("SECS_PER_DOT", "1"))


def work(channel, method, _properties, body):
    time.sleep(body.count(b".") * SECS_PER_DOT)
    print(f"{socket.gethostname()} {os.getpid()} done {body.decode()}", flush=True)
    channel.basic_ack(delivery_tag=method.delivery_tag)


def main():
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    channel = connection.channel()
    channel.queue_declare(queue=QUEUE, durable=True)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue=QUEUE, on_message_callback=work)
    channel.start_consuming()


if __name__ == "__main__":
    main()
