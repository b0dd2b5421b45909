"""Backlogs far above memory, many queues, large bodies, syncs: what they cost. `faults/measure` tells how to run it.

Each part starts a broker of its own. Memory is the most that was ever resident (VmHWM), the table files that the system has
mapped for it not among it. Speeds are those of one client in Python; what counts is that the last tenth is as fast as the first.
"""

import argparse
import os
import pathlib
import random
import shutil
import sys
import tempfile
import time
import zlib

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from broker import Broker  # noqa: E402
from client import Client, Consumer, Publisher, at_once, publish_bytes  # noqa: E402
from history import Tally  # noqa: E402

MEMORY_MAX = 256 << 20
QUEUE_MAX = 4096
START_MAX_SECS = 1.0
SPACE_LEFT_MAX = 64 << 20
SPACE_WITHIN_SECS = 60
SLOWDOWN_MAX = 2.0
"""The slowest tenth against the fastest; also what a disk shared with others does."""
PARTS = ("one", "ten", "space", "queues", "body", "syncs")


class Table:
    def __init__(self):
        self.rows, self.has_failed = [], False

    def add(self, part, what, found, wanted="", holds=True):
        self.has_failed |= not holds
        self.rows.append((part, what, found, wanted, "yes" if holds else "NO") if wanted else (part, what, found, "", ""))
        print(f"{part}: {what}: {found}" + (f" (wanted: {wanted}) {'' if holds else 'NOT SO'}" if wanted else ""), flush=True)

    def below(self, part, what, found, limit, text):
        self.add(part, what, text(found), f"below {text(limit)}", found < limit)

    def show(self):
        print("\n| part | what | found | wanted | |\n| --- | --- | --- | --- | --- |")
        for row in self.rows:
            print(f"| {' | '.join(row)} |")


def mib(count):
    return f"{count / (1 << 20):.0f} MiB"


def secs(count):
    return f"{count:.2f} s"


def in_bytes(count):
    return f"{count:.0f} bytes"


