"""The power goes: only what was synced is left, and the end of the log may be torn."""

import shutil
import signal
import time

from broker import Image, may_mount
from client import Client, Closed, Publisher, drain, publish_bytes
from faults import Skip, scenario
from history import History

from scenarios.kills import Load, declare, what_was_acked_stays_gone


@scenario("FM4")
def power_cut_under_load(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted): a copy of the directory "
                   "would hold what was never synced, and prove nothing")
    image = Image(case.scratch)
    broker, history = case.broker(directory=image.place / "data"), History()
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    topology, committed = Topology(case.random), 0
    for lap in range(case.rounds(4, 50)):
        broker.start()
        if lap == 0:
            declare(broker, "jobs", "left", "right")
        client, both = Client(broker.port), Client(broker.port)
        topology.check(broker.port)
        left, right = client.count("left"), client.count("right")
        assert left == right and left % 5 == 0, f"{left} on the left, {right} on the right"
        assert left >= committed * 5, f"{left} of {committed} transactions of 5"
        committed = left // 5
        both.ask("tx.select", "tx.select-ok")
        pair = publish_bytes(b"left", routing_key="left") + publish_bytes(b"right", routing_key="right")
        load = Load(broker, history, consumers=1, size=case.random.choice([50, 1000, 20000]))
        until = time.monotonic() + case.random.uniform(0.05, 0.8)
        while time.monotonic() < until:
            topology.change(client)
            both.write(pair * 5)
            both.ask("tx.commit", "tx.commit-ok")
            committed += 1
        history.crashed()
        image.cut_power(broker)
        load.join()
    broker.start()
    topology.check(broker.port)
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{history.summary()}, {topology.number} queues declared, {committed} transactions")
    broker.stop()
    image.unmount()


@scenario("FM4")
def what_was_acked_a_second_before_a_power_cut_does_not_come_back(case):
    if not may_mount():
        raise Skip("images cannot be mounted here (root, mkfs.ext4 and loop devices are wanted)")
    image = Image(case.scratch)
    broker = case.broker(directory=image.place / "data")
    broker.log, broker.ports_file = case.scratch / "log", case.scratch / "ports"
    what_was_acked_stays_gone(case, broker, image.cut_power)
    image.unmount()


class Topology:
    """Queues that are declared, bound and deleted again, each step told to be done."""

    def __init__(self, random):
        self.random, self.number = random, 0
        self.there, self.gone = [], []

    def change(self, client):
        queue = f"declared-{self.number}"
        self.number += 1
        client.declare(queue)
        client.ask("queue.bind", "queue.bind-ok", queue=queue, exchange="amq.direct", routing_key=queue)
        self.there.append(queue)
        if self.random.random() < 0.3:
            client.ask("queue.delete", "queue.delete-ok", queue=queue)
            self.gone.append(self.there.pop())

    def check(self, port):
        """All that was told is so: every queue is there, and of the newest ones each is bound or gone."""
        client = Client(port)
        for queue in self.there:
            client.ask("queue.declare", "queue.declare-ok", queue=queue, passive=True)
        client.close()
        for queue in self.there[-10:]:
            routed = History()
            Publisher(port, routed, queue, exchange="amq.direct", mandatory=True).publish_all(1)
            assert not routed.returned_ids, f"the binding of {queue} is lost"
        for queue in self.gone[-10:]:
            try:
                Client(port).ask("queue.declare", "queue.declare-ok", queue=queue, passive=True)
            except Closed as closed:
                assert "channel.close 404" in str(closed), closed
            else:
                raise AssertionError(f"{queue} was deleted and is there")


@scenario("FM5")
def torn_tail_is_cut_and_reported(case):
    """The log ends somewhere in what was being written when the power went, as a file system may leave it."""
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    load = Load(broker, history, size=1000)
    time.sleep(0.5)
    broker.freeze()
    confirmed = len(history.confirmed)
    synced = broker.copy_to(case.scratch / "synced")
    log = synced.newest_log()
    before = log.stat().st_size
    broker.signal(signal.SIGCONT)
    time.sleep(0.3)
    history.crashed()
    broker.freeze()
    whole = (broker.directory / "rocksdb" / log.name).read_bytes()
    assert len(whole) > before + 8192, "nothing was written in between"
    reported, laps = 0, case.rounds(4, 40)
    for lap in range(laps):
        copy = case.keep(synced.copy_to(case.scratch / f"copy{lap}"))
        end = case.random.randrange(before + 1, len(whole))
        torn = bytearray(whole[:end])
        if lap % 2:
            # Its length reached the disk, and one of its pages did not.
            page = case.random.randrange(before // 4096 + 1, max(len(torn) // 4096, before // 4096 + 2)) * 4096
            torn[page : page + 4096] = bytes(len(torn[page : page + 4096]))
        copy.newest_log().write_bytes(torn)
        copy.start()
        text = copy.since_start()
        assert "not stopped in order" in text, text
        reported += "bytes of unfinished commits" in text
        client = Client(copy.port)
        count = client.count("jobs")
        assert count >= confirmed, f"{count} messages, {confirmed} were confirmed before"
        copy.stop()
        shutil.rmtree(copy.directory)
    # A tail may end between two records by chance, and a page of zeros reads as the end.
    assert reported >= laps // 4, f"{reported} of {laps} torn tails were reported"
    case.note(f"{reported} of {laps} reported")
    broker.kill()
    load.join()
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    broker.stop()


@scenario("FM5")
def a_log_shorter_than_what_was_synced_is_refused(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs", size=1000)
    publisher.publish_all(200)
    # The side file has followed: what is there now was synced for sure.
    mark = broker.directory / "synced"
    deadline = time.monotonic() + 20
    before = mark.read_text() if mark.exists() else ""
    while not mark.exists() or mark.read_text() == before:
        assert time.monotonic() < deadline, "the side file does not follow"
        publisher.publish_all(1)
        time.sleep(0.05)
    history.crashed()
    broker.kill()
    copy = case.keep(broker.copy_to(case.scratch / "copy"))
    log = copy.newest_log()
    whole = log.read_bytes()
    log.write_bytes(whole[: len(whole) // 2])
    line = copy.refuses()
    assert "commits are missing" in line and "had been synced" in line, line
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    broker.stop()
