"""Publishes a task a second: a name and as many dots as it takes seconds. Ends after TASKS of them, if that is set."""

import itertools
import os

import pika

QUEUE = "task_queue"
PAUSE_SECS = float(os.environ.get("PAUSE_SECS", "1"))


def main():
    tasks = int(os.environ["TASKS"]) if "TASKS" in os.environ else None
    connection = pika.BlockingConnection(pika.URLParameters(os.environ["AMQP_URL"]))
    channel = connection.channel()
    channel.queue_declare(queue=QUEUE, durable=True)
    # From here on a publish returns when the broker has the task on its disk.
    channel.confirm_delivery()
    for number in itertools.islice(itertools.count(1), tasks):
        body = f"task {number}" + "." * (number % 4)
        channel.basic_publish(
            exchange="",
            routing_key=QUEUE,
            body=body,
            properties=pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent),
            mandatory=True,
        )
        print(f"sent {body}", flush=True)
        connection.sleep(PAUSE_SECS)
    connection.close()


if __name__ == "__main__":
    main()
