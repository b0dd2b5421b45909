"""A peer that sends whatever it likes, and says what came back."""

import base64
import json
import pathlib
import socket
import struct
import time
import urllib.error
import urllib.parse
import urllib.request

from frames.wire import (
    BODY,
    HEADER,
    METHOD,
    METHODS,
    PROTOCOL_HEADER,
    Frame,
    decode_method,
    encode_header,
    encode_method,
    take_frame,
)

PATIENCE = 15.0
"""Seconds within which a healthy broker answers or ends a socket, also on a busy machine."""


def until(condition, limit=PATIENCE, text="it did not come to that"):
    """Returns when the condition holds."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, text
        time.sleep(0.02)


CAPABILITIES = {"authentication_failure_close": True, "basic.nack": True, "publisher_confirms": True}


class Peer:
    """One socket. Nothing is sent by itself."""

    def __init__(self, port, host="127.0.0.1", sock=None):
        self.sock = sock or socket.create_connection((host, port), timeout=PATIENCE)
        self.sock.settimeout(PATIENCE)
        self.buffer = bytearray()

    # --- sending

    def write(self, data):
        """Sends; a broker that has hung up already is no failure of ours."""
        try:
            self.sock.sendall(data)
        except OSError:
            pass
        return self

    def frame(self, kind, channel, payload):
        return self.write(Frame(kind, channel, payload).encode())

    def send(self, name, channel=1, **arguments):
        return self.frame(METHOD, channel, encode_method(name, **arguments))

    def publish(self, body, channel=1, exchange="", routing_key="", properties=None, **arguments):
        self.send("basic.publish", channel, exchange=exchange, routing_key=routing_key, **arguments)
        self.frame(HEADER, channel, encode_header(len(body), properties or {}))
        for at in range(0, len(body), 131064):
            self.frame(BODY, channel, body[at : at + 131064])
        return self

    # --- reading

    def read(self, timeout=PATIENCE):
        """The next frame, or `None` at the end of the socket."""
        deadline = time.monotonic() + timeout
        while (frame := take_frame(self.buffer)) is None:
            left = deadline - time.monotonic()
            assert left > 0, "the broker is silent"
            self.sock.settimeout(left)
            try:
                data = self.sock.recv(1 << 16)
            except TimeoutError:
                raise AssertionError("the broker is silent") from None
            except OSError:
                return None
            if not data:
                return None
            self.buffer += data
        return frame

    def method(self, timeout=PATIENCE):
        """The next method, or `None` at the end of the socket."""
        while (frame := self.read(timeout)) is not None:
            if frame.kind == METHOD:
                return decode_method(frame.payload)
        return None

    def expect(self, name):
        method = self.method()
        assert method is not None and method.name == name, f"{name} expected, not {method}"
        return method

    def ask(self, method, answer, channel=1, **arguments):
        self.send(method, channel, **arguments)
        return self.expect(answer)

    def refusal(self):
        """The code of the close that comes, or `None` for an end without one."""
        while (method := self.method()) is not None:
            if method.name in ("connection.close", "channel.close"):
                return method.arguments["reply_code"]
        return None

    def rest(self, timeout=PATIENCE):
        """All bytes up to the end of the socket."""
        deadline = time.monotonic() + timeout
        while True:
            self.sock.settimeout(max(deadline - time.monotonic(), 0.01))
            try:
                data = self.sock.recv(1 << 16)
            except TimeoutError:
                raise AssertionError("the socket is still open") from None
            except OSError:
                data = b""
            if not data:
                rest = bytes(self.buffer)
                self.buffer.clear()
                return rest
            self.buffer += data

    def ends(self, timeout=PATIENCE):
        self.rest(timeout)
        return self

    def hang_up(self):
        self.sock.close()

    # --- the way in

    def greet(self):
        self.write(PROTOCOL_HEADER)
        self.expect("connection.start")
        return self

    def start_ok(self, mechanism="PLAIN", response="\0guest\0guest", properties=None):
        properties = {"capabilities": CAPABILITIES} if properties is None else properties
        return self.send(
            "connection.start-ok",
            0,
            client_properties=properties,
            mechanism=mechanism,
            response=response,
            locale="en_US",
        )

    def login(self, user="guest", password="guest", **options):
        """What comes after the login: `connection.tune`, a close, or `None`."""
        self.greet()
        self.start_ok(response=f"\0{user}\0{password}", **options)
        return self.method()

    def open(self, user="guest", password="guest", vhost="/", channel=True, heartbeat=0):
        assert (tune := self.login(user, password)) is not None and tune.name == "connection.tune", tune
        self.send("connection.tune-ok", 0, channel_max=2047, frame_max=131072, heartbeat=heartbeat)
        self.ask("connection.open", "connection.open-ok", 0, virtual_host=vhost)
        if channel:
            self.ask("channel.open", "channel.open-ok")
        return self

    def queue(self, name="", **arguments):
        answer = self.ask("queue.declare", "queue.declare-ok", queue=name, **arguments)
        return answer.arguments["queue"]

    def is_alive(self):
        self.ask("basic.qos", "basic.qos-ok", prefetch_count=0)
        return self


class Api:
    """The HTTP API as one user."""

    def __init__(self, broker, user="guest", password="guest"):
        self.base = f"http://127.0.0.1:{broker.http_port}"
        self.authorization = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def call(self, method, path, body=None, headers=None):
        """Status and body."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data=data, method=method)
        request.add_header("authorization", self.authorization)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read()

    def get(self, path):
        status, body = self.call("GET", path)
        assert status == 200, (status, body)
        return json.loads(body)

    def put(self, path, body=None):
        status, answer = self.call("PUT", path, body if body is not None else {})
        assert status in (201, 204), (status, answer)

    def user(self, name, password, tags="", vhost="%2F", configure=".*", write=".*", read=".*"):
        self.put(f"/api/users/{urllib.parse.quote(name, safe='')}", {"password": password, "tags": tags})
        self.put(
            f"/api/permissions/{vhost}/{urllib.parse.quote(name, safe='')}",
            {"configure": configure, "write": write, "read": read},
        )


class Peak:
    """The most memory that a broker had since this was made."""

    def __init__(self, broker):
        self.broker = broker
        self.before = broker.rss()
        pathlib.Path(f"/proc/{broker.pid}/clear_refs").write_text("5")

    def grown(self):
        status = pathlib.Path(f"/proc/{self.broker.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        highest, of_files = (int(fields[name].split()[0]) * 1024 for name in ("VmHWM", "RssFile"))
        return highest - of_files - self.before


def raw_http(port, data, timeout=PATIENCE):
    """Sends these bytes and reads to the end."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as sock:
        sock.sendall(data)
        answer = b""
        try:
            while part := sock.recv(1 << 16):
                answer += part
        except OSError:
            pass
        return answer


def nested_tables(levels):
    """The payload of a table with tables in tables, by hand: an encoder would need the stack for it."""
    inner = b""
    for _ in range(levels):
        inner = b"\x01kF" + struct.pack(">I", len(inner)) + inner
    return struct.pack(">I", len(inner)) + inner


def method_ids(name):
    return struct.pack(">HH", *METHODS[name].ids)
