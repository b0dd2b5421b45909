"""Moves the messages of a queue from one broker to another: drain.py FROM_URL TO_URL QUEUE

A message leaves the old queue when the new one has confirmed it. Ends when the old queue is empty.
"""

import sys

import pika


def drain(old_url, new_url, queue):
    old = pika.BlockingConnection(pika.URLParameters(old_url))
    new = pika.BlockingConnection(pika.URLParameters(new_url))
    source, target = old.channel(), new.channel()
    source.basic_qos(prefetch_count=100)
    # From here on a publish returns when it is confirmed, and raises when no queue takes it.
    target.confirm_delivery()
    count = 0
    for method, properties, body in source.consume(queue, inactivity_timeout=2):
        if method is None:
            break
        target.basic_publish("", queue, body, properties, mandatory=True)
        source.basic_ack(method.delivery_tag)
        count += 1
    source.cancel()
    old.close()
    new.close()
    return count


if __name__ == "__main__":
    print(f"{drain(*sys.argv[1:])} messages moved")
