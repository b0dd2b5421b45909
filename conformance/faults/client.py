"""AMQP clients for rough weather: a publisher that counts its confirms, a consumer that counts its deliveries.

A [`Client`] is one connection with one channel. When its broker dies it raises [`Gone`], and what was sent until then
stands in the history. The encoding of methods is that of the Python suite's raw client.
"""

import pathlib
import socket
import struct
import sys
import threading
import time
import weakref
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from frames.wire import (  # noqa: E402
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    METHODS,
    PROTOCOL_HEADER,
    Frame,
    decode_method,
    encode_header,
    encode_method,
    take_frame,
)

PATIENCE = 20.0
"""Seconds within which a healthy broker answers, also on a busy machine."""

DELIVER = struct.pack(">HH", *METHODS["basic.deliver"].ids)
ACK = struct.pack(">HH", *METHODS["basic.ack"].ids)
NACK = struct.pack(">HH", *METHODS["basic.nack"].ids)
RETURN = struct.pack(">HH", *METHODS["basic.return"].ids)
CAPABILITIES = {"connection.blocked": True, "basic.nack": True, "publisher_confirms": True, "consumer_cancel_notify": True}


class Gone(Exception):
    """The connection ended without a word, as when the broker was killed."""


class Closed(Exception):
    """The broker closed the connection or the channel and said why."""


class Silent(Exception):
    """Nothing came in time."""


