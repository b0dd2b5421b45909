"""Bytes on the disk change or go missing."""

import subprocess
import time

from broker import BIN
from client import Client, Consumer, Gone, Publisher, drain
from faults import scenario
from history import History

from scenarios.clients import wait_for
from scenarios.disk import STORAGE_FAILED
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
    # Few at a time: damage takes the commit that it hits, and some of its neighbours in the log.
    publisher = Publisher(broker.port, history, "jobs", size=1000, window=5)
    mark = broker.directory / "synced"
    deadline = time.monotonic() + 20
    publisher.publish_all(200)
    before = mark.read_text() if mark.exists() else ""
    while not mark.exists() or mark.read_text() == before:
        assert time.monotonic() < deadline, "the side file does not follow"
        publisher.publish_all(1)
        time.sleep(0.05)
    broker.kill()
    saved = []
    for lap in range(case.rounds(3, 30)):
        copy = case.keep(broker.copy_to(case.scratch / f"copy{lap}"))
        log = copy.newest_log()
        size = log.stat().st_size
        # Behind the declare, without which there would be messages of a queue without a name.
        flip(log, case.random.randrange(size // 8, size // 2), case.random.randrange(8))
        line = copy.refuses()
        assert "commits are missing" in line and f"leveret repair {copy.directory}" in line, line
        text = copy.repair()
        copy.start()
        left = History()
        left.attempts = history.attempts
        total = drain(copy.port, left, "jobs")
        left.check()
        assert f"with {total} messages" in text, f"{total} messages: {text}"
        assert total > 0, f"nothing of {len(history.confirmed)} was saved: {text}"
        assert "left behind: " in text, text
        saved.append(f"{total} of {len(history.confirmed)}")
        assert all(redelivered for _, _, _, redelivered in left.deliveries), "what was saved may have been delivered"
        copy.stop()
    case.note(f"saved by repair: {', '.join(saved)}")


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
    assert "[error]" in line and "hurt" in line, line
    assert None not in [found for _, _, found, _ in hurt.deliveries], "damaged bytes were delivered"
    assert len(consumer.deliveries) < len(hurt.confirmed)
    while consumer.pump(0.5):
        pass
    left = len(hurt.confirmed) - len(consumer.deliveries)
    counted = Client(broker.port).count("hurt")
    assert counted == left, f"{counted} are counted of {left} that are left"


def repair_saves_the_rest(broker, hurt, fine_count):
    """With a broker that was stopped. Nothing but the damaged rows is left behind, and they are named."""
    text = broker.repair()
    assert "left behind: message" in text, text
    broker.start()
    consumer = Client(broker.port)
    left = History()
    left.attempts = hurt.attempts
    counted = consumer.count("hurt")
    total = drain(broker.port, left, "hurt")
    left.check()
    assert total == counted, f"{total} of {counted}"
    assert len(hurt.confirmed) - 200 < total < len(hurt.confirmed), f"{total} of {len(hurt.confirmed)}: {text}"
    assert consumer.count("fine") == fine_count
    assert (broker.directory / "rocksdb.damaged").is_dir(), "the damaged database is not kept"
    broker.stop()
    return len(hurt.confirmed) - total


@scenario("FM7")
def a_flipped_bit_in_a_table_stops_its_queue_only(case):
    broker, hurt, fine = stored_in_tables(case, 1024, 20_000)
    table = max(broker.tables(), key=lambda path: path.stat().st_size)
    assert table.stat().st_size > 10 << 20, f"{table.stat().st_size} bytes"
    at = int(table.stat().st_size * case.random.uniform(0.2, 0.8))
    flip(table, at, case.random.randrange(8))
    damaged_queue_stands_still(broker, hurt, fine)
    broker.stop()
    case.note(f"{repair_saves_the_rest(broker, hurt, 0)} messages were left behind by the repair")


@scenario("FM7")
def a_flipped_bit_in_a_blob_file_stops_its_queue_only(case):
    broker, hurt, fine = stored_in_tables(case, 100_000, 250)
    blob = max(broker.blobs(), key=lambda path: path.stat().st_size)
    at = int(blob.stat().st_size * case.random.uniform(0.2, 0.8))
    flip(blob, at, case.random.randrange(8))
    damaged_queue_stands_still(broker, hurt, fine)
    broker.stop()
    case.note(f"{repair_saves_the_rest(broker, hurt, 0)} messages were left behind by the repair")


@scenario("FM8")
def a_missing_table_file_is_named_and_stops_the_start(case):
    broker, _, _ = stored_in_tables(case, 1024, 20_000)
    table = max(broker.tables(), key=lambda path: path.stat().st_size)
    table.unlink()
    line = broker.refuses()
    assert table.name.lstrip("0") in line and str(broker.directory) in line, line


@scenario("FM7")
def damage_that_the_database_meets_by_itself_ends_the_broker_with_a_way_out(case):
    """What is stored is rewritten now and then; damage met there cannot be left to one queue."""
    # Small files, which are rewritten often. The queue with the damage is the later one: the rows of both are in all files.
    broker = case.broker("--memory-limit", "100MB").start()
    declare(broker, "first", "second")
    histories = [History(), History()]

    def publish_to_both(megabytes):
        publishers = [
            Publisher(broker.port, history, queue, size=2000, window=200)
            for queue, history in zip(("first", "second"), histories)
        ]
        for _ in range(megabytes):
            for publisher in publishers:
                publisher.publish_all(250, limit=60)

    publish_to_both(12)
    broker.stop()
    # A stop breaks off a table that is being written.
    while not any(path.stat().st_size > 4 << 20 for path in broker.tables()):
        broker.start()
        publish_to_both(6)
        broker.stop()
    table = max(broker.tables(), key=lambda path: path.stat().st_size)
    # Towards its end, where the rows of the later queue are.
    flip(table, int(table.stat().st_size * case.random.uniform(0.6, 0.9)), case.random.randrange(8))
    broker.start()
    try:
        publish_to_both(200)
        raise AssertionError("the damage was not met")
    except Gone:
        pass
    code = broker.ended()
    assert code == STORAGE_FAILED, f"exit code {code}:\n{broker.tail()}"
    line = next(line for line in broker.since_start().splitlines() if "storage failed" in line)
    assert "is damaged" in line and f"leveret repair {broker.directory}" in line and table.name.lstrip("0") in line, line
    text = broker.repair()
    assert "left behind: message" in text, text
    broker.start()
    for queue, history in zip(("first", "second"), histories):
        left = History()
        left.attempts = history.attempts
        total = drain(broker.port, left, queue)
        left.check()
        assert total > len(history.confirmed) - 200, f"{total} of {len(history.confirmed)} in {queue}: {text}"
    publish_to_both(1)
    broker.stop()
    met = sum(len(history.confirmed) for history in histories)
    case.note(f"met with {met} messages; " + text.splitlines()[0][:100])


@scenario("FM7")
def a_damaged_row_of_metadata_is_named_and_repair_saves_the_rest(case):
    """The database knows nothing of it: the row is what somebody else wrote, with a checksum that does not match."""
    broker, history = case.broker().start(), History()
    declare(broker, "jobs", "another")
    Publisher(broker.port, history, "jobs").publish_all(100)
    broker.kill()
    log = broker.newest_log()
    data = bytearray(log.read_bytes())
    # The record's own checksum is made to match, so that only the row's is wrong.
    at = data.index(b"\x04jobs", data.index(b"messages") if b"messages" in data else 0)
    fix_record(data, at, at + 1)
    log.write_bytes(data)
    line = broker.refuses()
    assert "the row of a queue" in line and "checksum" in line and "leveret repair" in line, line
    text = broker.repair()
    assert "left behind: the row of a queue" in text and "queue recovered.1 was made" in text, text
    broker.start()
    Client(broker.port).ask("queue.declare", "queue.declare-ok", queue="another", passive=True)
    assert drain(broker.port, history, "recovered.1") == 100
    history.check()
    broker.stop()


def crc32c(data):
    table = crc32c.table
    if not table:
        for byte in range(256):
            crc = byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
            table.append(crc)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


crc32c.table = []


def fix_record(data, inside, change):
    """Flips a bit at `change` and gives the log record around `inside` the checksum of its new content.

    A record of RocksDB's log: masked CRC-32C 4, length 2, type 1, content; blocks of 32 KiB."""
    at = inside // 32768 * 32768
    while True:
        size = int.from_bytes(data[at + 4 : at + 6], "little")
        if at + 7 + size > inside:
            break
        at += 7 + size
    data[change] ^= 1
    crc = crc32c(data[at + 6 : at + 7 + size])
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    data[at : at + 4] = masked.to_bytes(4, "little")


@scenario("FM7")
def what_is_stored_is_told_without_a_broker(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs", "empty")
    Publisher(broker.port, history, "jobs", size=1000).publish_all(100)
    line = subprocess.run([BIN, "storage", "stat", broker.directory], capture_output=True, text=True, check=False)
    assert line.returncode == 1 and "in use by another broker" in line.stderr, line
    broker.kill()
    text = broker.stat()
    assert "not stopped in order; newest commit" in text, text
    assert "100           100000  in 2 queues" in text, text
    before = sorted((path.name, path.stat().st_size) for path in (broker.directory / "rocksdb").iterdir())
    broker.stat()
    assert before == sorted((path.name, path.stat().st_size) for path in (broker.directory / "rocksdb").iterdir())
    broker.start()
    broker.stop()
    assert broker.stat().startswith("stopped in order"), broker.stat()
