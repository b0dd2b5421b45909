"""The work-queue lecture: tasks shared by workers, with real processes that run the programs of work_queue/."""

import pytest

from lecture import Received, Stage, Worker

PERSISTENT, TRANSIENT = 2, 1


@pytest.fixture
def stage(broker):
    """The lecture's queue is always `task_queue`, so each test begins and ends by deleting it."""
    stage = Stage(broker)
    stage.clear()
    yield stage
    stage.clear()


# Round robin.


def test_three_workers_share_ten_tasks_in_turn_and_each_task_is_done_once(stage):
    workers = [stage.start_worker() for _ in range(3)]
    tasks = [f"task {number}" for number in range(1, 11)]

    for done, task in enumerate(tasks, start=1):
        stage.send(task)
        stage.expect_done(done)

    assert [worker.tasks for worker in workers] == [tasks[0::3], tasks[1::3], tasks[2::3]]
    for worker in workers:
        worker.kill()
    # Had an acknowledgement been lost, its task would be back.
    stage.expect_depth(ready=0, consumers=0)


# Fair dispatch.


def test_a_slow_worker_does_not_hold_up_the_others(stage):
    for _ in range(3):
        stage.start_worker()
    stage.send("slow..")
    slow = stage.holder_of("slow..")
    slow.freeze_at_work()
    others = [worker for worker in stage.workers if worker is not slow]

    for done in range(1, 7):
        stage.send(f"quick {done}")
        stage.expect_done(done, *others)

    assert [len(worker.tasks) for worker in others] == [3, 3], stage
    assert slow.tasks == ["slow.."]
    slow.thaw()
    stage.expect_done(7)


def test_a_task_behind_a_busy_worker_goes_to_one_that_comes_later(stage):
    busy = stage.start_worker()
    stage.send("slow..")
    stage.holder_of("slow..").freeze_at_work()
    stage.send("waiting")
    stage.expect_depth(ready=1, consumers=1)

    late = stage.start_worker()

    stage.expect_done(1, late)
    assert late.received == [Received("waiting", redelivered=False)]
    busy.thaw()
    stage.expect_done(2)


# A worker is lost in the middle of a task.


@pytest.mark.parametrize(
    ("way_out", "leave"),
    [
        pytest.param("connection", Worker.kill, id="SIGKILL"),
        pytest.param("connection", Worker.tell_to_leave, id="connection closed"),
        pytest.param("channel", Worker.tell_to_leave, id="channel closed"),
    ],
)
def test_the_task_of_a_lost_worker_goes_redelivered_and_in_its_old_place_to_another(stage, way_out, leave):
    lost = stage.start("quitter.py", way_out)
    for task in ("begun", "second", "third"):
        stage.send(task)
    assert stage.holder_of("begun").received == [Received("begun", redelivered=False)]
    stage.expect_depth(ready=2, consumers=1)

    leave(lost)
    stage.expect_depth(ready=3, consumers=0)

    heir = stage.start_worker()
    stage.expect_done(3, heir)
    assert heir.received == [
        Received("begun", redelivered=True),
        Received("second", redelivered=False),
        Received("third", redelivered=False),
    ]


def test_only_the_channel_of_a_worker_needs_to_close_for_its_task_to_go_to_another(stage):
    left = stage.start("quitter.py", "channel")
    stage.send("begun")
    stage.holder_of("begun")
    heir = stage.start_worker()

    left.tell_to_leave()

    stage.expect_done(1, heir)
    assert heir.received == [Received("begun", redelivered=True)]
    assert left.is_running, "its connection should still be open"


def test_a_waiting_worker_takes_over_the_task_of_one_killed_at_work(stage):
    stage.start_worker()
    stage.start_worker()
    stage.send("begun..")
    killed = stage.holder_of("begun..")
    [heir] = [worker for worker in stage.workers if worker is not killed]

    killed.freeze_at_work()
    killed.kill()

    stage.expect_done(1, heir)
    assert heir.received == [Received("begun..", redelivered=True)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first leaves first", "second leaves first"])
def test_tasks_of_two_lost_workers_return_to_their_old_places(stage, order):
    lost = [stage.start("quitter.py", "connection") for _ in range(2)]
    for task in ("first", "second", "third", "fourth"):
        stage.send(task)
    assert [stage.holder_of("first"), stage.holder_of("second")] == lost
    stage.expect_depth(ready=2, consumers=2)

    for returned, index in enumerate(order, start=1):
        lost[index].tell_to_leave()
        stage.expect_depth(ready=2 + returned, consumers=2 - returned)

    heir = stage.start_worker()
    stage.expect_done(4, heir)
    assert heir.received == [
        Received("first", redelivered=True),
        Received("second", redelivered=True),
        Received("third", redelivered=False),
        Received("fourth", redelivered=False),
    ]


# The broker is restarted.


@pytest.mark.timeout(120)
@pytest.mark.parametrize("restart", ["SIGTERM", "SIGKILL"])
def test_queue_and_persistent_tasks_survive_a_restart_in_order_and_transient_ones_do_not(
    restartable_broker, stage, restart
):
    stage.start("quitter.py", "connection")
    stage.publish_confirmed("begun", PERSISTENT)
    stage.holder_of("begun")
    for number in range(1, 4):
        stage.publish_confirmed(f"persistent {number}", PERSISTENT)
        stage.publish_confirmed(f"transient {number}", TRANSIENT)
    stage.expect_depth(ready=6, consumers=1)

    {"SIGTERM": restartable_broker.restart, "SIGKILL": restartable_broker.kill}[restart]()

    assert stage.depth().ready == 4
    heir = stage.start_worker()
    stage.expect_done(4, heir)
    assert heir.tasks == ["begun", "persistent 1", "persistent 2", "persistent 3"]
    # It was handed out before; of the others RabbitMQ knows that only after an orderly end.
    assert heir.received[0].redelivered


@pytest.mark.timeout(120)
def test_a_task_done_before_an_orderly_restart_does_not_come_back_and_one_just_sent_does(restartable_broker, stage):
    worker = stage.start_worker()
    stage.send("done before")
    stage.expect_done(1)
    worker.kill()
    stage.expect_depth(ready=0, consumers=0)
    stage.send("sent before")

    restartable_broker.restart()

    heir = stage.start_worker()
    stage.send("sent after")
    stage.expect_done(2, heir)
    assert heir.tasks == ["sent before", "sent after"]


# Without acknowledgements.


def test_an_auto_ack_worker_gets_each_task_once(stage):
    worker = stage.start("auto_ack_worker.py")
    tasks = ["first", "second", "third"]

    for task in tasks:
        stage.send(task)
    stage.expect_done(3)

    assert worker.received == [Received(task, redelivered=False) for task in tasks]
    worker.kill()
    stage.expect_depth(ready=0, consumers=0)


def test_what_an_auto_ack_worker_was_sent_is_gone_when_it_is_killed(stage):
    killed = stage.start("auto_ack_worker.py")
    stage.send("begun..")
    stage.holder_of("begun..").freeze_at_work()
    stage.send("sent, but never begun")
    stage.expect_depth(ready=0, consumers=1)

    killed.kill()

    stage.expect_depth(ready=0, consumers=0)
    heir = stage.start_worker()
    stage.send("another")
    stage.expect_done(1, heir)
    assert heir.received == [Received("another", redelivered=False)]
