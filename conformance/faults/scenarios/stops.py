"""The broker is told to end: twice, in the middle of its start, with a disk that does not answer or may not be written to."""

import contextlib
import pathlib
import shutil
import signal
import time

from broker import Image, may_mount, run
from client import Client, Closed, Gone, Publisher, drain
from faults import Skip, scenario
from history import History

from scenarios.clients import wait_for
from scenarios.disk import STORAGE_FAILED, hanging_disk, injected, strace
from scenarios.kills import Load, declare

ENDED_AT_ONCE = 4
BOUND_SECS = 25
"""A stop takes less than this, whatever holds it up: less than supervisors wait before they kill."""


def wait_for_words(broker, words):
    wait_for(lambda: words in broker.since_start(), 20, words)


@scenario("FM33")
def a_second_signal_ends_the_broker_at_once_and_loses_nothing_confirmed(case):
    broker, history = case.broker(), History()
    codes = []
    for lap in range(case.rounds(4, 100)):
        broker.start()
        if lap == 0:
            declare(broker, "jobs")
        load = Load(broker, history, publishers=2, consumers=1)
        time.sleep(case.random.uniform(0.05, 0.3))
        history.crashed()
        broker.signal(signal.SIGTERM)
        wait_for_words(broker, "SIGTERM received - shutting down")
        with contextlib.suppress(ProcessLookupError):
            broker.signal(case.random.choice([signal.SIGTERM, signal.SIGINT]))
        code = broker.ended()
        load.join()
        assert code in (0, ENDED_AT_ONCE), f"exit code {code}:\n{broker.tail()}"
        codes.append(code)
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{codes.count(ENDED_AT_ONCE)} of {len(codes)} ended at once: {history.summary()}")
    broker.stop()


