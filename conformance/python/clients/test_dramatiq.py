"""dramatiq: workers as its command line starts them, delays and retries by its own queues, its dead letters."""

import os
import pathlib
import sys
import time
import uuid

import dramatiq
import pytest

from program import LIMIT_SECS, Program, eventually

# The actors' module reads it once, here as in its workers.
os.environ["DRAMATIQ_QUEUE"] = f"conformance-{uuid.uuid4()}"
import dramatiq_app  # noqa: E402

PROGRAMS = pathlib.Path(dramatiq_app.__file__).resolve().parent
# A worker starts in two seconds on a quiet machine.
START_LIMIT_SECS = 50

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module", autouse=True)
def queues(broker):
    """Declared by dramatiq itself: the queue, its delayed twin, and its dead letters."""
    names = [dramatiq_app.QUEUE + suffix for suffix in ("", ".DQ", ".XQ")]
    yield names
    dramatiq_app.broker.close()
    with broker.connect() as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_delete(name)


@pytest.fixture
def hire():
    hired = []

    def start(**environment):
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment
        command = [sys.executable, "-m", "dramatiq", "--processes", "1", "--threads", "1", "dramatiq_app"]
        worker = Program(f"dramatiq worker {len(hired) + 1}", command, environment, directory=PROGRAMS)
        hired.append(worker)
        worker.wait_for("Worker process is ready for action", limit_secs=START_LIMIT_SECS)
        return worker

    yield start
    for worker in hired:
        worker.kill()


def test_an_actor_runs_what_was_sent_before_and_after_its_worker_came(hire):
    dramatiq_app.greet.send("early bird")
    worker = hire()
    dramatiq_app.greet.send("late riser")
    assert [match[1] for match in worker.wait_for("greeted (.*) at", count=2)] == ["early bird", "late riser"]
    dramatiq_app.broker.join(dramatiq_app.QUEUE, timeout=LIMIT_SECS * 1000)


def test_a_delayed_message_runs_no_earlier(hire):
    worker = hire()
    sent_at = time.time()
    dramatiq_app.greet.send_with_options(args=("delayed",), delay=1000)
    [greeted] = worker.wait_for("greeted delayed at (.*)")
    assert float(greeted[1]) >= sent_at + 1


def test_a_failed_message_is_retried_until_it_succeeds(hire):
    worker = hire()
    dramatiq_app.fail_twice.send()
    assert [match[1] for match in worker.wait_for(r"^attempt (\d)", count=3)] == ["1", "2", "3"]


def test_a_message_that_fails_for_good_becomes_a_dead_letter(broker, hire, queues):
    worker = hire()
    message = dramatiq_app.fail_always.send()
    worker.wait_for("Retries exceeded")
    with broker.connect() as connection:
        channel = connection.channel()
        dead = []

        def dead_letter_came():
            method, properties, body = channel.basic_get(queues[2], auto_ack=True)
            if method is not None:
                dead.append((properties, body))
            return dead

        eventually(dead_letter_came, "a dead letter", shown=worker)
    [(properties, body)] = dead
    assert dramatiq.Message.decode(body).message_id == message.message_id
    [death] = properties.headers["x-death"]
    assert (death["reason"], death["queue"], death["count"]) == ("rejected", queues[0], 1)


def test_messages_wait_in_the_order_of_their_priorities(hire):
    for priority in (1, 9, 5):
        dramatiq_app.greet.send_with_options(args=(f"priority-{priority}",), broker_priority=priority)
    # The worker fetches more than it runs, so what counts is the order in which it gets them.
    greeted = [match[1] for match in hire().wait_for(r"greeted (priority-\d)", count=3)]
    assert greeted == ["priority-9", "priority-5", "priority-1"]


def test_a_message_of_a_killed_worker_goes_to_another(hire):
    killed = hire(DRAMATIQ_HOLD="1")
    dramatiq_app.hold.send("task")
    killed.wait_for("^began task")

    killed.kill()

    hire().wait_for("^ended task")


def test_a_worker_comes_back_after_a_restart(restartable_broker, hire):
    worker = hire()
    dramatiq_app.greet.send("before")
    worker.wait_for("greeted before")

    restartable_broker.restart()

    dramatiq_app.greet.send("after")
    worker.wait_for("greeted after", limit_secs=START_LIMIT_SECS)
