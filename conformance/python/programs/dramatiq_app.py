"""Actors of dramatiq.

    BROKER_URL=amqp://guest:guest@localhost DRAMATIQ_QUEUE=name dramatiq dramatiq_app
"""

import os
import signal
import time

import dramatiq
import dramatiq.brokers.rabbitmq
import dramatiq.middleware

QUEUE = os.environ.get("DRAMATIQ_QUEUE", "default")

broker = dramatiq.brokers.rabbitmq.RabbitmqBroker(
    url=os.environ.get("BROKER_URL"), confirm_delivery=True, max_priority=9
)
broker.add_middleware(dramatiq.middleware.CurrentMessage())
dramatiq.set_broker(broker)


def say(line):
    print(line, flush=True)


@dramatiq.actor(queue_name=QUEUE)
def greet(name):
    say(f"greeted {name} at {time.time()}")


@dramatiq.actor(queue_name=QUEUE, min_backoff=10, max_backoff=50, max_retries=3)
def fail_twice():
    message = dramatiq.middleware.CurrentMessage.get_current_message()
    retries = message.options.get("retries", 0)
    say(f"attempt {retries + 1}")
    if retries < 2:
        raise RuntimeError("not yet")


@dramatiq.actor(queue_name=QUEUE, max_retries=0)
def fail_always():
    raise RuntimeError("never")


@dramatiq.actor(queue_name=QUEUE)
def hold(name):
    """Says that it began, and does not end before it is killed, if it is told so."""
    say(f"began {name}")
    if os.environ.get("DRAMATIQ_HOLD"):
        signal.sigwait([signal.SIGUSR1])
    say(f"ended {name}")
