"""A Celery application as people write them: late acknowledgements, and tasks of lost workers go to others.

    BROKER_URL=amqp://guest:guest@localhost CELERY_QUEUE=name celery --app celery_app worker
"""

import os
import signal
import time

import celery
import kombu

QUEUE = os.environ.get("CELERY_QUEUE", "celery")
TOPICS = f"{QUEUE}-topics"

app = celery.Celery("celery_app", backend="rpc://")
app.conf.update(
    broker_url=os.environ.get("BROKER_URL"),
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_queue_max_priority=9,
    worker_prefetch_multiplier=1,
    task_default_queue=QUEUE,
    task_queues=[
        kombu.Queue(QUEUE, kombu.Exchange(QUEUE, type="direct"), routing_key=QUEUE),
        kombu.Queue(TOPICS, kombu.Exchange(TOPICS, type="topic"), routing_key="urgent.#"),
    ],
    task_routes={"celery_app.alarm": {"exchange": TOPICS, "routing_key": "urgent.alarm"}},
)


@app.task
def add(x, y):
    return x + y


@app.task(bind=True)
def started_at(self):
    return time.time()


@app.task(bind=True, max_retries=3)
def fail_twice(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.1)
    return self.request.retries


@app.task(bind=True)
def lose_the_worker_once(self):
    if self.request.delivery_info["redelivered"]:
        return "redelivered"
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(bind=True)
def hold(self, name):
    """Says that it began, and does not end before it is killed, unless it is a second attempt."""
    again = self.request.delivery_info["redelivered"]
    print(f"began {name} {'again' if again else 'first'}", flush=True)
    while not again:
        signal.pause()
    return "redelivered"


@app.task
def alarm():
    current = celery.current_task.request.delivery_info
    return [current["exchange"], current["routing_key"]]


@app.task
def note(name):
    print(f"noted {name}", flush=True)
