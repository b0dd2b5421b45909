"""A client that does exactly what a test tells it, also when that is wrong.

A [`Connection`] is one socket: raw bytes, frames, methods, the handshake. A [`Channel`] is one number on it. Every read
has a deadline, and a failing expectation shows what went over the wire so far. Events of other channels are kept until
they are asked for; a close by the broker that nobody expects fails the test.
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from .wire import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    METHODS,
    PROTOCOL_HEADER,
    Frame,
    Method,
    decode_header,
    decode_method,
    encode_header,
    encode_method,
    table_items,
    take_frame,
)

PATIENCE = 10.0
"""Seconds within which a healthy broker answers anything, even on a busy machine."""

SILENT_DROP = 8.0
"""Seconds within which a broker that drops a socket after some silence (RabbitMQ: 3) must have done it."""


@dataclass(frozen=True)
class Endpoint:
    host: str
    port: int
    user: str
    password: str
    vhost: str


# --- what the broker may say at the end -----------------------------------------------------------------------------

NO_METHOD = (0, 0)


@dataclass(frozen=True)
class Close:
    """A channel.close or connection.close. `text` may be a compiled pattern; `None` leaves that part open."""

    code: int
    text: str | re.Pattern | None = None
    method: str | tuple[int, int] | None = None

    def matches(self, actual: object) -> bool:
        if not isinstance(actual, Close) or self.code != actual.code:
            return False
        if isinstance(self.text, re.Pattern):
            if not self.text.fullmatch(actual.text):
                return False
        elif self.text is not None and self.text != actual.text:
            return False
        return self.method is None or _ids(self.method) == actual.method


def _ids(method: str | tuple[int, int]) -> tuple[int, int]:
    return METHODS[method].ids if isinstance(method, str) else method


@dataclass(frozen=True)
class Dropped:
    """The socket ended without connection.close."""

    def matches(self, actual: object) -> bool:
        return isinstance(actual, Dropped)


class SocketEnded(AssertionError):
    """The broker closed or reset the socket while more was expected."""


class ConnectionClosed(AssertionError):
    """The broker sent connection.close while something else was expected."""

    def __init__(self, close: Close, message: str) -> None:
        super().__init__(message)
        self.close = close


# --- connection -----------------------------------------------------------------------------------------------------

CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "exchange_exchange_bindings": True,
    "publisher_confirms": True,
}


class Connection:
    """One socket to the broker. The constructor connects and sends nothing."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint, self.vhost = endpoint, endpoint.vhost
        self.frame_max = 131072
        self.start: Method | None = None
        self.tune: Method | None = None
        self.sock = socket.create_connection((endpoint.host, endpoint.port), timeout=PATIENCE)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        self._held: bytearray | None = None
        self._inbox: dict[int, deque[Method]] = defaultdict(deque)
        self._contents: dict[int, list] = {}
        self._transcript: deque[str] = deque(maxlen=16)
        self._next_channel = 1

    # --- raw bytes and frames

    def write(self, data: bytes) -> None:
        self._note(f"-> {len(data)} bytes {data[:40]!r}")
        self._write(data)

    @contextmanager
    def in_one_write(self) -> Iterator[None]:
        """What is sent inside leaves together, so that the broker may well read it together."""
        self._held = bytearray()
        yield
        data, self._held = self._held, None
        self._write(bytes(data))

    def _write(self, data: bytes) -> None:
        if self._held is not None:
            self._held += data
            return
        self.sock.settimeout(PATIENCE)
        try:
            self.sock.sendall(data)
        except (ConnectionError, BrokenPipeError) as error:
            raise SocketEnded(self._failure(f"cannot write: {error}")) from None

    def send_frame(self, kind: int, channel: int, payload: bytes = b"") -> None:
        self.write(Frame(kind, channel, payload).encode())

    def send(self, channel: int, method: str, **arguments: Any) -> None:
        self._note(f"-> {channel} {method} {arguments}")
        self._write(Frame(METHOD, channel, encode_method(method, **arguments)).encode())

    def read_frame(self, timeout: float = PATIENCE) -> Frame:
        """The next frame, heartbeats included."""
        deadline = time.monotonic() + timeout
        while (frame := take_frame(self._buffer)) is None:
            self._fill(deadline)
        return frame

    def read_bytes(self, size: int, timeout: float = PATIENCE) -> bytes:
        deadline = time.monotonic() + timeout
        while len(self._buffer) < size:
            self._fill(deadline)
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def read_to_end(self, timeout: float = PATIENCE) -> bytes:
        """Everything up to the end of the socket."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                self._fill(deadline)
        except SocketEnded:
            rest = bytes(self._buffer)
            self._buffer.clear()
            return rest

    def _fill(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            self.fail("the broker is silent")
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(65536)
        except TimeoutError:
            self.fail("the broker is silent")
        except ConnectionError as error:
            raise SocketEnded(self._failure(f"socket ended: {error}")) from None
        if not data:
            raise SocketEnded(self._failure("socket ended"))
        self._buffer += data

    def expect_end(self, timeout: float = PATIENCE) -> None:
        """The broker ends the socket, with nothing but heartbeats before that."""
        deadline = time.monotonic() + timeout
        try:
            while True:
                frame = self.read_frame(deadline - time.monotonic())
                assert frame.kind == HEARTBEAT, self._failure(f"{frame} instead of the end of the socket")
        except SocketEnded:
            assert not self._buffer, self._failure(f"half a frame before the end: {bytes(self._buffer)!r}")

    def abort(self) -> None:
        """Ends the socket with a TCP reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def hang_up(self) -> None:
        """Ends the socket without a word of AMQP."""
        self.sock.close()

    # --- methods and contents

    def next(self, channel: int, timeout: float = PATIENCE) -> Method:
        """The next method on that channel, with its content if it has one."""
        deadline = time.monotonic() + timeout
        while not self._inbox[channel]:
            self._receive(deadline)
            if channel != 0 and self._inbox[0] and self._inbox[0][0].name == "connection.close":
                close = _close_of(self._inbox[0][0])
                raise ConnectionClosed(close, self._failure(f"the broker closed the connection: {close}"))
        return self._inbox[channel].popleft()

    def _receive(self, deadline: float) -> None:
        frame = self.read_frame(deadline - time.monotonic())
        channel = frame.channel
        if frame.kind == HEARTBEAT:
            assert (channel, frame.payload) == (0, b""), self._failure(f"odd heartbeat {frame}")
        elif frame.kind == METHOD:
            assert channel not in self._contents, self._failure(f"method inside a content: {frame}")
            method = decode_method(frame.payload)
            self._note(f"<- {channel} {method.name} {method.arguments}")
            if METHODS[method.name].has_content:
                self._contents[channel] = [method, None]
            else:
                self._inbox[channel].append(method)
        elif frame.kind == HEADER:
            method, size = self._contents.get(channel, (None, None))
            assert method is not None and size is None, self._failure(f"content header out of order: {frame}")
            self._contents[channel][1], method.properties = decode_header(frame.payload)
            self._note(f"<- {channel} header {self._contents[channel][1]} {method.properties}")
            self._finish_content(channel)
        elif frame.kind == BODY:
            method, size = self._contents.get(channel, (None, None))
            assert size is not None, self._failure(f"body out of order: {frame}")
            assert 0 < len(frame.payload) <= self.frame_max - 8, self._failure("size of a body frame")
            method.body += frame.payload
            assert len(method.body) <= size, self._failure("more body than announced")
            self._finish_content(channel)
        else:
            self.fail(f"frame of unknown kind: {frame}")

    def _finish_content(self, channel: int) -> None:
        method, size = self._contents[channel]
        if len(method.body) == size:
            del self._contents[channel]
            self._inbox[channel].append(method)

    def expect(self, name: str, timeout: float = PATIENCE) -> Method:
        """The next method on channel 0."""
        method = self.next(0, timeout)
        assert method.name == name, self._failure(f"{method} instead of {name}")
        return method

    def expect_close(
        self, code: int, text: str | re.Pattern | None, method: str | tuple[int, int] | None, timeout: float = PATIENCE
    ) -> None:
        """The broker closes the connection like this; answered with close-ok."""
        self.expect_outcome(Close(code, text, method), timeout=timeout)

    def expect_outcome(
        self, rabbitmq: Close | Dropped, better: Iterable[Close | Dropped] = (), timeout: float = PATIENCE
    ) -> None:
        """The connection ends the way RabbitMQ ends it, or one of the `better` ways that clients take as well."""
        outcome = self.outcome(timeout)
        accepted = [rabbitmq, *better]
        assert any(wanted.matches(outcome) for wanted in accepted), self._failure(f"{outcome}, not one of {accepted}")

    def outcome(self, timeout: float = PATIENCE) -> Close | Dropped:
        """How the broker ends this connection."""
        try:
            method = self.next(0, timeout)
        except SocketEnded:
            return Dropped()
        assert method.name == "connection.close", self._failure(f"{method} instead of connection.close")
        close = _close_of(method)
        try:
            self.send(0, "connection.close-ok")
        except SocketEnded:
            pass  # After a framing fault the broker need not read on.
        return close

    def is_healthy(self) -> bool:
        """The broker still opens channels here and has said nothing on channel 0."""
        channel = Channel(self, 65535)
        channel.open()
        channel.close()
        return not self._inbox[0]

    # --- handshake and end

    def login(
        self,
        *,
        vhost: str | None = None,
        user: str | None = None,
        password: str | None = None,
        capabilities: dict[str, Any] = CAPABILITIES,
        client_properties: dict[str, Any] = {},
        channel_max: int | None = None,
        frame_max: int | None = None,
        heartbeat: int = 0,
    ) -> Connection:
        # In as few turns as possible; the offer of tune has to be seen first.
        self.write(PROTOCOL_HEADER)
        self.send_start_ok(user, password, capabilities, client_properties)
        self.start = self.expect("connection.start")
        self.tune = self.expect("connection.tune")
        self.send_tune_ok(channel_max, frame_max, heartbeat)
        if vhost is not None:
            self.vhost = vhost
        self.send(0, "connection.open", virtual_host=self.vhost)
        self.expect("connection.open-ok")
        return self

    def greet(self) -> Method:
        self.write(PROTOCOL_HEADER)
        self.start = self.expect("connection.start")
        return self.start

    def send_start_ok(
        self,
        user: str | None = None,
        password: str | None = None,
        capabilities: dict[str, Any] = CAPABILITIES,
        client_properties: dict[str, Any] = {},
        *,
        mechanism: str = "PLAIN",
        response: str | bytes | None = None,
        locale: str = "en_US",
    ) -> None:
        if response is None:
            response = f"\0{user or self.endpoint.user}\0{password or self.endpoint.password}"
        self.send(
            0,
            "connection.start-ok",
            client_properties={"capabilities": capabilities, **client_properties},
            mechanism=mechanism,
            response=response,
            locale=locale,
        )

    def send_tune_ok(self, channel_max: int | None = None, frame_max: int | None = None, heartbeat: int = 0) -> None:
        """What is not given is taken as the broker offers it, but without heartbeats."""
        offer = self.tune.arguments if self.tune else {"channel_max": 2047, "frame_max": 131072}
        self.frame_max = offer["frame_max"] if frame_max is None else frame_max
        self.send(
            0,
            "connection.tune-ok",
            channel_max=offer["channel_max"] if channel_max is None else channel_max,
            frame_max=self.frame_max,
            heartbeat=heartbeat,
        )

    def channel(self, number: int | None = None) -> Channel:
        """Opens a channel, by default the next number."""
        channel = Channel(self, self._next_channel if number is None else number)
        self._next_channel = max(self._next_channel, channel.number) + 1
        channel.open()
        return channel

    def close(self) -> None:
        """The polite end: everything of this connection is gone afterwards."""
        self.send(0, "connection.close", reply_code=200, reply_text="Goodbye", class_id=0, method_id=0)
        self.await_close_ok()
        self.sock.close()

    def await_close_ok(self, timeout: float = PATIENCE) -> None:
        deadline = time.monotonic() + timeout
        while (method := self.next(0, deadline - time.monotonic())).name != "connection.close-ok":
            assert method.name != "connection.close", self._failure("crossing close")

    # --- failing

    def _note(self, line: str) -> None:
        self._transcript.append(line if len(line) < 300 else line[:300] + "...")

    def _failure(self, message: str) -> str:
        return "\n  ".join([message, "the connection so far:", *self._transcript])

    def fail(self, message: str) -> NoReturn:
        raise AssertionError(self._failure(message))


