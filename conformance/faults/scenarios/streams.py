"""Streams whose readers remember what they saw, through kills and power cuts."""

import struct
import threading
import time

from broker import Image, may_mount
from client import Client, Closed, Gone, Publisher, Silent, id_of
from faults import Skip, scenario
from history import History

OFFSET = b"x-stream-offsetl"
"""The header's name and the letter of its type; eight octets of number follow."""


class Reader(Client):
    """Follows the stream and notes which message stands at which offset."""

    def __init__(self, port, start, prefetch=200):
        super().__init__(port)
        self.seen = []
        self._last = None
        self.ask("basic.qos", "basic.qos-ok", prefetch_count=prefetch)
        arguments = {"x-stream-offset": start}
        self.ask("basic.consume", "basic.consume-ok", queue="log", consumer_tag="c", arguments=arguments)

    def on_delivery(self, tag, redelivered, body):
        at = self.header.index(OFFSET) + len(OFFSET)
        assert not redelivered, "a stream knows no redelivery"
        self.seen.append((struct.unpack(">q", self.header[at : at + 8])[0], id_of(body)))
        self._last = tag

    def ack_all(self):
        if self._last is not None:
            self.send("basic.ack", delivery_tag=self._last, multiple=True)
            self._last = None

    def run(self, stopping):
        try:
            while not stopping.is_set():
                self.pump(0.05)
                self.ack_all()
        except (Gone, Closed):
            pass


class Load:
    """Publishers and readers in threads."""

    def __init__(self, broker, history, size, starts):
        self.stopping = threading.Event()
        self.readers = [Reader(broker.port, start) for start in starts]
        publishers = [Publisher(broker.port, history, "log", size=size) for _ in range(2)]
        self.threads = [
            threading.Thread(target=client.run, args=(self.stopping,)) for client in self.readers + publishers
        ]
        for thread in self.threads:
            thread.start()

    def join(self):
        """What every reader saw."""
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"
        return [entry for reader in self.readers for entry in reader.seen]


def whole_log(broker):
    reader = Reader(broker.port, "first", prefetch=1000)
    count = reader.count("log")
    deadline = time.monotonic() + 60
    while len(reader.seen) < count:
        reader.pump(0.05)
        reader.ack_all()
        if time.monotonic() > deadline:
            raise Silent(f"{len(reader.seen)} of {count} messages came")
    reader.close()
    return reader.seen


def check(log, seen, history):
    """Offsets without gaps, nothing confirmed is missing or damaged or out of order, and nobody saw what is not so."""
    assert [offset for offset, _ in log] == list(range(len(log))), "offsets have gaps"
    at = dict(log)
    assert None not in at.values(), "a damaged message was served"
    lost = sorted(history.confirmed - set(at.values()))
    assert not lost, f"{len(lost)} confirmed messages are lost, such as {lost[:3]}"
    newest = {}
    for offset, (publisher, number) in log:
        assert number > newest.get(publisher, -1), f"publisher {publisher}: {number} stands at {offset}, behind a later one"
        newest[publisher] = number
    wrong = [(offset, entry, at.get(offset)) for offset, entry in seen if at.get(offset) != entry]
    assert not wrong, f"{len(wrong)} offsets mean another message than readers saw there, such as {wrong[:3]}"


def crash_often(case, broker, crash, laps):
    history, seen = History(), []
    for lap in range(laps):
        broker.start()
        client = Client(broker.port)
        client.declare("log", **{"x-queue-type": "stream"})
        count = client.count("log")
        starts = ["first", "next", case.random.randrange(count + 1)]
        load = Load(broker, history, case.random.choice([50, 1000, 20000]), starts)
        time.sleep(case.random.uniform(0.1, 0.6))
        crash()
        seen += load.join()
    assert len(history.confirmed) > 100 and len(seen) > 100, "hardly anything happened"
    broker.start()
    log = whole_log(broker)
    check(log, seen, history)
    case.note(f"{len(log)} messages, {len(history.confirmed)} confirmed, {len(seen)} seen")
    broker.stop()


@scenario("FM1")
def kill_a_stream_that_is_written_and_read(case):
    broker = case.broker()
    crash_often(case, broker, broker.kill, case.rounds(4, 60))


@scenario("FM4")
def power_cut_of_a_stream_that_is_written_and_read(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted)")
    image = Image(case.scratch)
    broker = case.broker(directory=image.place / "data")
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    crash_often(case, broker, lambda: image.cut_power(broker), case.rounds(4, 40))
    image.unmount()
