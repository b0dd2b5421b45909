"""A work queue whose workers are programs of a client: they say what they received and wait to be told that it is done.

A worker prints `ready`, then for each task `received TASK first` or `received TASK again`; it acknowledges when a line
comes on its input, and prints `done TASK`.
"""

import os
import pathlib
import sys

from program import Program, eventually

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"


def start_workers(script, queue_name, count):
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, PROGRAMS / script, queue_name]
    workers = [Program(f"{script} {number}", command, environment) for number in range(1, count + 1)]
    for worker in workers:
        worker.wait_for("^ready$")
    return workers


def received(worker):
    return [match[1] for match in worker.printed(r"^received (\S+ (?:first|again))$")]


def share_six_tasks_of_which_one_is_lost(workers):
    """Six tasks, `task-1` to `task-6`, are in the queue of three workers. Each gets one; one worker is killed at it."""
    for worker in workers:
        worker.wait_for("^received")
    first_round = sorted(task for worker in workers for task in received(worker))
    assert first_round == ["task-1 first", "task-2 first", "task-3 first"], "each worker has one, and one only"

    lost, *others = workers
    [held] = received(lost)
    lost.kill()

    told = dict.fromkeys(others, 0)

    def all_are_done():
        for worker in others:
            if len(received(worker)) > told[worker]:
                told[worker] += 1
                worker.say()
        return sum(len(worker.printed("^done")) for worker in others) == 6

    eventually(all_are_done, "all tasks done", shown="\n".join(map(str, workers)))
    tasks = sorted(task for worker in others for task in received(worker))
    again = held.replace("first", "again")
    assert tasks == sorted([again, *(f"task-{n} first" for n in range(1, 7) if f"task-{n} first" != held)])


def kill_all(workers):
    for worker in workers:
        worker.kill()
