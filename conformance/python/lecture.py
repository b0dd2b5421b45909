"""The work-queue lecture on stage: its programs as processes whose output a test reads, and a look at its queue."""

import collections
import os
import pathlib
import signal
import subprocess
import sys

import pika

from program import LIMIT_SECS, Program, eventually

SCRIPTS = pathlib.Path(__file__).resolve().parent / "work_queue"
QUEUE = "task_queue"

Depth = collections.namedtuple("Depth", ["ready", "consumers"])
Received = collections.namedtuple("Received", ["task", "redelivered"])


class Worker(Program):
    """A running program of the lecture that takes tasks."""

    def __init__(self, script, *arguments, environment):
        super().__init__(script, [sys.executable, SCRIPTS / script, *arguments], environment)

    @property
    def received(self):
        """What it printed about tasks it got, in order."""
        found = self.printed(r"^ \[x\] Received (.*?)(, redelivered)?$")
        return [Received(match[1], match[2] is not None) for match in found]

    @property
    def tasks(self):
        return [received.task for received in self.received]

    @property
    def done_count(self):
        return self.lines.count(" [x] Done")

    def freeze_at_work(self):
        """Stops the process in the middle of its task: from here on it is as slow as the test wants."""
        self.send_signal(signal.SIGSTOP)
        assert self.done_count < len(self.received), f"was too fast to be caught at work: {self}"

    def thaw(self):
        self.send_signal(signal.SIGCONT)

    def tell_to_leave(self):
        """The line for which work_queue/quitter.py waits."""
        self.say()
        self.wait_for(r"^ \[x\] Left")


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
        worker.wait_for(r"^ \[\*\] Waiting for tasks")
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
