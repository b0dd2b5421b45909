"""The broker under test: where it is, what it says it is, and how to take it down and up again.

A broker is an AMQP URL and, where somebody may stop and start it, a control command: a program with the verbs
`restart`, `kill`, `start`, `status` and `log`. `conformance/leveret` and `conformance/oracle` are such programs.
"""

import os
import pathlib
import shlex
import socket
import subprocess

import pika
import pika.frame
import pika.spec

CONNECT_LIMIT_SECS = 5
# RabbitMQ needs five to ten seconds to stop and start on a quiet machine.
CONTROL_LIMIT_SECS = 90


class BrokerUnavailable(Exception):
    """There is no broker to test at that address, or its control command failed."""


class Broker:
    """One broker, at the same address for the whole run, restarts included."""

    def __init__(self, url, control=None, http_url=None):
        self.url = url
        self._http_url = http_url
        self.parameters = pika.URLParameters(url)
        if self.parameters.ssl_options is not None:
            raise BrokerUnavailable(f"{url}: this suite speaks plain AMQP, not TLS")
        # pika waits for ever by default.
        self.parameters.socket_timeout = CONNECT_LIMIT_SECS
        self.parameters.stack_timeout = 2 * CONNECT_LIMIT_SECS
        self.parameters.blocked_connection_timeout = 2 * CONNECT_LIMIT_SECS
        self.host = self.parameters.host
        self.port = self.parameters.port
        self.vhost = self.parameters.virtual_host
        self.user = self.parameters.credentials.username
        self.password = self.parameters.credentials.password
        self._control = shlex.split(control) if control else None
        self.log = pathlib.Path(self._run_control("log")) if self._control else None
        self._pid = int(self._run_control("status")) if self._control else None
        self.server_properties = greeting_of(self.host, self.port).server_properties

    @property
    def product(self):
        return self.server_properties.get("product")

    @property
    def version(self):
        return self.server_properties.get("version")

    @property
    def platform(self):
        return self.server_properties.get("platform")

    @property
    def is_rabbitmq(self):
        """The product's name does not tell: a drop-in may use it too. Only the original runs on Erlang."""
        return self.product == "RabbitMQ" and str(self.platform).startswith("Erlang")

    @property
    def http_url(self):
        """Where its HTTP API is, with the credentials of an administrator; None if nobody says."""
        if self._http_url is None and self._control is not None:
            self._http_url = self._run_control("http")
        return self._http_url

    def control_status(self):
        """The process id, as the control command tells it now."""
        return int(self._run_control("status"))

    def tool(self, name, *arguments, stdin=""):
        """Runs one of RabbitMQ's programs on the broker's machine: exit code, standard output, standard error."""
        done = subprocess.run(
            [*self._control, "tool", name, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=CONTROL_LIMIT_SECS,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    @property
    def is_controlled(self):
        return self._control is not None

    def __str__(self):
        return f"{self.product} {self.version} ({self.platform}) at {self.host}:{self.port}"

    def connect(self):
        """A pika connection with the user and vhost of the URL."""
        return pika.BlockingConnection(self.parameters)

    def restart(self):
        """SIGTERM, an orderly end, and a new start with the same data."""
        self._start_by("restart")

    def kill(self):
        """SIGKILL and a new start with the same data."""
        self._start_by("kill")

    def start(self):
        """A new start with the same data after an end that nobody asked for."""
        self._start_by("start")

    def why_down(self):
        """What the control command says if the broker is not running any more, else None."""
        # Asked after every test: a look at the process costs nothing, and the command only has to explain.
        if self._control is None or is_alive(self._pid):
            return None
        status = subprocess.run(
            [*self._control, "status"], capture_output=True, text=True, timeout=CONTROL_LIMIT_SECS, check=False
        )
        return None if status.returncode == 0 else (status.stdout + status.stderr).strip()

    def log_size_bytes(self):
        return self.log.stat().st_size if self.log and self.log.exists() else 0

    def log_since(self, offset_bytes):
        """What the broker logged behind that offset; empty where there is no log to read."""
        if not self.log or not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(offset_bytes)
            return log.read().decode(errors="replace")

    def _start_by(self, verb):
        self._run_control(verb)
        self._pid = int(self._run_control("status"))

    def _run_control(self, verb):
        done = subprocess.run(
            [*self._control, verb], capture_output=True, text=True, timeout=CONTROL_LIMIT_SECS, check=False
        )
        if done.returncode != 0:
            raise BrokerUnavailable(f"`{shlex.join(self._control)} {verb}` failed:\n{done.stdout}{done.stderr}")
        return done.stdout.strip()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def greeting_of(host, port):
    """The `connection.start` with which the broker answers the protocol header; needs no login."""
    received = b""
    try:
        with socket.create_connection((host, port), timeout=CONNECT_LIMIT_SECS) as peer:
            peer.sendall(pika.frame.ProtocolHeader().marshal())
            while True:
                _, frame = pika.frame.decode_frame(received)
                if frame is not None:
                    break
                more = peer.recv(65536)
                if not more:
                    raise BrokerUnavailable(f"{host}:{port} closed the connection after {received!r}")
                received += more
    except OSError as error:
        raise BrokerUnavailable(f"no broker at {host}:{port}: {error}") from error
    method = getattr(frame, "method", None)
    if not isinstance(method, pika.spec.Connection.Start):
        raise BrokerUnavailable(f"{host}:{port} does not greet like an AMQP 0-9-1 broker: {received!r}")
    return method


def broker_from_environment():
    """The broker that the harness chose, or None if it chose none."""
    url = os.environ.get("BROKER_URL")
    http_url = os.environ.get("BROKER_HTTP_URL")
    return Broker(url, os.environ.get("BROKER_CONTROL"), http_url) if url else None
