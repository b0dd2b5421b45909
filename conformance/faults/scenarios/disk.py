"""The disk fails, fills up, is slow or hangs."""

import shutil
import subprocess
import threading
import time

from broker import Image, may_mount, run
from client import Client, Gone, Publisher, drain
from faults import Skip, scenario
from history import History

from scenarios.kills import Load, declare

STORAGE_FAILED = 3


def strace(*injection):
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    return ["strace", "-f", "-qq", "--signal=none", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", *injection]


@scenario("FM9")
def a_sync_that_fails_ends_the_broker_and_no_confirm_follows(case):
    directory = case.scratch / "data"
    broker, history = case.broker(directory=directory), History()
    broker.start()
    declare(broker, "jobs")
    Publisher(broker.port, history, "jobs").publish_all(50)
    broker.stop()

    nth = case.random.randrange(10, 20)
    failing = case.broker(directory=directory, wrapper=strace("-e", f"inject=fdatasync:error=EIO:when={nth}"))
    failing.start(limit=20)
    publisher = Publisher(failing.port, history, "jobs", window=1)
    history.crashed()
    try:
        for _ in range(500):
            publisher.publish_all(1)
        raise AssertionError("500 confirms, although a sync failed")
    except Gone:
        pass
    code = failing.ended()
    assert code == STORAGE_FAILED, f"exit code {code}:\n{failing.tail()}"
    assert "storage failed" in failing.since_start(), failing.tail()
    case.note(f"sync {nth} failed")

    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    broker.stop()


@scenario("FM10")
def a_full_disk_blocks_publishers_and_space_is_enough_to_go_on(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted)")
    image = Image(case.scratch, megabytes=256)
    broker, history = case.broker(directory=image.place / "data"), History()
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    broker.start()
    declare(broker, "jobs")
    ballast = image.place / "ballast"
    run("fallocate", "-l", str(180 << 20), ballast)
    load = Load(broker, history, publishers=1, size=20000)
    deadline = time.monotonic() + 60
    while "the disk is full" not in broker.since_start():
        assert broker.is_up(), f"a full disk ended the broker:\n{broker.tail()}"
        assert time.monotonic() < deadline, f"the disk is not full after a minute:\n{broker.tail()}"
        time.sleep(0.05)
    # Everybody else goes on meanwhile: what needs no disk is answered.
    client = Client(broker.port)
    assert client.count("jobs") > 0
    confirmed = len(history.confirmed)
    ballast.unlink()
    deadline = time.monotonic() + 30
    while len(history.confirmed) <= confirmed:
        assert time.monotonic() < deadline, f"no confirm after there was space:\n{broker.tail()}"
        time.sleep(0.05)
    load.join()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(history.summary())
    broker.stop()
    image.unmount()


@scenario("FM12")
def a_slow_disk_delays_confirms_and_breaks_no_heartbeat(case):
    delay_ms = case.random.choice([200, 500, 1000])
    wrapper = strace("-e", f"inject=fdatasync:delay_exit={delay_ms * 1000}")
    broker, history = case.broker(wrapper=wrapper), History()
    broker.start(limit=25)
    declare(broker, "jobs")
    idle = Client(broker.port, heartbeat=1)
    publisher = Publisher(broker.port, history, "jobs", window=1000, size=1000, heartbeat=1)
    before = broker.rss()
    until = time.monotonic() + case.rounds(6, 60)
    while time.monotonic() < until:
        room = publisher.window - len(publisher.open)
        if room:
            publisher.publish(room)
        for client in (idle, publisher):
            client.pump(0.1)
            client.beat()
    publisher.settle(60)
    idle.declare("also-slow")
    assert broker.rss() - before < 128 << 20, f"{before >> 20} MiB grew to {broker.rss() >> 20} MiB"
    assert history.confirmed, "no confirm at all"
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{delay_ms} ms a sync: {history.summary()}")
    broker.end_quietly()


@scenario("FM13")
def a_hanging_disk_stops_confirms_and_nothing_else(case):
    if not may_mount() or not shutil.which("fsfreeze"):
        raise Skip("images cannot be mounted and frozen here (root, mkfs.ext4, loop devices and fsfreeze are wanted)")
    image = Image(case.scratch, megabytes=128)
    broker, history = case.broker(directory=image.place / "data"), History()
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    broker.start()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs", heartbeat=1)
    publisher.publish_all(100)
    # Thawed by another process, whatever becomes of this one.
    thaw = subprocess.Popen(["sh", "-c", f"sleep 4; exec fsfreeze --unfreeze {image.place}"])
    run("fsfreeze", "--freeze", image.place)
    try:
        confirmed = len(history.confirmed)
        publisher.publish(50)
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            publisher.pump(0.1)
            publisher.beat()
        assert len(history.confirmed) == confirmed, "confirmed by a disk that hangs"
        # Transient messages need no disk.
        client = Client(broker.port)
        client.ask("queue.declare", "queue.declare-ok", queue="in-memory", durable=False, exclusive=True)
        assert client.count("in-memory") == 0
    finally:
        thaw.wait(30)
    publisher.settle()
    drain(broker.port, history, "jobs")
    history.check()
    broker.stop()
    image.unmount()