def body_of(publisher, number, size):
    """A body that says whose it is and shows any damage."""
    filler = struct.pack(">QQ", publisher, number)
    text = (filler * (size // 16 + 1))[: max(size - 4, 16)]
    return text + struct.pack(">I", zlib.crc32(text))


def id_of(body):
    """Publisher and number; `None` for what no publisher of ours has written."""
    if len(body) < 20 or zlib.crc32(body[:-4]) != struct.unpack(">I", body[-4:])[0]:
        return None
    return struct.unpack(">QQ", body[:16])


OPEN = weakref.WeakSet()


def hang_up_all():
    """Ends every connection of this process; a broker that is told to stop waits for clients that do not answer."""
    for client in list(OPEN):
        client.hang_up()


class Client:
    """One connection with channel 1 open. With a heartbeat it beats whenever it reads, so that silence is that of the broker."""

    def __init__(self, port, heartbeat=0, capabilities=CAPABILITIES):
        OPEN.add(self)
        self.blocked = []
        self.heartbeat, self._beat_at = 0, 0.0
        self._buffer = bytearray()
        self._content = None
        self.header = b""
        self._wanted = None
        self._answer = None
        try:
            self.sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sock.sendall(PROTOCOL_HEADER)
        except OSError as error:
            raise Gone(str(error)) from None
        self._expect("connection.start", 0)
        self.ask(
            "connection.start-ok",
            "connection.tune",
            0,
            client_properties={"capabilities": capabilities},
            mechanism="PLAIN",
            response="\0guest\0guest",
            locale="en_US",
        )
        self.send("connection.tune-ok", 0, channel_max=2047, frame_max=131072, heartbeat=heartbeat)
        self.heartbeat = heartbeat
        self.ask("connection.open", "connection.open-ok", 0, virtual_host="/")
        self.ask("channel.open", "channel.open-ok")

    # --- plumbing

    def write(self, data):
        try:
            self.sock.settimeout(PATIENCE)
            self.sock.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from None

    def send(self, name, channel=1, **arguments):
        self.write(Frame(METHOD, channel, encode_method(name, **arguments)).encode())

    def _beat_when_due(self):
        """How long the next heartbeat has time."""
        if not self.heartbeat:
            return PATIENCE
        now = time.monotonic()
        if now >= self._beat_at:
            self.write(Frame(HEARTBEAT, 0, b"").encode())
            self._beat_at = now + self.heartbeat / 2
        return self._beat_at - now

    def ask(self, name, answer, channel=1, **arguments):
        self.send(name, channel, **arguments)
        return self._expect(answer, channel)

    def _expect(self, name, channel):
        self._wanted, self._answer = (name, channel), None
        deadline = time.monotonic() + PATIENCE
        while self._answer is None:
            if not self.pump(deadline - time.monotonic()) and time.monotonic() > deadline:
                raise Silent(f"no {name}")
        self._wanted = None
        return self._answer

    def pump(self, timeout=0.0):
        """Reads what is there, waiting up to `timeout` for something; says whether anything came."""
        until = time.monotonic() + timeout
        while True:
            wait = min(until - time.monotonic(), self._beat_when_due())
            self.sock.settimeout(max(wait, 0.0))
            try:
                data = self.sock.recv(1 << 20)
                break
            except (TimeoutError, BlockingIOError):
                if time.monotonic() >= until:
                    return False
            except OSError as error:
                raise Gone(str(error)) from None
        if not data:
            raise Gone("end of the socket")
        self._buffer += data
        while (frame := take_frame(self._buffer)) is not None:
            self._take(frame)
        return True

    def _take(self, frame):
        kind, channel, payload = frame.kind, frame.channel, frame.payload
        if kind == BODY:
            self._content[2] += payload
        elif kind == HEADER:
            self.header = payload
            self._content[1] = struct.unpack(">Q", payload[4:12])[0]
        elif kind == METHOD:
            head = payload[:4]
            if head == ACK or head == NACK:
                tag, bits = struct.unpack(">QB", payload[4:13])
                self.on_confirm(tag, bool(bits & 1), head == ACK)
                return
            if head == DELIVER or METHODS_WITH_CONTENT.get(head):
                self._content = [payload, None, bytearray()]
                return
            self._method(channel, decode_method(payload))
            return
        else:
            return
        payload, size, body = self._content
        if size == len(body):
            self._content = None
            if payload[:4] == DELIVER:
                at = 5 + payload[4]
                tag, redelivered = struct.unpack(">QB", payload[at : at + 9])
                self.on_delivery(tag, bool(redelivered & 1), bytes(body))
            elif payload[:4] == RETURN:
                self.on_return(bytes(body))
            else:
                method = decode_method(payload)
                method.body = bytes(body)
                self._method(1, method)

    def _method(self, channel, method):
        if method.name == "connection.close":
            self.send("connection.close-ok", 0)
        if method.name in ("connection.close", "channel.close"):
            raise Closed(f"{method.name} {method.reply_code} {method.reply_text}")
        if method.name == "connection.blocked":
            self.blocked.append(method.reason)
        elif method.name == "connection.unblocked":
            self.blocked.append(None)
        elif self._wanted and channel == self._wanted[1]:
            if method.name == self._wanted[0] or (self._wanted[0], method.name) == ("basic.get-ok", "basic.get-empty"):
                self._answer = method

    def on_confirm(self, tag, multiple, accepted):
        pass

    def on_delivery(self, tag, redelivered, body):
        pass

    def on_return(self, body):
        pass

    def pump_until(self, condition, limit=PATIENCE, what="what was waited for"):
        deadline = time.monotonic() + limit
        while not condition():
            if time.monotonic() > deadline:
                raise Silent(f"{what} did not come in {limit} s")
            self.pump(0.05)

    # --- what one does with a broker

    def declare(self, queue, durable=True, **arguments):
        return self.ask("queue.declare", "queue.declare-ok", queue=queue, durable=durable, arguments=arguments)

    def count(self, queue):
        return self.ask("queue.declare", "queue.declare-ok", queue=queue, passive=True).message_count

    def close(self):
        self.ask("connection.close", "connection.close-ok", 0, reply_code=200, reply_text="bye", class_id=0, method_id=0)
        self.sock.close()

    def hang_up(self):
        OPEN.discard(self)
        if hasattr(self, "sock"):
            self.sock.close()

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


METHODS_WITH_CONTENT = {struct.pack(">HH", *spec.ids): True for spec in METHODS.values() if spec.has_content}


def publish_bytes(body, exchange="", routing_key="", mandatory=False, persistent=True, **properties):
    """The frames of one publish on channel 1."""
    method = encode_method("basic.publish", exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    header = encode_header(len(body), {**({"delivery_mode": 2} if persistent else {}), **properties})
    frames = [Frame(METHOD, 1, method), Frame(HEADER, 1, header)]
    frames += [Frame(BODY, 1, body[at : at + 131064]) for at in range(0, len(body), 131064)]
    return b"".join(frame.encode() for frame in frames)


class Publisher(Client):
    """Publishes numbered bodies with confirms; the history knows what was tried, confirmed, refused and returned."""

    def __init__(self, port, history, routing_key, exchange="", mandatory=False, size=100, window=200, **options):
        super().__init__(port, **options)
        self.history, self.size, self.window = history, size, window
        self.queue = routing_key
        self.number = history.new_publisher()
        self.open = {}
        self.tag = 0
        self.published = 0
        self.ask("confirm.select", "confirm.select-ok")
        sample = publish_bytes(body_of(0, 0, size), exchange, routing_key, mandatory)
        self._head, self._body_len = sample[: -size - 8], size

    def publish(self, count):
        """Sends so many at once."""
        data = bytearray()
        for _ in range(count):
            number = self.history.attempt(self.number)
            self.tag += 1
            self.open[self.tag] = number
            body = body_of(self.number, number, self.size)
            data += self._head + Frame(BODY, 1, body).encode()
        self.published += count
        self.write(bytes(data))

    def on_confirm(self, tag, multiple, accepted):
        tags = [open_tag for open_tag in self.open if open_tag <= tag] if multiple else [tag]
        for each in tags:
            self.history.answered(self.number, self.open.pop(each), accepted)

    def on_return(self, body):
        self.history.returned(*id_of(body))

    def run(self, stopping):
        """Keeps the window full until told to stop or the broker is gone."""
        try:
            while not stopping.is_set():
                room = self.window - len(self.open)
                if room > self.window // 4:
                    self.publish(room)
                self.pump(0.05)
            self.settle()
        except (Gone, Closed):
            pass

    def settle(self, limit=PATIENCE):
        """Waits for every confirm."""
        self.pump_until(lambda: not self.open, limit, f"{len(self.open)} confirms")

    def publish_all(self, count, limit=PATIENCE):
        """Publishes so many and waits for all confirms."""
        left = count
        deadline = time.monotonic() + limit
        while left or self.open:
            room = min(left, self.window - len(self.open))
            if room > 0:
                self.publish(room)
                left -= room
            self.pump(0.05)
            if time.monotonic() > deadline:
                raise Silent(f"{len(self.open)} confirms of {count} did not come in {limit} s")


class Consumer(Client):
    """Consumes one queue; acks everything, or nothing."""

    def __init__(self, port, history, queue, prefetch=500, acks=True, **options):
        super().__init__(port, **options)
        self.history, self.acks = history, acks
        self.session = history.new_session()
        self.deliveries = []
        self._last = None
        self.ask("basic.qos", "basic.qos-ok", prefetch_count=prefetch)
        self.ask("basic.consume", "basic.consume-ok", queue=queue, consumer_tag="c")

    def on_delivery(self, tag, redelivered, body):
        found = id_of(body)
        self.deliveries.append((tag, found, redelivered))
        self.history.delivered(self.session, found, redelivered)
        self._last = tag

    def ack_all(self):
        if self._last is None:
            return
        tag, self._last = self._last, None
        self.history.acked([found for _, found, _ in self.deliveries])
        self.deliveries.clear()
        self.write(Frame(METHOD, 1, encode_method("basic.ack", delivery_tag=tag, multiple=True)).encode())

    def run(self, stopping):
        try:
            while not stopping.is_set():
                self.pump(0.05)
                if self.acks:
                    self.ack_all()
        except (Gone, Closed):
            pass


def drain(port, history, queue, limit=60.0):
    """Takes everything out of the queue and acks it; says how much it was."""
    consumer = Consumer(port, history, queue, prefetch=2000)
    total = 0
    deadline = time.monotonic() + limit
    asker = Client(port)
    while True:
        came = consumer.pump(0.2)
        total += len(consumer.deliveries)
        consumer.ack_all()
        if not came:
            # Everything acked, and nothing is ready or on its way: a look from outside counts ready messages only.
            consumer.ask("basic.qos", "basic.qos-ok", prefetch_count=2000)
            if not consumer.deliveries and asker.count(queue) == 0 and not consumer.pump(0.2):
                break
        if time.monotonic() > deadline:
            raise Silent(f"{queue} is not empty after {limit} s")
    consumer.close()
    asker.close()
    return total


def at_once(works):
    """Runs each on a thread of its own; one that fails makes this fail when all are over."""
    failed = []

    def guarded(work):
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
