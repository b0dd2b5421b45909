"""A Leveret of a test's own, with the settings that the test is about."""

import contextlib
import json
import os
import subprocess
import time

import pika
import pytest

from http_api import Api

START_LIMIT_SECS = 30
STOP_LIMIT_SECS = 20


class Own:
    """It runs until `stop`, with its log in a file."""

    def __init__(self, directory, conf, environment=None, arguments=()):
        self.log = directory / "log"
        ports = directory / "ports"
        path = directory / "rabbitmq.conf"
        path.write_text(conf, encoding="utf-8")
        self._process = subprocess.Popen(
            [
                *(os.environ["LEVERET_BIN"], "--config", path, "--storage", "memory", "--listen", "127.0.0.1:0"),
                *("--http-listen", "127.0.0.1:0", "--node-name", f"settings-{os.getpid()}@localhost"),
                *("--ports-file", ports, *arguments),
            ],
            stderr=self.log.open("w"),
            stdout=subprocess.DEVNULL,
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": str(directory), **(environment or {})},
        )
        deadline = time.monotonic() + START_LIMIT_SECS
        while not ports.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"it did not start:\n{self.said()}", pytrace=False)
            time.sleep(0.02)
        known = json.loads(ports.read_text(encoding="utf-8"))
        [self.port], [http] = known["amqp"], known["http"]
        self.http_url = f"http://guest:guest@127.0.0.1:{http}"

    def api(self, user="guest", password="guest"):
        return Api(self.http_url, user, password)

    def connect(self, user="guest", password="guest", vhost="/"):
        credentials = pika.PlainCredentials(user, password)
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", self.port, vhost, credentials))

    def said(self):
        return self.log.read_text(encoding="utf-8")

    def warnings(self):
        return [line for line in self.said().splitlines() if "[warning]" in line]

    def stop(self):
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_LIMIT_SECS)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


@contextlib.contextmanager
def running(directory, conf="", **more):
    own = Own(directory, conf, **more)
    try:
        yield own
    finally:
        own.stop()