@scenario("FM33")
def a_second_signal_is_heard_while_the_disk_hangs(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs")
    publisher.publish_all(100)
    with hanging_disk(broker) as disk:
        publisher.publish(10)
        publisher.pump(1)
        history.crashed()
        broker.signal(signal.SIGTERM)
        wait_for_words(broker, "SIGTERM received - shutting down")
        began = time.monotonic()
        broker.signal(signal.SIGINT)
        code = ended_before(broker, disk)
        took = time.monotonic() - began
    assert code == ENDED_AT_ONCE, f"exit code {code}:\n{broker.tail()}"
    assert took < 5, f"the end took {took:.1f} s"
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    broker.stop()


@scenario("FM13")
def a_stop_does_not_wait_for_ever_for_a_disk_that_hangs(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs")
    publisher.publish_all(100)
    calling = Client(broker.port)
    with hanging_disk(broker) as disk:
        confirmed = len(history.confirmed)
        publisher.publish(10)
        calling.send("queue.declare", queue="more", durable=True)
        publisher.pump(1)
        history.crashed()
        began = time.monotonic()
        broker.signal(signal.SIGTERM)
        # Both are told, although what they wait for does not come.
        for client in (publisher, calling):
            reason = closed_with(client)
            assert "shutdown" in reason, reason
        code = ended_before(broker, disk)
        took = time.monotonic() - began
    assert code == ENDED_AT_ONCE, f"exit code {code}:\n{broker.tail()}"
    assert took < BOUND_SECS, f"the stop took {took:.1f} s"
    assert "the disk has not answered for" in broker.since_start(), broker.tail()
    assert len(history.confirmed) == confirmed, "confirmed by a disk that hangs"
    broker.start()
    assert ": not stopped in order" in broker.since_start(), broker.tail()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"the stop took {took:.1f} s")
    broker.stop()


def ended_before(broker, disk):
    """The exit code of a broker that ends while its disk hangs. Whoever plays the disk has a hand on a thread of it until then."""
    status = pathlib.Path(f"/proc/{broker.pid}/status")
    wait_for(lambda: "State:\tZ" in status.read_text(), BOUND_SECS, "the process has ended")
    disk.kill()
    return broker.ended()


def closed_with(client):
    """With which words the broker closes the connection."""
    deadline = time.monotonic() + BOUND_SECS
    while time.monotonic() < deadline:
        try:
            client.pump(1)
        except Closed as reason:
            return str(reason)
    raise AssertionError("not told of the stop")


@scenario("FM3")
def told_to_end_during_its_start_the_broker_leaves_everything_as_it_was(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    # Enough of a log that reading it takes a moment.
    Publisher(broker.port, history, "jobs", size=20000, window=200).publish_all(2000, limit=60)
    history.crashed()
    broker.kill()
    killed = broker.directory.with_name("killed")
    shutil.copytree(broker.directory, killed)
    early = 0
    for _ in range(case.rounds(6, 100)):
        # A start that came to its end has read the log, and the next one would be too short to be met.
        shutil.rmtree(broker.directory)
        shutil.copytree(killed, broker.directory)
        broker.launch()
        wait_for_line(broker)
        time.sleep(case.random.uniform(0, 0.05))
        broker.signal(case.random.choice([signal.SIGTERM, signal.SIGINT]))
        code = broker.ended()
        assert code == 0, f"exit code {code}:\n{broker.tail()}"
        early += "before anybody was let in" in broker.since_start()
    broker.start()
    assert drain(broker.port, history, "jobs") == 2000
    history.check()
    assert early, "each start was over before it was told to end"
    case.note(f"{early} of {case.rounds(6, 100)} had let nobody in")
    broker.stop()


@scenario("FM3")
def a_hangup_during_the_start_ends_nothing(case):
    broker = case.broker()
    for _ in range(case.rounds(3, 50)):
        broker.launch()
        wait_for_line(broker)
        for _ in range(5):
            broker.signal(signal.SIGHUP)
        wait_for(lambda: broker.ports_file.exists() or not broker.is_up(), 20, "a start or an end")
        assert broker.is_up(), f"exit code {broker.process.returncode}:\n{broker.tail()}"
        wait_for_words(broker, "Server startup complete")
        broker.stop()


def wait_for_line(broker):
    """The first line of the log is there: signals are listened to, and nothing is opened yet."""
    deadline = time.monotonic() + 20
    while "Starting Leveret" not in broker.since_start():
        assert time.monotonic() < deadline and broker.is_up(), broker.tail()


@scenario("FM10")
def a_limit_on_the_size_of_files_is_named_and_nothing_is_lost(case):
    limited = ["sh", "-c", 'ulimit -f 16000 && exec "$0" "$@"']
    what_may_not_be_written_ends_the_broker(case, limited, None, "limit on the size of files")


@scenario("FM10")
def a_quota_that_is_used_up_is_named_and_nothing_is_lost(case):
    def used_up(broker):
        return injected(broker, *quota_on(broker))

    what_may_not_be_written_ends_the_broker(case, [], used_up, "the quota of disk space is used up")


def quota_on(broker):
    command = strace("-P", str(broker.newest_log()), "-e", "inject=write,pwrite64:error=EDQUOT")
    return [part.replace("trace=fdatasync,fsync", "trace=write,pwrite64") for part in command]


def what_may_not_be_written_ends_the_broker(case, wrapper, fault, words):
    directory, history = case.scratch / "data", History()
    broker = case.broker(directory=directory, wrapper=wrapper)
    broker.start()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs", size=20000, window=10)
    publisher.publish_all(20)
    history.crashed()
    with fault(broker) if fault else contextlib.nullcontext():
        try:
            for _ in range(200):
                publisher.publish_all(10)
            raise AssertionError("all was written")
        except Gone:
            pass
        code = broker.ended()
    assert code == STORAGE_FAILED, f"exit code {code}:\n{broker.tail()}"
    assert words in broker.since_start(), broker.tail()
    again = case.broker(directory=directory)
    again.start()
    drain(again.port, history, "jobs")
    history.check()
    case.note(history.summary())
    again.stop()


@scenario("FM10")
def a_stop_does_not_wait_for_space_on_a_full_disk(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted)")
    image = Image(case.scratch, megabytes=256)
    # Without the alarm, which would have blocked the publisher long before.
    broker, history = case.broker("--disk-free-limit", "0", directory=image.place / "data"), History()
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    broker.start()
    declare(broker, "jobs")
    ballast = image.place / "ballast"
    run("fallocate", "-l", str(180 << 20), ballast)
    load = Load(broker, history, publishers=1, size=20000)
    wait_for(lambda: "the disk is full" in broker.since_start(), 60, "the disk is full")
    history.crashed()
    began = time.monotonic()
    broker.signal(signal.SIGTERM)
    code = broker.ended()
    took = time.monotonic() - began
    load.join()
    assert code == ENDED_AT_ONCE, f"exit code {code}:\n{broker.tail()}"
    assert took < BOUND_SECS, f"the stop took {took:.1f} s"
    ballast.unlink()
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"the stop took {took:.1f} s: {history.summary()}")
    broker.stop()
    image.unmount()
