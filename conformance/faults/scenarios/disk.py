"""The disk fails, fills up, is slow or hangs."""

import contextlib
import pathlib
import re
import shutil
import signal
import statistics
import struct
import subprocess
import time

from broker import WITH_API, Image, may_mount, run
from client import METHODS, Client, Consumer, Gone, Publisher, at_once, drain, publish_bytes
from faults import Skip, scenario
from history import History

from scenarios.clients import wait_for
from scenarios.kills import Load, declare

STORAGE_FAILED = 3


def strace(*injection):
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    return ["strace", "-f", "-qq", "--signal=none", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", *injection]


def slow_disk(broker, delay_ms):
    """For a while every sync of the broker takes so much longer."""
    return injected(broker, *strace("-e", f"inject=fdatasync:delay_exit={delay_ms * 1000}"))


def hanging_disk(broker):
    """For a while no sync of the broker begins; unlike on one that is frozen, the process can end."""
    return injected(broker, *strace("-e", "inject=fdatasync:delay_enter=600000000"))


@contextlib.contextmanager
def injected(broker, *command):
    """Something goes wrong with system calls of a running broker, until it ends or the scenario goes on."""

    def traced():
        tasks = pathlib.Path(f"/proc/{broker.process.pid}/task")
        try:
            return ["TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks.iterdir()]
        except OSError:
            # It has ended, or one of its threads has.
            return [] if broker.process.poll() is not None else [False, True]

    command = [*command, "-p", str(broker.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        wait_for(lambda: all(traced()) or tracer.poll() is not None, 20, "strace has every thread")
        if tracer.poll() is not None:
            raise Skip(f"strace may not trace here: {tracer.stderr.read().decode().strip()}")
        yield tracer
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.wait(20)
    wait_for(lambda: not any(traced()), 20, "strace has let go of every thread")


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


@scenario("FM9")
def who_waits_for_a_sync_that_fails_is_told_nothing(case):
    directory = case.scratch / "data"
    # A first start has syncs of its own.
    broker = case.broker(directory=directory).start()
    declare(broker, "jobs")
    broker.stop()
    for lap in range(case.rounds(2, 20)):
        nth = case.random.randrange(5, 20)
        broker = case.broker(directory=directory, wrapper=strace("-e", f"inject=fdatasync:error=EIO:when={nth}"))
        broker.start(limit=20)
        told = []

        def declare_on(number, broker=broker, lap=lap, told=told):
            try:
                client = Client(broker.port)
                for turn in range(20):
                    queue = f"queue-{lap}-{number}-{turn}"
                    client.declare(queue)
                    told.append(queue)
            except Gone:
                return
            raise AssertionError("every declare was answered, although a sync failed")

        at_once([lambda number=number: declare_on(number) for number in range(8)])
        assert broker.ended() == STORAGE_FAILED, broker.tail()

        again = case.broker(directory=directory)
        again.start()
        client = Client(again.port)
        for queue in told:
            client.count(queue)
        case.note(f"{len(told)} declares were answered before sync {nth} failed")
        again.stop()


PROMISES = {
    struct.pack(">HH", *METHODS[name].ids): name
    for name in (
        "basic.ack",
        "exchange.declare-ok",
        "exchange.delete-ok",
        "queue.declare-ok",
        "queue.bind-ok",
        "queue.unbind-ok",
        "queue.purge-ok",
        "queue.delete-ok",
        "tx.commit-ok",
    )
}


API = "2xx of the HTTP API"


def syncs_and_promises(trace):
    """What strace saw, in order: a sync of the log that has ended, as `None`, and a promise that begins to leave."""
    events, syncing = [], {}
    for line in trace.read_text().splitlines():
        thread, _, call = line.partition(" ")
        octets = re.sub(r"(?:\\x[0-9a-f]{2})+", lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode("latin-1"), call)
        if "fdatasync(" in call:
            syncing[thread.strip()] = ".log>" in octets
        is_over = "fdatasync" in call and call.rstrip().endswith("= 0")
        if is_over and syncing.pop(thread.strip(), False):
            events.append(None)
        if "<socket:" in octets and '"HTTP/1.1 20' in octets:
            events.append(API)
        # A method on channel 1, written to a socket in one piece: type, channel, size, then its two numbers.
        for found in re.finditer("\x01\x00\x01\x00\x00..(....)", octets, re.DOTALL) if "<socket:" in octets else ():
            if name := PROMISES.get(found[1].encode("latin-1")):
                events.append(name)
    return events


@scenario("FM9")
def no_promise_leaves_before_a_sync_behind_what_it_promises(case):
    trace = case.scratch / "trace"
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    calls = "trace=fdatasync,write,writev,sendto,sendmsg"
    wrapper = ["strace", "-f", "-qq", "-y", "-xx", "-s", "64", "--signal=none", "-o", str(trace), "-e", calls]
    broker = case.broker(*WITH_API, wrapper=wrapper)
    broker.start(limit=25)
    api = broker.api()
    client, both = Client(broker.port), Client(broker.port)
    both.ask("tx.select", "tx.select-ok")
    # One after the other, so that each needs a sync of its own.
    for lap in range(case.rounds(3, 30)):
        names = {"queue": f"queue-{lap}", "exchange": f"exchange-{lap}"}
        client.declare(names["queue"])
        client.declare(f"other-{lap}")
        client.ask("exchange.declare", "exchange.declare-ok", exchange=names["exchange"], type="direct", durable=True)
        client.ask("queue.bind", "queue.bind-ok", **names, routing_key="key")
        publisher = Publisher(broker.port, History(), names["queue"], window=1, size=case.random.choice([50, 20000]))
        publisher.publish_all(10)
        both.write(b"".join(publish_bytes(b"both", routing_key=queue) for queue in (names["queue"], f"other-{lap}")))
        both.ask("tx.commit", "tx.commit-ok")
        got = [both.ask("basic.get", "basic.get-ok", queue=names["queue"], no_ack=False) for _ in range(2)]
        for message in got:
            both.send("basic.ack", delivery_tag=message.delivery_tag)
            both.ask("tx.commit", "tx.commit-ok")
        client.ask("queue.purge", "queue.purge-ok", queue=names["queue"])
        client.ask("queue.unbind", "queue.unbind-ok", **names, routing_key="key")
        client.ask("exchange.delete", "exchange.delete-ok", exchange=names["exchange"])
        client.ask("queue.delete", "queue.delete-ok", queue=f"other-{lap}")
        for method, path, body in changes_by_api(lap):
            answer = api.request(method, path, body)
            assert answer.status // 100 == 2, f"{method} {path}: {answer}"
    broker.end_quietly()
    events = syncs_and_promises(trace)
    told = [name for name in events if name]
    laps = case.rounds(3, 30)
    assert set(told) == {*PROMISES.values(), API} and told.count("basic.ack") == 10 * laps, told
    assert told.count(API) == len(changes_by_api(0)) * laps, told
    for before, name in zip([*events[:1], *events], events):
        assert not name or before is None, f"{name}, number {told.count(name)}, left behind {before} and no sync: {events}"
    case.note(f"{len(told)} promises, {events.count(None)} syncs")


def changes_by_api(lap):
    """Everything that can be changed, made and removed."""
    vhost, user, anything = f"vhost-{lap}", f"user-{lap}", {"configure": ".*", "write": ".*", "read": ".*"}
    queue, exchange, policy = f"queues/{vhost}/q", f"exchanges/{vhost}/e", {"pattern": ".*", "definition": {"max-length": 9}}
    message = {"properties": {"delivery_mode": 2}, "routing_key": "q", "payload": "text", "payload_encoding": "string"}
    federated = {"value": {"uri": "amqp://localhost"}}
    return [
        ("PUT", f"vhosts/{vhost}", {}),
        ("PUT", f"users/{user}", {"password": "secret", "tags": ""}),
        ("PUT", f"permissions/{vhost}/{user}", anything),
        ("PUT", f"topic-permissions/{vhost}/{user}", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
        ("PUT", queue, {"durable": True}),
        ("PUT", exchange, {"type": "direct", "durable": True}),
        ("POST", f"bindings/{vhost}/e/e/e/amq.fanout", {"routing_key": "key"}),
        ("POST", f"bindings/{vhost}/e/e/q/q", {"routing_key": "key"}),
        ("PUT", f"policies/{vhost}/p", policy),
        ("PUT", f"operator-policies/{vhost}/p", policy),
        ("PUT", f"vhost-limits/{vhost}/max-queues", {"value": 10}),
        ("PUT", f"user-limits/{user}/max-channels", {"value": 10}),
        ("PUT", f"parameters/federation-upstream/{vhost}/f", federated),
        ("PUT", f"global-parameters/g-{lap}", {"value": "any"}),
        ("POST", f"definitions/{vhost}", {"queues": [{"name": "d", "durable": True, "auto_delete": False, "arguments": {}}]}),
        ("POST", f"exchanges/{vhost}/amq.default/publish", message),
        ("DELETE", f"global-parameters/g-{lap}", None),
        ("DELETE", f"parameters/federation-upstream/{vhost}/f", None),
        ("DELETE", f"user-limits/{user}/max-channels", None),
        ("DELETE", f"vhost-limits/{vhost}/max-queues", None),
        ("DELETE", f"operator-policies/{vhost}/p", None),
        ("DELETE", f"policies/{vhost}/p", None),
        ("DELETE", f"bindings/{vhost}/e/e/q/q/key", None),
        ("DELETE", exchange, None),
        ("DELETE", f"{queue}/contents", None),
        ("DELETE", queue, None),
        ("DELETE", f"topic-permissions/{vhost}/{user}", None),
        ("DELETE", f"permissions/{vhost}/{user}", None),
        ("DELETE", f"users/{user}", None),
        ("DELETE", f"vhosts/{vhost}", None),
    ]


@scenario("FM10")
def a_full_disk_blocks_publishers_and_space_is_enough_to_go_on(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted)")
    image = Image(case.scratch, megabytes=256)
    # Without the alarm, which would have blocked the publisher long before.
    broker = case.broker("--disk-free-limit", "0", directory=image.place / "data")
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    history = History()
    broker.start()
    declare(broker, "jobs")
    ballast = image.place / "ballast"
    run("fallocate", "-l", str(180 << 20), ballast)
    # It takes no more than its prefetch until the disk is full.
    consumer = Consumer(broker.port, history, "jobs", prefetch=20)
    load = Load(broker, history, publishers=1, size=20000)
    deadline = time.monotonic() + 60
    while "the disk is full" not in broker.since_start():
        assert broker.is_up(), f"a full disk ended the broker:\n{broker.tail()}"
        assert time.monotonic() < deadline, f"the disk is not full after a minute:\n{broker.tail()}"
        time.sleep(0.05)
    # Everybody else goes on meanwhile: what needs no disk is answered.
    client = Client(broker.port)
    assert client.count("jobs") > 0
    late = Publisher(broker.port, history, "jobs")
    late.publish(1)
    late.pump_until(lambda: late.blocked, what="connection.blocked")
    taken = 0
    while taken < 100:
        assert consumer.pump(10), f"{taken} deliveries while the disk is full"
        taken += len(consumer.deliveries)
        consumer.ack_all()
    consumer.hang_up()
    assert "there is space on the disk again" not in broker.since_start(), broker.tail()
    confirmed = len(history.confirmed)
    ballast.unlink()
    deadline = time.monotonic() + 30
    while len(history.confirmed) <= confirmed:
        assert time.monotonic() < deadline, f"no confirm after there was space:\n{broker.tail()}"
        time.sleep(0.05)
    load.join()
    late.settle()
    late.pump_until(lambda: len(late.blocked) == 2, what="connection.unblocked")
    assert late.blocked == ["low on disk", None], late.blocked
    drain(broker.port, history, "jobs")
    history.check()
    case.note(history.summary())
    broker.stop()
    image.unmount()


@scenario("FM11")
def a_disk_that_is_nearly_full_blocks_publishers_until_there_is_space(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted)")
    image = Image(case.scratch, megabytes=256)
    broker = case.broker("--disk-free-limit", "120MB", *WITH_API, directory=image.place / "data")
    history = History()
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    broker.start()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs")
    publisher.publish_all(2000)
    ballast, api = image.place / "ballast", broker.api()
    assert api.get("health/checks/local-alarms").status == 200
    run("fallocate", "-l", str(150 << 20), ballast)

    def give_room():
        answer = api.get("health/checks/local-alarms")
        assert answer.status == 503 and [each["resource"] for each in answer.json["alarms"]] == ["disk"], answer
        ballast.unlink()

    publisher_is_blocked_and_consumers_go_on(broker, history, publisher, "low on disk", give_room)
    wait_for(lambda: api.get("health/checks/local-alarms").status == 200, 10, "the health check is good again")
    broker.stop()
    image.unmount()


def publisher_is_blocked_and_consumers_go_on(broker, history, publisher, reason, give_room):
    """What a low disk and low memory have in common. The alarm is about to be on."""
    wait_for(lambda: "alarm: publishers wait" in broker.since_start(), 10, "the alarm")
    # Told with the next publish, which waits for its body, as on RabbitMQ.
    assert publisher.blocked == []
    confirmed = len(history.confirmed)
    publisher.publish(10)
    publisher.pump_until(lambda: publisher.blocked, what="connection.blocked")
    assert publisher.blocked == [reason]
    publisher.publish(50)
    # Who comes now is let in, and blocked when it publishes; without the capability it is not told.
    late = Publisher(broker.port, history, publisher.queue, capabilities={})
    late.publish(1)
    late.publish(1)
    # Consumers and their acks go on, and are told nothing.
    consumer = Consumer(broker.port, history, publisher.queue, prefetch=100)
    taken = 0
    while taken < 1000:
        taken += len(consumer.deliveries)
        consumer.ack_all()
        assert consumer.pump(10), "no deliveries while the alarm is on"
    assert consumer.blocked == []
    publisher.pump(0.3)
    assert publisher.blocked == [reason], "told twice"
    assert len(history.confirmed) == confirmed, "a blocked connection was read"
    give_room()
    publisher.pump_until(lambda: len(publisher.blocked) == 2, what="connection.unblocked")
    assert publisher.blocked[-1] is None
    publisher.settle()
    late.settle()
    assert late.blocked == []
    # Blocked anew only by a new alarm.
    publisher.publish_all(10)
    assert len(publisher.blocked) == 2
    consumer.close()
    drain(broker.port, history, publisher.queue)
    history.check()


@scenario("FM17")
def a_flood_without_consumers_is_blocked_at_the_watermark_and_released_after(case):
    # What is transient goes to the disk before memory is low, but not from a queue with priorities.
    broker, history = case.broker("--memory-limit", "75MB").start(), History()
    client = Client(broker.port)
    client.ask("queue.declare", "queue.declare-ok", queue="flood", durable=False,
               arguments={"x-max-priority": 1})
    client.declare("jobs")
    publisher = Publisher(broker.port, history, "jobs")
    publisher.publish_all(2000)
    body = publish_bytes(b"x" * 20000, routing_key="flood", persistent=False)
    flood = Client(broker.port)
    deadline = time.monotonic() + 60
    sent, rest = 0, b""
    while not flood.blocked:
        assert time.monotonic() < deadline, f"not blocked after {sent >> 20} MiB, {broker.rss() >> 20} MiB resident"
        rest = rest or body * 10
        flood.sock.setblocking(False)
        try:
            taken = flood.sock.send(rest)
            sent, rest = sent + taken, rest[taken:]
        except BlockingIOError:
            flood.pump(0.05)
    assert flood.blocked == ["low on memory"]
    peak = broker.rss()

    def purge():
        assert client.ask("queue.purge", "queue.purge-ok", queue="flood").message_count > 0

    publisher_is_blocked_and_consumers_go_on(broker, history, publisher, "low on memory", purge)
    case.note(f"{sent >> 20} MiB were taken, {peak >> 20} MiB resident at the most, {broker.rss() >> 20} after")
    broker.stop()


@scenario("FM12")
def a_slow_disk_delays_confirms_breaks_no_heartbeat_and_is_forgotten_when_it_is_fast_again(case):
    delay_ms = case.random.choice([200, 500, 1000, 2000])
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    serial = Publisher(broker.port, history, "jobs", window=1)
    fast = statistics.median(confirm_secs(serial, 20))
    before = broker.rss()
    with slow_disk(broker, delay_ms):
        slow = min(confirm_secs(serial, 2))
        assert slow >= delay_ms / 1000, f"confirmed after {slow:.3f} s, and a sync takes {delay_ms} ms"
        idle = Client(broker.port, heartbeat=1)
        publisher = Publisher(broker.port, history, "jobs", window=1000, size=1000, heartbeat=1)
        until = time.monotonic() + case.rounds(6, 60)
        while time.monotonic() < until:
            room = publisher.window - len(publisher.open)
            if room:
                publisher.publish(room)
            publisher.pump(0.1)
            idle.pump()
        # Each beats while it waits.
        at_once([lambda: idle.declare("also-slow"), lambda: publisher.settle(60)])
        grown = broker.rss() - before
        assert grown < 128 << 20, f"{before >> 20} MiB grew by {grown >> 20} MiB"
    wait_for(lambda: max(confirm_secs(serial, 5)) < delay_ms / 2000, 30, "confirms are fast again")
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{fast * 1000:.1f} ms, then {slow * 1000:.0f} with {delay_ms} ms a sync: {history.summary()}")
    broker.stop()


def confirm_secs(publisher, count):
    """How long each of so many messages waits for its confirm, one behind the other."""
    taken = []
    for _ in range(count):
        began = time.monotonic()
        publisher.publish_all(1)
        taken.append(time.monotonic() - began)
    return taken


@scenario("FM12")
def a_flood_onto_a_slow_disk_is_read_no_faster_than_it_is_written(case):
    # A third of it is for what the store has not written to table files.
    broker, history = case.broker("--memory-limit", "300MB").start(), History()
    declare(broker, "flood", "jobs")
    publisher = Publisher(broker.port, history, "jobs", heartbeat=2)
    with slow_disk(broker, 1000):
        until = time.monotonic() + case.rounds(5, 60)
        note = flood_while(broker, history, publisher, lambda: time.monotonic() < until)
        assert len(history.confirmed) >= 10, "the flood keeps the other publisher from its confirms"
    publisher.settle(60)
    assert "memory alarm" not in broker.since_start(), broker.tail()
    case.note(note)
    broker.end_quietly()


def flood_while(broker, history, publisher, goes_on):
    """A client without confirms sends as much as the broker reads; beside it a good one has few messages open at a time, and
    hears the broker's heartbeats."""
    before = broker.rss()
    # Without confirms nobody holds this client back but the broker.
    flood = Client(broker.port)
    body = publish_bytes(b"x" * 4000, routing_key="flood") * 25
    sent, rest, peak = 0, b"", 0
    while goes_on():
        if len(publisher.open) < 10:
            publisher.publish(10)
        rest = rest or body
        flood.sock.setblocking(False)
        try:
            taken = flood.sock.send(rest)
            sent, rest = sent + taken, rest[taken:]
            publisher.pump()
        except BlockingIOError:
            publisher.pump(0.02)
        peak = max(peak, broker.rss() - before)
    written = broker.written_to_logs()
    # Its own share of what waits, what the sockets hold, and what is being written.
    assert sent - written < 48 << 20, f"{sent >> 20} MiB were taken, {written >> 20} MiB are written"
    assert peak < 192 << 20, f"memory grew by {peak >> 20} MiB"
    return f"{sent >> 20} MiB taken, {written >> 20} MiB written, memory grew by {peak >> 20} MiB"


@scenario("FM14")
def a_database_that_stalls_holds_publishers_back_and_nobody_else(case):
    # Small buffers, and table files that take long to be synced: they fill faster than they can be emptied. The log is not
    # synced, so that it is the database that makes writers wait, and not the disk.
    wrapper = strace("-e", "inject=fdatasync:delay_exit=1500000")
    broker = case.broker("--storage-sync", "never", "--memory-limit", "100MB", wrapper=wrapper)
    history = History()
    broker.start(limit=25)
    declare(broker, "flood", "jobs")
    publisher = Publisher(broker.port, history, "jobs", heartbeat=2)
    stalls = ("Stalling writes", "Stopping writes")
    seen_at = []
    deadline = time.monotonic() + 60

    def goes_on():
        if not seen_at and any(word in broker.since_start() for word in stalls):
            seen_at.append(time.monotonic())
        assert time.monotonic() < deadline or seen_at, "the database does not stall"
        return not seen_at or time.monotonic() < seen_at[0] + case.rounds(4, 60)

    note = flood_while(broker, history, publisher, goes_on)
    confirmed = len(history.confirmed)
    assert confirmed >= 10, "the flood keeps the other publisher from its confirms"
    publisher.settle(60)
    publisher.publish(100)
    publisher.settle(60)
    drain(broker.port, history, "jobs")
    history.check()
    words = [word for word in stalls if word in broker.since_start()]
    case.note(f"{', '.join(words)}; {note}, {confirmed} confirms beside it")
    broker.end_quietly()


@scenario("FM13")
def a_hanging_disk_stops_confirms_and_nothing_else(case):
    if not may_mount() or not shutil.which("fsfreeze"):
        raise Skip("images cannot be mounted and frozen here (root, mkfs.ext4, loop devices and fsfreeze are wanted)")
    image = Image(case.scratch, megabytes=128)
    broker, history = case.broker(*WITH_API, directory=image.place / "data"), History()
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    broker.start()
    declare(broker, "jobs")
    publisher, api = Publisher(broker.port, history, "jobs", heartbeat=1), broker.api()
    publisher.publish_all(100)
    checks = ("health/checks/local-alarms", "health/checks/alarms", "x/ready")
    assert [api.get(check).status for check in checks] == [200] * 3
    # Thawed by another process, whatever becomes of this one.
    thaw = subprocess.Popen(["sh", "-c", f"sleep 9; exec fsfreeze --unfreeze {image.place}"])
    run("fsfreeze", "--freeze", image.place)
    try:
        confirmed = len(history.confirmed)
        publisher.publish(50)
        until = time.monotonic() + 6
        while time.monotonic() < until:
            publisher.pump(0.1)
        answers = [api.get(check) for check in checks]
        assert all(answer.status == 503 and "has not answered for" in answer.json["reason"] for answer in answers), answers
        assert len(history.confirmed) == confirmed, "confirmed by a disk that hangs"
        # Transient messages need no disk.
        client = Client(broker.port)
        client.ask("queue.declare", "queue.declare-ok", queue="in-memory", durable=False, exclusive=True)
        assert client.count("in-memory") == 0
        publisher.pump_until(lambda: thaw.poll() is not None, 30, "the end of the frost")
    finally:
        thaw.wait(30)
    publisher.settle()
    wait_for(lambda: all(api.get(check).status == 200 for check in checks), 10, "health checks are good again")
    drain(broker.port, history, "jobs")
    history.check()
    broker.stop()
    image.unmount()
