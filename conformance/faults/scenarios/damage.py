"""Bytes on the disk change or go missing."""

import time

from client import Client, Consumer, Publisher, drain
from faults import scenario
from history import History

from scenarios.clients import wait_for
from scenarios.kills import declare


def flip(path, at, bit):
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


@scenario("FM6")
def a_flipped_bit_in_a_synced_part_of_the_log_stops_the_start(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs", size=1000)
    mark = broker.directory / "synced"
    deadline = time.monotonic() + 20
    publisher.publish_all(200)
    before = mark.read_text() if mark.exists() else ""
    while not mark.exists() or mark.read_text() == before:
        assert time.monotonic() < deadline, "the side file does not follow"
        publisher.publish_all(1)
        time.sleep(0.05)
    broker.kill()
    for lap in range(case.rounds(3, 30)):
        copy = case.keep(broker.copy_to(case.scratch / f"copy{lap}"))
        log = copy.newest_log()
        # Within the first half: what lies there was synced long before the mark.
        flip(log, case.random.randrange(0, log.stat().st_size // 2), case.random.randrange(8))
        line = copy.refuses()
        assert "commits are missing" in line and str(copy.directory) in line, line


def stored_in_tables(case, size, count):
    """A broker that was stopped with its messages in table files: many of `hurt`, a few of `fine`."""
    broker, hurt, fine = case.broker().start(), History(), History()
    declare(broker, "hurt", "fine")
    Publisher(broker.port, hurt, "hurt", size=size, window=2000 if size < 5000 else 20).publish_all(count, limit=60)
    Publisher(broker.port, fine, "fine").publish_all(100)
    broker.stop()
    return broker, hurt, fine


def damaged_queue_stands_still(broker, hurt, fine):
    """The others are served; of the damaged one nothing wrong, and nothing is dropped without a word."""
    broker.start()
    assert drain(broker.port, fine, "fine") == 100
    fine.check()
    consumer = Consumer(broker.port, hurt, "hurt", prefetch=0, acks=False)

    def is_named():
        consumer.pump(0.05)
        return "cannot be read" in broker.since_start()

    wait_for(is_named, 30, "the damage is named")
    line = next(line for line in broker.since_start().splitlines() if "cannot be read" in line)
    assert "ERROR" in line and "hurt" in line, line
    assert None not in [found for _, _, found, _ in hurt.deliveries], "damaged bytes were delivered"
    assert len(consumer.deliveries) < len(hurt.confirmed)
    while consumer.pump(0.5):
        pass
    left = len(hurt.confirmed) - len(consumer.deliveries)
    counted = Client(broker.port).count("hurt")
    assert counted == left, f"{counted} are counted of {left} that are left"


@scenario("FM7")
def a_flipped_bit_in_a_table_stops_its_queue_only(case):
    broker, hurt, fine = stored_in_tables(case, 1024, 20_000)
    table = max(broker.tables(), key=lambda path: path.stat().st_size)
    assert table.stat().st_size > 10 << 20, f"{table.stat().st_size} bytes"
    at = int(table.stat().st_size * case.random.uniform(0.2, 0.8))
    flip(table, at, case.random.randrange(8))
    damaged_queue_stands_still(broker, hurt, fine)
    broker.stop()


@scenario("FM7")
def a_flipped_bit_in_a_blob_file_stops_its_queue_only(case):
    broker, hurt, fine = stored_in_tables(case, 100_000, 250)
    blob = max(broker.blobs(), key=lambda path: path.stat().st_size)
    at = int(blob.stat().st_size * case.random.uniform(0.2, 0.8))
    flip(blob, at, case.random.randrange(8))
    damaged_queue_stands_still(broker, hurt, fine)
    broker.stop()


@scenario("FM8")
def a_missing_table_file_is_named_and_stops_the_start(case):
    broker, _, _ = stored_in_tables(case, 1024, 20_000)
    table = max(broker.tables(), key=lambda path: path.stat().st_size)
    table.unlink()
    line = broker.refuses()
    assert table.name.lstrip("0") in line and str(broker.directory) in line, line
