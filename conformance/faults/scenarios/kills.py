"""The broker's process ends: by force, by order, or because it is not alone."""

import signal
import threading
import time

from broker import WITH_API, Broker
from client import Client, Consumer, Publisher, drain
from faults import scenario
from history import ACK_GRACE_SECS, History, some


class Load:
    """Publishers and consumers in threads, on one queue."""

    def __init__(self, broker, history, publishers=2, consumers=0, **options):
        self.stopping = threading.Event()
        self.clients = [Publisher(broker.port, history, "jobs", **options) for _ in range(publishers)]
        self.clients += [Consumer(broker.port, history, "jobs", prefetch=200) for _ in range(consumers)]
        self.threads = [threading.Thread(target=client.run, args=(self.stopping,)) for client in self.clients]
        for thread in self.threads:
            thread.start()

    def join(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"


def declare(broker, *queues, **arguments):
    client = Client(broker.port)
    for queue in queues:
        client.declare(queue, **arguments)
    client.close()


@scenario("FM1")
def kill_while_publishing_with_confirms(case):
    broker, history = case.broker(), History()
    for lap in range(case.rounds(6, 100)):
        broker.start()
        if lap == 0:
            declare(broker, "jobs")
        load = Load(broker, history, size=case.random.choice([50, 1000, 20000]), window=case.random.choice([20, 500]))
        time.sleep(case.random.uniform(0.02, 0.4))
        history.crashed()
        broker.kill()
        load.join()
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{history.summary()}, slowest start {broker.slowest_start:.2f} s")
    broker.stop()


@scenario("FM1")
def modes_that_do_not_wait_for_the_disk_are_told_and_lose_nothing_by_a_kill(case):
    for mode, is_warned in (("always", False), ("interval", True), ("never", True)):
        broker, history = case.broker("--storage-sync", mode, *WITH_API, "--metrics-listen", "127.0.0.1:0"), History()
        for lap in range(case.rounds(2, 30)):
            broker.start()
            if lap == 0:
                declare(broker, "jobs")
            assert broker.api().get("overview").json["storage_sync"] == mode
            assert f'rabbitmq_storage_sync_info{{mode="{mode}"}} 1' in broker.metrics().splitlines()
            warnings = [line for line in broker.since_start().splitlines() if f"storage.sync is {mode}" in line]
            assert len(warnings) == is_warned, warnings
            load = Load(broker, history)
            time.sleep(case.random.uniform(0.02, 0.4))
            history.crashed()
            broker.kill()
            load.join()
        broker.start()
        drain(broker.port, history, "jobs")
        history.check()
        case.note(f"{mode}: {history.summary()}")
        broker.stop()


@scenario("FM2")
def kill_while_consuming_and_acking(case):
    broker, history = case.broker(), History()
    for lap in range(case.rounds(4, 100)):
        broker.start()
        if lap == 0:
            declare(broker, "jobs")
        load = Load(broker, history, publishers=1, consumers=10)
        time.sleep(case.random.uniform(0.05, 0.6))
        history.crashed()
        broker.kill()
        load.join()
    broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{history.summary()}, slowest start {broker.slowest_start:.2f} s")
    broker.stop()


@scenario("FM2")
def after_a_kill_all_of_a_queue_with_consumers_is_flagged_and_nothing_else(case):
    """Which of its messages were handed out nobody can know; those of the other queue were not."""
    broker, consumed, untouched = case.broker().start(), History(), History()
    declare(broker, "consumed", "untouched")
    Publisher(broker.port, consumed, "consumed").publish_all(300)
    Publisher(broker.port, untouched, "untouched").publish_all(300)
    consumer = Consumer(broker.port, History(), "consumed", prefetch=1, acks=False)
    consumer.pump_until(lambda: consumer.deliveries, what="a delivery")
    for history in (consumed, untouched):
        history.crashed()
    broker.kill()
    broker.start()
    for queue, history in (("consumed", consumed), ("untouched", untouched)):
        assert drain(broker.port, history, queue) == 300
        history.check()
        flagged = sum(redelivered for _, _, _, redelivered in history.deliveries)
        assert flagged == (300 if history is consumed else 0), f"{flagged} of 300 in {queue} are flagged"
    broker.stop()


@scenario("FM2")
def what_was_acked_a_second_before_a_kill_does_not_come_back(case):
    what_was_acked_stays_gone(case, case.broker(), lambda broker: broker.kill())


def what_was_acked_stays_gone(case, broker, end):
    """Any of what a consumer holds is acked; the rest is what there is afterwards."""
    broker.start()
    history = History()
    declare(broker, "jobs")
    Publisher(broker.port, history, "jobs").publish_all(1000)
    consumer = Consumer(broker.port, history, "jobs", prefetch=0, acks=False)
    consumer.pump_until(lambda: len(consumer.deliveries) == 1000, what="all deliveries")
    for tag, found, _ in case.random.sample(consumer.deliveries, 500):
        consumer.send("basic.ack", delivery_tag=tag)
        history.acked([found])
    # Behind this answer they have been read, and from then on time has to pass.
    consumer.ask("basic.qos", "basic.qos-ok", prefetch_count=1)
    time.sleep(ACK_GRACE_SECS + 0.2)
    history.crashed()
    end(broker)
    broker.start()
    assert Client(broker.port).count("jobs") == 500
    assert drain(broker.port, history, "jobs") == 500
    history.check()
    broker.stop()


@scenario("FM3")
def kill_during_the_start_twice_in_a_row(case):
    broker, history = case.broker(), History()
    broker.start()
    declare(broker, "jobs")
    for _ in range(case.rounds(3, 100)):
        load = Load(broker, history, size=1000)
        time.sleep(case.random.uniform(0.05, 0.3))
        history.crashed()
        broker.kill()
        load.join()
        for _ in range(2):
            broker.launch()
            # A start takes tens of milliseconds; also some that had just ended.
            time.sleep(case.random.choice([case.random.uniform(0.0, 0.1), case.random.uniform(0.01, 0.5)]))
            broker.kill()
        broker.start()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{history.summary()}, slowest start {broker.slowest_start:.2f} s")
    broker.stop()


@scenario("FM33")
def sigterm_under_load(case):
    broker, history = case.broker(), History()
    for lap in range(case.rounds(3, 100)):
        broker.start()
        if lap == 0:
            declare(broker, "jobs")
        load = Load(broker, history, publishers=2, consumers=1)
        time.sleep(case.random.uniform(0.05, 0.3))
        history.crashed()
        broker.signal(signal.SIGTERM)
        # They read on until they are told of the end.
        code = broker.ended()
        load.join()
        assert code == 0, f"exit code {code}:\n{broker.tail()}"
    broker.start()
    assert ": stopped in order" in broker.since_start(), broker.tail()
    drain(broker.port, history, "jobs")
    history.check()
    unanswered = {found for _, _, found, _ in history.deliveries} - history.confirmed
    assert not unanswered, f"{len(unanswered)} messages were stored and not confirmed: {some(unanswered)}"
    case.note(history.summary())
    broker.stop()


@scenario("FM35")
def two_brokers_on_one_directory(case):
    broker = case.broker().start()
    second = case.keep(Broker(broker.directory))
    second.log = case.scratch / "second.log"
    second.ports_file = case.scratch / "second.ports"
    began = time.monotonic()
    line = second.refuses()
    assert "is in use by another broker" in line and str(broker.pid) in line, line
    assert time.monotonic() - began < 3, "the refusal took long"
    declare(broker, "still-there")
    broker.stop()