def _close_of(method: Method) -> Close:
    return Close(method.reply_code, method.reply_text, (method.class_id, method.method_id))


def amqplain(user: str, password: str) -> bytes:
    """The AMQPLAIN response: a table without its length."""
    return table_items({"LOGIN": user, "PASSWORD": password})


# --- channel --------------------------------------------------------------------------------------------------------


class Channel:
    """One channel number on a connection. `call` waits for the answer, `expect` takes whatever comes next."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection, self.number, self.vhost = connection, number, connection.vhost

    def open(self) -> None:
        self.send("channel.open")
        self.expect("channel.open-ok")

    def send(self, method: str, **arguments: Any) -> None:
        self.connection.send(self.number, method, **arguments)

    def send_frame(self, kind: int, payload: bytes = b"") -> None:
        self.connection.send_frame(kind, self.number, payload)

    def next(self, timeout: float = PATIENCE) -> Method:
        return self.connection.next(self.number, timeout)

    def expect(self, name: str, timeout: float = PATIENCE) -> Method:
        """The next method on this channel."""
        method = self.next(timeout)
        if method.name != name:
            self.connection.fail(f"{method} instead of {name}")
        return method

    def answer(self, *names: str, timeout: float = PATIENCE) -> Method:
        """The next method of such a name; deliveries, returns and confirms before it stay to be read."""
        deadline, skipped = time.monotonic() + timeout, []
        while (method := self.next(deadline - time.monotonic())).name not in names:
            if method.name in ("channel.close", "basic.get-empty") or method.name.endswith("-ok"):
                self.connection.fail(f"{method} instead of {' or '.join(names)}")
            skipped.append(method)
        self.connection._inbox[self.number].extendleft(reversed(skipped))
        return method

    def call(self, method: str, **arguments: Any) -> Method:
        self.send(method, **arguments)
        return self.answer(method + "-ok")

    def attempt(self, method: str, **arguments: Any) -> Method:
        """The answer, or the channel.close; in the latter case the channel is opened anew."""
        self.send(method, **arguments)
        answer = self.answer(method + "-ok", "channel.close")
        if answer.name == "channel.close":
            self.send("channel.close-ok")
            self.open()
        return answer

    def queue_exists(self, queue: str) -> bool:
        answer = self.attempt("queue.declare", queue=queue, passive=True)
        return answer.name == "queue.declare-ok" or answer.reply_code != 404

    def exchange_exists(self, exchange: str) -> bool:
        answer = self.attempt("exchange.declare", exchange=exchange, passive=True)
        return answer.name == "exchange.declare-ok" or answer.reply_code != 404

    # --- closing and silence

    def expect_close(
        self, code: int, text: str | re.Pattern | None, method: str | tuple[int, int] | None, timeout: float = PATIENCE
    ) -> None:
        """The broker closes the channel like this; answered with close-ok, so that the number is free again."""
        self.expect_outcome(Close(code, text, method), timeout=timeout)

    def expect_outcome(self, rabbitmq: Close, better: Iterable[Close] = (), timeout: float = PATIENCE) -> None:
        """As for the connection: RabbitMQ's way of closing this channel or one of the `better` ones."""
        closed = self.expect("channel.close", timeout)
        self.send("channel.close-ok")
        outcome, accepted = _close_of(closed), [rabbitmq, *better]
        if not any(wanted.matches(outcome) for wanted in accepted):
            self.connection.fail(f"{outcome}, not one of {accepted}")

    def close(self) -> None:
        self.send("channel.close", reply_code=200, reply_text="done", class_id=0, method_id=0)
        self.answer("channel.close-ok")

    def expect_nothing(self, queue: str | None = None) -> None:
        """Nothing is on its way: the answer to a round trip comes first. With `queue`, nothing from there either."""
        if queue is not None:
            # Two round trips: one through the queue, one behind whatever the queue had sent before it.
            self.send("queue.declare", queue=queue, passive=True)
            self.answer("queue.declare-ok")
        self.send("channel.flow", active=True)
        self.expect("channel.flow-ok")

    # --- everyday methods

    def declare_queue(self, queue: str = "", *, arguments: dict = {}, **flags: bool) -> Method:
        return self.call("queue.declare", queue=queue, arguments=arguments, **flags)

    def exclusive_queue(self, **arguments: Any) -> str:
        """A server-named queue that goes with this connection; keywords are its arguments, `_` for `-`."""
        named = {key.replace("_", "-"): value for key, value in arguments.items()}
        return self.declare_queue(exclusive=True, arguments=named).queue

    def depth(self, queue: str) -> int:
        """Ready messages."""
        return self.declare_queue(queue, passive=True).message_count

    def consumers(self, queue: str) -> int:
        return self.declare_queue(queue, passive=True).consumer_count

    def eventually(self, condition: Callable[[], bool], timeout: float = PATIENCE) -> None:
        """Asks until it holds; for what the contract lets happen a little later."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                self.connection.fail("what should come true did not")
            time.sleep(0.01)

    def expect_depth(self, queue: str, ready: int) -> None:
        """That many ready messages, at the latest soon: counts may lag behind."""
        self.eventually(lambda: self.depth(queue) == ready)

    def bind(self, queue: str, exchange: str, key: str | bytes = "", arguments: dict | list = {}) -> None:
        self.call("queue.bind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments)

    def unbind(self, queue: str, exchange: str, key: str | bytes = "", arguments: dict | list = {}) -> None:
        self.call("queue.unbind", queue=queue, exchange=exchange, routing_key=key, arguments=arguments)

    def publish(
        self,
        exchange: str,
        key: str | bytes,
        body: str | bytes = b"",
        properties: dict[str, Any] | bytes = {},
        *,
        mandatory: bool = False,
        immediate: bool = False,
    ) -> None:
        body = body.encode() if isinstance(body, str) else body
        connection, size = self.connection, self.connection.frame_max - 8
        method = encode_method(
            "basic.publish", exchange=exchange, routing_key=key, mandatory=mandatory, immediate=immediate
        )
        frames = [Frame(METHOD, self.number, method), Frame(HEADER, self.number, encode_header(len(body), properties))]
        frames += [Frame(BODY, self.number, body[at : at + size]) for at in range(0, len(body), size)]
        connection._note(f"-> {self.number} publish {exchange!r} {key!r} {properties} {body[:40]!r}")
        connection._write(b"".join(frame.encode() for frame in frames))

    def select_confirms(self) -> None:
        self.call("confirm.select")

    def confirms(self, first: int, last: int) -> dict[int, str]:
        """Reads acks and nacks until each of these publishes has its one answer."""
        answers: dict[int, str] = {}
        while any(number not in answers for number in range(first, last + 1)):
            method = self.next()
            if method.name not in ("basic.ack", "basic.nack"):
                self.connection.fail(f"{method} instead of a confirm")
            tag = method.delivery_tag
            covered = [n for n in range(first, tag + 1) if n not in answers] if method.multiple else [tag]
            for number in covered:
                if number in answers or not first <= number <= last:
                    self.connection.fail(f"confirm for {number} is too much")
                answers[number] = method.name.removeprefix("basic.")
        return answers

    def publish_all(self, exchange: str, key: str, bodies: Iterable[str], properties: dict[str, Any] = {}) -> None:
        """Publishes on a channel of its own and returns when the broker has taken all of it."""
        bodies = list(bodies)
        other = self.connection.channel()
        other.select_confirms()
        for body in bodies:
            other.publish(exchange, key, body, properties)
        confirms = other.confirms(1, len(bodies))
        assert set(confirms.values()) <= {"ack"}, confirms
        other.close()

    def consume(self, queue: str, tag: str = "", *, arguments: dict = {}, **flags: bool) -> str:
        return self.call("basic.consume", queue=queue, consumer_tag=tag, arguments=arguments, **flags).consumer_tag

    def prefetch(self, count: int, *, shared: bool = False) -> None:
        self.call("basic.qos", prefetch_count=count, **{"global": shared})

    def deliveries(self, count: int) -> list[Method]:
        return [self.expect("basic.deliver") for _ in range(count)]

    def bodies(self, count: int) -> list[str]:
        return [delivery.body.decode() for delivery in self.deliveries(count)]

    def get(self, queue: str, *, no_ack: bool = False) -> Method | None:
        """get-ok, or `None` for get-empty."""
        self.send("basic.get", queue=queue, no_ack=no_ack)
        method = self.next()
        if method.name not in ("basic.get-ok", "basic.get-empty"):
            self.connection.fail(f"{method} instead of an answer to basic.get")
        return method if method.name == "basic.get-ok" else None

    def await_message(self, queue: str, *, no_ack: bool = True) -> Method:
        """basic.get until there is one."""
        got: list[Method | None] = []
        self.eventually(lambda: got.append(self.get(queue, no_ack=no_ack)) or got[-1] is not None)
        return got[-1]

    def drain(self, queue: str) -> list[str]:
        """Takes all ready messages, in order."""
        bodies = []
        while (message := self.get(queue, no_ack=True)) is not None:
            bodies.append(message.body.decode())
        return bodies

    def ack(self, tag: int, *, multiple: bool = False) -> None:
        self.send("basic.ack", delivery_tag=tag, multiple=multiple)

    def nack(self, tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self.send("basic.nack", delivery_tag=tag, multiple=multiple, requeue=requeue)

    def reject(self, tag: int, *, requeue: bool = True) -> None:
        self.send("basic.reject", delivery_tag=tag, requeue=requeue)
