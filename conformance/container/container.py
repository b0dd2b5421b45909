"""Containers without an engine: what `docker run`, `docker exec`, `docker stop` and `docker logs` do, with namespaces.

Every container has a network of its own, with 127.0.0.1 and one more address, so that all of them use the image's own
ports. A test enters that network for as long as it connects.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import pika

import http_api
from program import LIMIT_SECS, eventually

LAUNCH = pathlib.Path(__file__).resolve().parent / "launch.py"
CLONE_NEWNET = 0x40000000
ADDRESS = "172.30.0.2"
RABBITMQ = 999
COMPLETE = "Server startup complete"


class Ran:
    """How a command in a container ended."""

    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

    def __repr__(self):
        return f"exit code {self.code}\n{self.out}{self.err}"


class Container:
    """One container; `hostname` is that of a container nobody named."""

    def __init__(self, image, command, environment, mounts, hostname, user, entry_point, read_only):
        settings = image.settings
        self._place = tempfile.mkdtemp(prefix="leveret-container-")
        self.environment = settings.environment | {"HOSTNAME": hostname} | environment
        words = settings.entry_point if entry_point is None else entry_point
        told = {
            "address": ADDRESS,
            "hostname": hostname,
            "place": self._place,
            "layers": image.layers,
            "mounts": mounts,
            "read_only": read_only,
            "uid": user,
            "gid": user,
            "command": [*words, *(settings.command if command is None else command)],
            "environment": self.environment,
        }
        apart = "unshare --mount --propagation private --pid --net --uts --ipc --fork --kill-child".split()
        self.began = time.monotonic()
        self._process = subprocess.Popen(
            [*apart, sys.executable, LAUNCH, json.dumps(told)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        # Apart, since some who wait for the line that tells of the start read standard output only; each line with its
        # moment.
        self.stdout, self.stderr = [], []
        self._readers = [
            threading.Thread(target=self._read, args=each, daemon=True)
            for each in ((self._process.stdout, self.stdout), (self._process.stderr, self.stderr))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(pipe, lines):
        for line in pipe:
            lines.append((time.monotonic(), line.decode(errors="replace").rstrip("\n")))

    def __str__(self):
        return self.log

    @property
    def out(self):
        return "\n".join(line for _, line in self.stdout)

    @property
    def err(self):
        return "\n".join(line for _, line in self.stderr)

    @property
    def log(self):
        return f"{self.out}\n{self.err}"

    @property
    def is_running(self):
        return self._process.poll() is None

    @property
    def pid(self):
        """Process 1, as this machine numbers it."""
        path = pathlib.Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        eventually(path.read_text, "a process in the container", self)
        pid = int(path.read_text().split()[0])
        # Before that it is still on its way there.
        eventually(lambda: not os.path.samefile(f"/proc/{pid}/root", "/"), "a root of its own", self)
        return pid

    def wait_for(self, text, limit_secs=LIMIT_SECS):
        """Returns when that is in the log."""
        eventually(lambda: text in self.log or not self.is_running, f"{text!r} in the log", self, limit_secs)
        assert text in self.log, f"the container ended without {text!r}\n{self.log}"
        return self

    def started(self):
        return self.wait_for(COMPLETE)

    def ended(self):
        """Its exit code, when it has one."""
        self._process.wait(LIMIT_SECS)
        for reader in self._readers:
            reader.join(LIMIT_SECS)
        return self._process.returncode

    def stop(self):
        """The image's signal to process 1: exit code and seconds that took."""
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        return self.ended(), time.monotonic() - began

    def remove(self):
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self.ended()
        self._process.stdout.close()
        self._process.stderr.close()
        os.rmdir(self._place)

    def exec(self, *command, user=0, stdin="", environment=None):
        """Runs a command as `docker exec` does."""
        pid = self.pid
        variables = self.environment | (environment or {})
        enter = ["nsenter", "--target", str(pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--root", "--wd=/"]
        if user:
            enter += ["--setuid", str(user), "--setgid", str(user)]
        told = [f"{name}={value}" for name, value in variables.items()]
        done = subprocess.run(
            [*enter, "env", "-i", *told, *command],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECS,
            check=False,
        )
        return Ran(done)

    def ok(self, *command, **options):
        ran = self.exec(*command, **options)
        assert ran.code == 0, f"{command}: {ran}\n{self.log}"
        return ran.out

    def shell(self, line, **options):
        """Like a health check in the form CMD-SHELL."""
        return self.exec("/bin/sh", "-c", line, **options)

    @contextlib.contextmanager
    def network(self):
        """Sockets that this thread makes in here are in the container's network, and stay there."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net") as own, open(f"/proc/{self.pid}/ns/net") as its:
            assert libc.setns(its.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
            try:
                yield
            finally:
                assert libc.setns(own.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())

    def connect(self, user="guest", password="guest", vhost="/", host=ADDRESS, port=5672, **more):
        """A pika connection; by default from another address than 127.0.0.1."""
        parameters = pika.ConnectionParameters(
            host,
            port,
            vhost,
            pika.PlainCredentials(user, password),
            socket_timeout=LIMIT_SECS,
            stack_timeout=LIMIT_SECS,
            blocked_connection_timeout=LIMIT_SECS,
            **more,
        )
        with self.network():
            return pika.BlockingConnection(parameters)

    def page(self, path, port=15672):
        """What is served without a login, and outside of the API."""
        with self.network(), urllib.request.urlopen(f"http://{ADDRESS}:{port}{path}", timeout=LIMIT_SECS) as answer:
            return answer.headers.get_content_type(), answer.read().decode()

    def api(self, path, user="guest", password="guest", method="GET", body=None, host=ADDRESS, port=15672):
        client = http_api.Api(f"http://x:x@{host}:{port}", user, password)
        with self.network():
            return client.request(method, path, body)


class Image:
    """The image under test."""

    def __init__(self, layers, settings):
        self.layers = layers
        self.settings = settings
        self.containers = []

    def run(
        self, command=None, environment=None, mounts=(), hostname="4f1d3c5b7a9e", user=0, entry_point=None, read_only=False
    ):
        """A container. `mounts` are triples of a path here or `tmpfs`, a path there, and options."""
        one = Container(
            self, command, environment or {}, [list(map(str, each)) for each in mounts], hostname, user, entry_point, read_only
        )
        self.containers.append(one)
        return one

    def start(self, **options):
        """A container whose broker has started."""
        return self.run(**options).started()

    def remove_containers(self):
        while self.containers:
            self.containers.pop().remove()
