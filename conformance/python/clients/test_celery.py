"""A Celery worker, as `celery worker` starts it, and an application that gives it tasks and waits for results."""

import datetime
import os
import pathlib
import sys
import time
import uuid

import celery
import pytest

from program import LIMIT_SECS, Program

# The application reads it once, here as in its workers.
os.environ["CELERY_QUEUE"] = f"conformance-{uuid.uuid4()}"
import celery_app  # noqa: E402

PROGRAMS = pathlib.Path(celery_app.__file__).resolve().parent
# A worker starts in two seconds on a quiet machine.
START_LIMIT_SECS = 50

pytestmark = pytest.mark.timeout(120)


def start_worker(*options):
    name = f"worker-{uuid.uuid4()}@localhost"
    command = [sys.executable, "-m", "celery", "--app", "celery_app", "worker", "--loglevel", "INFO"]
    command += ["--hostname", name, "--concurrency", "1", *options]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    worker = Program(name, command, environment, directory=PROGRAMS)
    worker.wait_for(r" ready\.$", limit_secs=START_LIMIT_SECS)
    return worker


@pytest.fixture(scope="module", autouse=True)
def application(broker):
    """Declared by the application itself; here is what it leaves behind."""
    yield celery_app.app
    celery_app.app.close()
    with broker.connect() as connection:
        channel = connection.channel()
        for queue in celery_app.app.conf.task_queues:
            channel.queue_delete(queue.name)
            channel.exchange_delete(queue.exchange.name)


@pytest.fixture(scope="module")
def worker(application):
    """For tests that do not mind a worker that others had before."""
    worker = start_worker()
    yield worker
    worker.kill()


@pytest.fixture
def hire(queue_name):
    """Starts workers for a queue that only this test has."""
    hired = []

    def start():
        hired.append(start_worker("--queues", queue_name))
        return hired[-1]

    yield start
    for worker in hired:
        worker.kill()


def test_results_come_back(worker):
    assert celery_app.add.delay(2, 3).get(timeout=LIMIT_SECS) == 5
    group = celery.group(celery_app.add.s(number, number) for number in range(10))
    assert group.apply_async().get(timeout=LIMIT_SECS) == [2 * number for number in range(10)]
    chain = celery.chain(celery_app.add.s(1, 2), celery_app.add.s(4), celery_app.add.s(8))
    assert chain.apply_async().get(timeout=LIMIT_SECS) == 15


def test_an_exception_comes_back(worker):
    with pytest.raises(TypeError):
        celery_app.add.delay(1, "one").get(timeout=LIMIT_SECS)


def test_a_task_with_an_eta_or_a_countdown_starts_no_earlier(worker):
    sent_at = time.time()
    eta = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=1)
    by_countdown = celery_app.started_at.apply_async(countdown=1)
    by_eta = celery_app.started_at.apply_async(eta=eta)
    # The worker holds both, unacknowledged, until their time comes.
    assert by_countdown.get(timeout=LIMIT_SECS) >= sent_at + 1
    assert by_eta.get(timeout=LIMIT_SECS) >= eta.timestamp()


def test_a_task_that_expired_before_a_worker_came_is_not_run(hire, queue_name):
    celery_app.note.apply_async(["expired"], expires=0.001, queue=queue_name)
    celery_app.note.apply_async(["fresh"], queue=queue_name)
    worker = hire()
    worker.wait_for("noted fresh")
    assert not worker.printed("noted expired")


def test_a_task_is_retried_until_it_succeeds(worker):
    assert celery_app.fail_twice.delay().get(timeout=LIMIT_SECS) == 2


def test_a_task_whose_process_is_lost_is_rejected_and_comes_again(worker):
    assert celery_app.lose_the_worker_once.delay().get(timeout=LIMIT_SECS) == "redelivered"
    worker.wait_for("WorkerLostError")


def test_a_task_of_a_killed_worker_goes_to_another(hire, queue_name):
    killed = hire()
    held = celery_app.hold.apply_async(["task"], queue=queue_name)
    killed.wait_for("began task first")

    killed.kill()

    heir = hire()
    heir.wait_for("began task again")
    assert held.get(timeout=LIMIT_SECS) == "redelivered"


def test_tasks_wait_in_the_order_of_their_priorities(hire, queue_name):
    for priority in (1, 9, 5):
        celery_app.note.apply_async([f"priority-{priority}"], priority=priority, queue=queue_name)
    noted = [match[1] for match in hire().wait_for(r"noted (priority-\d)", count=3)]
    assert noted == ["priority-9", "priority-5", "priority-1"]


def test_a_route_sends_a_task_through_a_topic_exchange(worker):
    assert celery_app.alarm.delay().get(timeout=LIMIT_SECS) == [celery_app.TOPICS, "urgent.alarm"]


def test_remote_control_and_events(worker):
    control = celery_app.app.control
    assert control.inspect(destination=[worker.name], timeout=LIMIT_SECS, limit=1).ping() == {
        worker.name: {"ok": "pong"}
    }
    queues = control.inspect(destination=[worker.name], timeout=LIMIT_SECS, limit=1).active_queues()
    assert {queue["name"] for queue in queues[worker.name]} == {
        queue.name for queue in celery_app.app.conf.task_queues
    }
    control.enable_events(destination=[worker.name], reply=True, timeout=LIMIT_SECS, limit=1)
    seen = []
    with celery_app.app.connection_for_read() as connection:
        receiver = celery_app.app.events.Receiver(connection, handlers={"*": lambda event: seen.append(event["type"])})
        with receiver.consumer_context(wakeup=False) as (receiving, _channel, _consumers):
            result = celery_app.add.delay(1, 1)
            while "task-succeeded" not in seen:
                receiving.drain_events(timeout=LIMIT_SECS)
    assert result.get(timeout=LIMIT_SECS) == 2
    assert [kind for kind in seen if kind.startswith("task-")] == ["task-received", "task-started", "task-succeeded"]


def test_a_worker_comes_back_after_a_restart(restartable_broker, hire, queue_name):
    worker = hire()
    celery_app.note.apply_async(["before"], queue=queue_name)
    worker.wait_for("noted before")

    restartable_broker.restart()

    celery_app.note.apply_async(["after"], queue=queue_name)
    worker.wait_for("noted after", limit_secs=START_LIMIT_SECS)