def peak(broker):
    status = pathlib.Path(f"/proc/{broker.pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(fields["VmHWM"].split()[0]) << 10


def stored_bytes(broker):
    total = 0
    for path in (broker.directory / "rocksdb").iterdir():
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass
    return total


class Case:
    """One part's broker and what is found out about it."""

    def __init__(self, part, table, scratch):
        self.part, self.table = part, table
        self.broker = Broker(pathlib.Path(scratch) / part)

    def restart(self):
        self.table.below(self.part, "memory while it was filled", peak(self.broker), MEMORY_MAX, mib)
        self.broker.kill()
        self.broker.start(limit=300)
        # Written behind the ports.
        while not (lines := [line for line in self.broker.since_start().splitlines() if "Time to start" in line]):
            time.sleep(0.01)
        line = lines[0]
        took = float(line.rsplit(":", 1)[1].split()[0]) / 1000
        self.table.below(self.part, "start after a kill", took, START_MAX_SECS, secs)

    def fill(self, queue, total, size=1024):
        publisher, speeds = Publisher(self.broker.port, Tally(), queue, size=size, window=2000), []
        for tenth in range(10):
            began, count = time.monotonic(), total * (tenth + 1) // 10 - total * tenth // 10
            publisher.publish_all(count, limit=3000)
            speeds.append(count / (time.monotonic() - began))
        assert publisher.history.confirmed_count == total
        publisher.close()
        return speeds

    def drain(self, queue, total):
        history, speeds = Tally(), []
        consumer = Consumer(self.broker.port, history, queue, prefetch=2000)
        for tenth in range(10):
            began, until = time.monotonic(), total * (tenth + 1) // 10
            before = history.delivered_count
            while history.delivered_count < until:
                assert consumer.pump(60), f"{history.delivered_count} of {total} came"
                consumer.ack_all()
            speeds.append((history.delivered_count - before) / (time.monotonic() - began))
        consumer.ack_all()
        consumer.close()
        return speeds

    def steady(self, what, speeds):
        ratio = max(speeds) / min(speeds)
        text = f"{speeds[0]:.0f} at first, {speeds[-1]:.0f} at last, {min(speeds):.0f} to {max(speeds):.0f} messages/s"
        self.table.add(self.part, what, text, f"within a factor of {SLOWDOWN_MAX:.0f}", ratio < SLOWDOWN_MAX)

    def space_is_back(self, what, before):
        began = time.monotonic()
        while (left := stored_bytes(self.broker)) > SPACE_LEFT_MAX and time.monotonic() - began < SPACE_WITHIN_SECS:
            time.sleep(0.2)
        found = f"{mib(before)}, then {mib(left)} after {time.monotonic() - began:.0f} s"
        self.table.add(self.part, what, found, f"below {mib(SPACE_LEFT_MAX)} in {SPACE_WITHIN_SECS} s", left <= SPACE_LEFT_MAX)


def one(case, scale):
    """Ten million in one queue."""
    total = int(10_000_000 * scale)
    Client(case.broker.port).declare("jobs")
    case.steady(f"publish {total} of 1 KiB", case.fill("jobs", total))
    case.restart()
    before = stored_bytes(case.broker)
    case.steady("drain, in order", case.drain("jobs", total))
    case.table.below(case.part, "memory while it was drained", peak(case.broker), MEMORY_MAX, mib)
    case.space_is_back("space after the drain", before)


def ten(case, scale):
    """A million in each of ten, at the same time."""
    total = int(1_000_000 * scale)
    queues = [f"jobs-{number}" for number in range(10)]
    client = Client(case.broker.port)
    for queue in queues:
        client.declare(queue)
    at_once([lambda queue=queue: case.fill(queue, total) for queue in queues])
    case.restart()
    before = stored_bytes(case.broker)
    began = time.monotonic()
    at_once([lambda queue=queue: case.drain(queue, total) for queue in queues])
    case.table.add(case.part, "drain, each in order", f"{total * 10 / (time.monotonic() - began):.0f} messages/s")
    case.table.below(case.part, "memory while they were drained", peak(case.broker), MEMORY_MAX, mib)
    case.space_is_back("space after the drain", before)


def space(case, scale):
    """A million purged, and a million deleted."""
    total = int(1_000_000 * scale)
    client = Client(case.broker.port)
    for method in ("queue.purge", "queue.delete"):
        client.declare("jobs")
        case.fill("jobs", total)
        before, began = stored_bytes(case.broker), time.monotonic()
        assert client.ask(method, f"{method}-ok", queue="jobs").message_count == total
        case.table.add(case.part, f"{method} of {total}", f"{(time.monotonic() - began) * 1000:.0f} ms")
        case.space_is_back(f"space after {method}", before)


def queues(case, scale):
    """Fifty thousand that do nothing."""
    total = int(50_000 * scale)
    client = Client(case.broker.port)
    before = case.broker.rss()
    for number in range(total):
        client.declare(f"queue-{number}")
    each = (case.broker.rss() - before) / total
    case.table.below(case.part, f"memory of each of {total} queues", each, QUEUE_MAX, in_bytes)
    case.restart()
    each = (case.broker.rss() - before) / total
    case.table.below(case.part, "the same after the restart", each, QUEUE_MAX, in_bytes)


def body(case, scale):
    """As large as may be configured."""
    size = int((512 << 20) * scale)
    sent = random.Random(size).randbytes(min(size, 64 << 20))
    sent = (sent * (size // len(sent) + 1))[:size]
    client = Client(case.broker.port)
    client.declare("jobs")
    client.ask("confirm.select", "confirm.select-ok")
    confirmed = []
    client.on_confirm = lambda tag, multiple, accepted: confirmed.append(accepted)
    began = time.monotonic()
    client.sock.settimeout(600)
    client.sock.sendall(publish_bytes(sent, routing_key="jobs"))
    client.pump_until(lambda: confirmed, 600, "the confirm")
    assert confirmed == [True]
    case.table.add(case.part, f"publish of {mib(size)} with confirm", secs(time.monotonic() - began))
    case.table.add(case.part, "memory", mib(peak(case.broker)))
    case.broker.kill()
    began = time.monotonic()
    case.broker.start(limit=300)
    case.table.add(case.part, "start after a kill, with all of it in the log", secs(time.monotonic() - began))
    reader = Client(case.broker.port)
    began = time.monotonic()
    reader.send("basic.get", queue="jobs", no_ack=True)
    reader._wanted, reader._answer = ("basic.get-ok", 1), None
    reader.pump_until(lambda: reader._answer is not None, 600, "the body")
    came = reader._answer.body
    equal = len(came) == size and zlib.crc32(came) == zlib.crc32(sent)
    case.table.add(case.part, "get after a kill", secs(time.monotonic() - began), "the same bytes", equal)


def syncs(case, scale):
    """How many syncs of the disk a confirm costs."""
    for clients, window in ((1, 1), (10, 1), (100, 1), (1, 1000)):
        each = max(20, int(1000 * scale)) if window == 1 else max(2000, int(100_000 * scale))
        trace = case.broker.directory.parent / f"syncs-{clients}-{window}"
        wrapper = ["strace", "-f", "-qq", "--signal=none", "-e", "trace=fdatasync", "-o", str(trace)]
        broker = Broker(case.broker.directory.parent / f"data-{clients}-{window}", wrapper=wrapper).start(limit=30)
        try:
            Client(broker.port).declare("jobs")
            publishers = [Publisher(broker.port, Tally(), "jobs", window=window) for _ in range(clients)]
            before = count_lines(trace)
            at_once([lambda each=each, one=publisher: one.publish_all(each, limit=600) for publisher in publishers])
            made = count_lines(trace) - before
            messages = clients * each
            text = f"{made} syncs for {messages} messages, {made / messages:.3f} of each"
            # The mark of the newest synced commit is a file of its own, once a second.
            holds = window > 1 or (messages * 0.9 < made < messages * 1.3 if clients == 1 else made < messages * 0.8)
            wanted = {1: "one sync for each", 10: "shared", 100: "shared"}[clients] if window == 1 else "shared"
            case.table.add(case.part, f"{clients} publishers, {window} open at once", text, wanted, holds)
        finally:
            broker.end_quietly()


def count_lines(path):
    with path.open("rb") as lines:
        return sum(1 for line in lines if b"fdatasync(" in line)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    arguments = parser.parse_args()
    if not os.environ.get("LEVERET_BIN"):
        sys.exit("measure: LEVERET_BIN names no program")
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}")
    table = Table()
    for part in arguments.parts or PARTS:
        if part == "syncs" and not shutil.which("strace"):
            table.add(part, "strace is not installed", "not measured")
            continue
        with tempfile.TemporaryDirectory(prefix="leveret-measure-") as scratch:
            case = Case(part, table, scratch)
            if part == "body":
                case.broker.arguments += ["--max-message-size", "512MiB", "--memory-limit", "8GiB"]
            case.broker.start()
            try:
                globals()[part](case, arguments.scale)
            finally:
                case.broker.end_quietly()
    table.show()
    sys.exit(1 if table.has_failed else 0)


if __name__ == "__main__":
    main()
