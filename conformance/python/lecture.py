"""The work-queue lecture on stage: its programs as processes whose output a test reads, and a look at its queue."""

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import pika
import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent / "work_queue"
QUEUE = "task_queue"
# How long a condition may take to come true. A machine that does nothing else needs a tenth.
LIMIT_SECS = 20
POLL_SECS = 0.02

Depth = collections.namedtuple("Depth", ["ready", "consumers"])
Received = collections.namedtuple("Received", ["task", "redelivered"])


def eventually(condition, wanted, shown):
    """Returns when `condition()` is true; if it never is, fails with what was wanted and how `shown` looks then."""
    deadline = time.monotonic() + LIMIT_SECS
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not so after {LIMIT_SECS} s: {wanted}\n{shown}", pytrace=False)
        time.sleep(POLL_SECS)


class Worker:
    """A running program of the lecture that takes tasks."""

    def __init__(self, script, *arguments, environment):
        self.name = script
        self._lines = []
        self._process = subprocess.Popen(
            [sys.executable, SCRIPTS / script, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self._lines.append(line.rstrip("\n"))

    def __str__(self):
        return f"{self.name} (pid {self._process.pid}):\n" + "\n".join(self._lines)

    @property
    def received(self):
        """What it printed about tasks it got, in order."""
        found = [re.fullmatch(r" \[x\] Received (.*?)(, redelivered)?", line) for line in list(self._lines)]
        return [Received(match[1], match[2] is not None) for match in found if match]

    @property
    def tasks(self):
        return [received.task for received in self.received]

    @property
    def done_count(self):
        return self._lines.count(" [x] Done")

    @property
    def is_running(self):
        return self._process.poll() is None

    def has_printed(self, beginning):
        return any(line.startswith(beginning) for line in list(self._lines))

    def wait_for(self, beginning):
        eventually(
            lambda: self.has_printed(beginning) or not self._reader.is_alive(), f"a line {beginning!r}", shown=self
        )
        assert self.has_printed(beginning), f"ended without a line {beginning!r}: {self}"

    def freeze_at_work(self):
        """Stops the process in the middle of its task: from here on it is as slow as the test wants."""
        self._process.send_signal(signal.SIGSTOP)
        assert self.done_count < len(self.received), f"was too fast to be caught at work: {self}"

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)

    def tell_to_leave(self):
        """The line for which work_queue/quitter.py waits."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.wait_for(" [x] Left")

    def kill(self):
        """SIGKILL, which also ends a frozen process."""
        self._process.kill()
        self._process.wait(LIMIT_SECS)
        self._reader.join(LIMIT_SECS)
        self._process.stdin.close()
        self._process.stdout.close()


class Stage:
    """The lecture's queue and whatever programs a test puts around it."""

    def __init__(self, broker):
        # Everything of the lecture's own, only host and port are the broker's.
        self._environment = os.environ | {
            "AMQP_HOST": broker.host,
            "AMQP_PORT": str(broker.port),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._parameters = pika.ConnectionParameters(
            host=broker.host,
            port=broker.port,
            credentials=pika.PlainCredentials("guest", "guest"),
            socket_timeout=LIMIT_SECS,
            stack_timeout=LIMIT_SECS,
            blocked_connection_timeout=LIMIT_SECS,
        )
        self.workers = []
        self._depth = None

    def clear(self):
        for worker in self.workers:
            worker.kill()
        with pika.BlockingConnection(self._parameters) as connection:
            connection.channel().queue_delete(QUEUE)

    def start(self, script, *arguments):
        """Starts a program of the lecture; returns when it waits for tasks, which is behind its `basic.consume-ok`."""
        worker = Worker(script, *arguments, environment=self._environment)
        self.workers.append(worker)
        worker.wait_for(" [*] Waiting for tasks")
        return worker

    def start_worker(self):
        return self.start("worker.py")

    def send(self, task):
        """Runs the lecture's producer to its end."""
        sent = subprocess.run(
            [sys.executable, SCRIPTS / "new_task.py", task],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECS,
            check=False,
        )
        assert (sent.returncode, sent.stdout) == (0, f" [x] Sent {task}\n"), sent.stderr

    def publish_confirmed(self, task, delivery_mode):
        """Returns when the broker has taken responsibility, which the lecture's producer does not wait for."""
        with pika.BlockingConnection(self._parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            properties = pika.BasicProperties(delivery_mode=delivery_mode)
            channel.basic_publish("", QUEUE, task, properties=properties, mandatory=True)

    def depth(self):
        with pika.BlockingConnection(self._parameters) as connection:
            answer = connection.channel().queue_declare(QUEUE, passive=True).method
            self._depth = Depth(ready=answer.message_count, consumers=answer.consumer_count)
            return self._depth

    def expect_depth(self, ready, consumers):
        wanted = Depth(ready, consumers)
        eventually(lambda: self.depth() == wanted, wanted, shown=self)

    def expect_done(self, count, *workers):
        """That these workers, or all, have done so many tasks between them, and have none in hand."""
        workers = workers or self.workers
        eventually(lambda: sum(worker.done_count for worker in workers) >= count, f"{count} tasks done", shown=self)
        received = [task for worker in workers for task in worker.tasks]
        assert len(received) == count, f"{count} tasks done and no other begun; {self}"

    def holder_of(self, task):
        """The worker that got this task."""
        eventually(lambda: any(task in worker.tasks for worker in self.workers), f"{task!r} received", shown=self)
        [holder] = [worker for worker in self.workers if task in worker.tasks]
        return holder

    def __str__(self):
        return "\n".join([f"{QUEUE} last seen with {self._depth}", *map(str, self.workers)])
