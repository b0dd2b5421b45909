"""Queues that come and go, die, expire, or hold very much."""

import collections
import statistics
import threading
import time

from client import Client, Closed, Consumer, Gone, Publisher, drain, id_of, publish_bytes
from faults import scenario
from history import History, Tally

from scenarios.clients import wait_for
from scenarios.disk import confirm_secs, strace
from scenarios.kills import declare


@scenario("FM15")
def a_backlog_costs_disk_and_no_memory_and_drains_in_order(case):
    total = case.rounds(20_000, 10_000_000)
    broker, history = case.broker().start(), Tally()
    declare(broker, "jobs")
    publisher = Publisher(broker.port, history, "jobs", size=1024, window=2000)
    publisher.publish_all(total // 2, limit=3000)
    half = broker.rss()
    publisher.publish_all(total - total // 2, limit=3000)
    full = broker.rss()
    assert full - half < 160 << 20, f"{half >> 20} MiB at half of the backlog, {full >> 20} MiB with all of it"
    history.crashed()
    broker.kill()
    broker.start()
    drain(broker.port, history, "jobs", limit=3000)
    history.check()
    case.note(f"{total} messages, {half >> 20} and {full >> 20} MiB, start {broker.slowest_start:.2f} s")
    broker.stop()


class Holder(Consumer):
    """Takes all it can get and gives nothing back; remembers how far it came."""

    def __init__(self, port, queue, **options):
        self.count, self.flagged = 0, 0
        super().__init__(port, Tally(), queue, prefetch=0, acks=False, **options)

    def on_delivery(self, tag, redelivered, body):
        self.count += 1
        self.flagged += redelivered
        found = id_of(body)
        assert found and found[1] == self.count, f"{found} came, and number {self.count} was next"

    def hold(self, total, limit=3000):
        self.pump_until(lambda: self.count == total, limit, f"{total} messages")
        return self


@scenario("FM15")
def what_a_consumer_holds_is_on_disk_and_comes_back_in_order(case):
    total = case.rounds(40_000, 1_000_000)
    broker, history = case.broker().start(), Tally()
    declare(broker, "jobs")
    Publisher(broker.port, history, "jobs", size=1024, window=2000).publish_all(total, limit=3000)
    before, held = broker.rss(), []
    for lap in range(2):
        holder = Holder(broker.port, "jobs").hold(total)
        assert holder.flagged == (total if lap else 0), f"{holder.flagged} of {total} flagged the {lap + 1}. time"
        held.append(broker.rss())
        if lap == 0:
            holder.hang_up()
    # 64 bytes in the queue and 40 in the channel, twice while a list grows.
    limit = before + (48 << 20) + 200 * total
    assert max(held) < min(limit, 256 << 20), f"{before >> 20} MiB before, then {[each >> 20 for each in held]} MiB"
    history.crashed()
    broker.kill()
    broker.start()
    drain(broker.port, history, "jobs", limit=3000)
    history.check()
    case.note(f"{total} messages, {before >> 20} MiB before, {held[0] >> 20} and {held[1] >> 20} MiB with all of them unacked")
    broker.stop()


@scenario("FM28")
def what_is_rejected_of_all_that_a_consumer_holds_goes_to_the_dead_letter_queue_whole(case):
    total = case.rounds(6000, 200_000)
    broker, history = case.broker().start(), History()
    declare(broker, "dead")
    dead_letter = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(broker, "jobs", **dead_letter)
    Publisher(broker.port, history, "jobs", size=1024, window=2000).publish_all(total, limit=1000)
    holder = Holder(broker.port, "jobs").hold(total)
    for tag in range(1, total + 1, 2):
        holder.send("basic.reject", delivery_tag=tag, requeue=False)
    if case.random.random() < 0.5:
        asker = Client(broker.port)
        wait_for(lambda: asker.count("dead") == total // 2, 120, "all of them are dead")
    else:
        time.sleep(case.random.uniform(0.0, 0.5))
    history.crashed()
    broker.kill()
    broker.start()
    left = drain(broker.port, history, "jobs")
    dead = drain(broker.port, history, "dead")
    assert left >= total // 2 and left + dead >= total, f"{left} and {dead} of {total}"
    history.check(in_order=False)
    case.note(f"{left} left, {dead} dead of {total}")
    broker.stop()


class Hoarder(Consumer):
    """Holds what it gets, acks some of it now and then, and gives the rest back by going."""

    def run_for(self, secs, random):
        until = time.monotonic() + secs
        try:
            while time.monotonic() < until:
                self.pump(0.02)
                if self.deliveries and random.random() < 0.2:
                    at = random.randrange(len(self.deliveries))
                    tag, found, _ = self.deliveries.pop(at)
                    self.history.acked([found])
                    self.send("basic.ack", delivery_tag=tag)
        except (Gone, Closed):
            pass


@scenario("FM2")
def kill_while_consumers_hold_more_than_is_kept_in_memory(case):
    broker, history = case.broker(), History()
    for lap in range(case.rounds(3, 50)):
        broker.start()
        if lap == 0:
            declare(broker, "jobs")
        Publisher(broker.port, history, "jobs", size=1024, window=1000).publish_all(case.rounds(4000, 1000))
        for _ in range(2):
            hoarders = [Hoarder(broker.port, history, "jobs", prefetch=0, acks=False) for _ in range(2)]
            secs = case.random.uniform(0.1, 0.6)
            threads = [threading.Thread(target=one.run_for, args=(secs, case.random)) for one in hoarders]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            # One of them goes while the other one still holds.
            hoarders[0].hang_up()
        history.crashed()
        broker.kill()
    broker.start()
    drain(broker.port, history, "jobs")
    history.check(in_order=False)
    case.note(history.summary())
    broker.stop()


@scenario("FM16")
def idle_queues_are_small_and_start_soon(case):
    total = case.rounds(400, 50_000)
    broker = case.broker().start()
    client = Client(broker.port)
    before = broker.rss()
    for number in range(total):
        client.declare(f"queue-{number}")
    each = (broker.rss() - before) / total
    # A start of a few queues has costs of its own.
    limit = case.rounds(16384, 4096)
    assert each < limit, f"{each:.0f} bytes for each queue"
    broker.kill()
    broker.start()
    client = Client(broker.port)
    client.ask("queue.declare", "queue.declare-ok", queue=f"queue-{total - 1}", passive=True)
    case.note(f"{total} queues, {each:.0f} bytes each, start {broker.slowest_start:.2f} s")
    broker.stop()


@scenario("FM26")
def queues_and_bindings_come_and_go_under_a_publisher(case):
    broker, history = case.broker().start(), History()
    client = Client(broker.port)
    client.declare("jobs")
    client.ask("exchange.declare", "exchange.declare-ok", exchange="to-all", type="fanout", durable=True)
    client.ask("queue.bind", "queue.bind-ok", queue="jobs", exchange="to-all")
    stopping = threading.Event()

    def churn(name):
        other = Client(broker.port)
        while not stopping.is_set():
            other.declare(name)
            other.ask("queue.bind", "queue.bind-ok", queue=name, exchange="to-all")
            other.ask("queue.unbind", "queue.unbind-ok", queue=name, exchange="to-all")
            other.ask("queue.delete", "queue.delete-ok", queue=name)
        other.close()

    threads = [threading.Thread(target=churn, args=(f"passing-{number}",)) for number in range(3)]
    for thread in threads:
        thread.start()
    publisher = Publisher(broker.port, history, "jobs", exchange="to-all", mandatory=True)
    until = time.monotonic() + case.rounds(3, 60)
    while time.monotonic() < until:
        publisher.publish_all(200)
    stopping.set()
    for thread in threads:
        thread.join(30)
    client.ask("queue.unbind", "queue.unbind-ok", queue="jobs", exchange="to-all")
    routed = len(history.confirmed)
    publisher.publish_all(50)
    assert len(history.returned_ids) == 50, f"{len(history.returned_ids)} returns of 50 without any queue"
    assert drain(broker.port, history, "jobs") == routed
    history.check()
    case.note(history.summary())
    broker.stop()


@scenario("FM26")
def queues_that_come_and_go_by_the_thousands_leave_nothing_behind(case):
    total, kept = case.rounds(1200, 30_000), 10
    broker = case.broker().start()
    names, failures = [f"passing-{number}" for number in range(3)], []

    def churn(name, count):
        try:
            client = Client(broker.port)
            messages = publish_bytes(b"x" * 1024, routing_key=name) * kept
            for _ in range(count):
                found = client.declare(name)
                assert found.message_count == 0, f"{name} has messages of a queue before it: {found}"
                client.write(messages)
                found = client.ask("queue.delete", "queue.delete-ok", queue=name)
                assert found.message_count == kept, f"{found} of {kept} messages"
            client.close()
        except BaseException as error:
            failures.append(error)

    def churn_all(count):
        threads = [threading.Thread(target=churn, args=(name, count // len(names))) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures

    # What the first ones cost stays for the others.
    churn_all(total // 4)
    before = broker.rss()
    churn_all(total)
    grown = broker.rss() - before
    assert grown < 48 << 20, f"{before >> 20} MiB grew by {grown >> 20} MiB over {total} queues"
    wait_for(lambda: used_bytes(broker) < 64 << 20, 60, "the space is back")
    used = used_bytes(broker)
    churn_all(len(names))
    broker.kill()
    broker.start()
    # Numbers go on: what was left of a deleted queue is none of a new one's.
    churn_all(len(names) * 10)
    client = Client(broker.port)
    assert [client.declare(name).message_count for name in names] == [0] * len(names)
    case.note(f"{total} queues of {kept} messages: memory grew by {grown >> 20} MiB, {used >> 20} MiB of disk are left")
    broker.stop()


@scenario("FM27")
def purge_and_delete_of_a_large_queue_give_the_space_back(case):
    total = case.rounds(20_000, 1_000_000)
    broker, history, others = case.broker().start(), History(), History()
    declare(broker, "large", "other")
    beside = Publisher(broker.port, others, "other", window=1)
    for round_of in ("queue.purge", "queue.delete"):
        Publisher(broker.port, history, "large", size=1024, window=2000).publish_all(total, limit=1000)
        used = used_bytes(broker)
        client = Client(broker.port)
        usual = statistics.median(confirm_secs(beside, 50))
        began = time.monotonic()
        answer = client.ask(round_of, f"{round_of}-ok", queue="large")
        took = time.monotonic() - began
        assert answer.message_count == total, f"{answer} instead of {total}"
        assert took < 5, f"{round_of} of {total} took {took:.1f} s"
        # While the space is being given back.
        waited = []
        while len(waited) < 50 or (used_bytes(broker) >= SPACE_LEFT_MAX and len(waited) < 5000):
            waited += confirm_secs(beside, 10)
            assert time.monotonic() - began < 60, f"{used_bytes(broker) >> 20} MiB are in use a minute after"
        typical = statistics.median(waited)
        assert typical < 2 * usual + 0.005, f"others waited {typical * 1000:.1f} ms for a confirm, before {usual * 1000:.1f}"
        assert max(waited) < 2, f"somebody else waited {max(waited):.1f} s"
        case.note(
            f"{round_of}: {total} in {took * 1000:.0f} ms, {used >> 20} MiB, {time.monotonic() - began:.1f} s later "
            f"{used_bytes(broker) >> 20}; others waited {typical * 1000:.1f} ms, {max(waited) * 1000:.0f} at most, "
            f"before {usual * 1000:.1f}"
        )
    drain(broker.port, others, "other")
    others.check()
    broker.stop()


SPACE_LEFT_MAX = 96 << 20
"""What a store of a few messages may take, unwritten logs included."""


def used_bytes(broker):
    total = 0
    for path in (broker.directory / "rocksdb").iterdir():
        try:
            total += path.stat().st_size
        except FileNotFoundError:
            pass
    return total


class Rejecter(Consumer):
    """Rejects everything."""

    def on_delivery(self, tag, redelivered, body):
        super().on_delivery(tag, redelivered, body)
        self.send("basic.reject", delivery_tag=tag, requeue=False)


@scenario("FM28")
def poison_messages_are_dead_lettered_and_others_served(case):
    total = case.rounds(2000, 50_000)
    broker, history = case.broker().start(), History()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    declare(broker, "jobs", **arguments)
    declare(broker, "dead")
    publisher = Publisher(broker.port, history, "jobs")
    publisher.publish_all(total, limit=120)
    rejecter = Rejecter(broker.port, History(), "jobs", prefetch=50)
    asked = Client(broker.port)

    def all_dead():
        rejecter.pump(0.01)
        return asked.count("dead") == total

    wait_for(all_dead, 60, "all are in the dead-letter queue")
    # Counts are ahead of the disk. What is confirmed stands there behind all that was before it.
    declare(broker, "witness")
    Publisher(broker.port, History(), "witness").publish_all(1)
    history.crashed()
    broker.kill()
    broker.start()
    # The old queue has let go of them in the commit that put them into the new one.
    assert Client(broker.port).count("jobs") == 0, "a dead message is in its old queue as well"
    assert drain(broker.port, history, "dead") == total
    history.check()
    broker.stop()


class Failing(Consumer):
    """Gives everything back to be tried again."""

    def on_delivery(self, tag, redelivered, body):
        super().on_delivery(tag, redelivered, body)
        self.send("basic.reject", delivery_tag=tag, requeue=True)


@scenario("FM28")
def what_fails_again_and_again_ends_at_the_delivery_limit_and_others_are_served_meanwhile(case):
    total, limit = case.rounds(300, 5000), 3
    broker, history, others = case.broker().start(), History(), History()
    dead_letter = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-delivery-limit": limit}
    declare(broker, "poison", **dead_letter, **{"x-queue-type": "quorum"})
    declare(broker, "dead", "other")
    Publisher(broker.port, history, "poison").publish_all(total, limit=60)
    tried = History()
    failing, asked = Failing(broker.port, tried, "poison", prefetch=20), Client(broker.port)
    publisher, consumer = Publisher(broker.port, others, "other"), Consumer(broker.port, others, "other")

    def all_dead():
        publisher.publish(1)
        for client in (failing, publisher, consumer):
            client.pump(0.01)
        consumer.ack_all()
        assert len(others.attempts) == 1 and others.attempts[1] - len(others.acked_at) < 100, "the other queue stands still"
        return asked.count("dead") == total

    wait_for(all_dead, 120, "all are in the dead-letter queue")
    times = collections.Counter(found for _, _, found, _ in tried.deliveries)
    assert set(times.values()) == {limit + 1}, f"tried {set(times.values())} times with a limit of {limit}"
    assert drain(broker.port, history, "dead") == total
    history.check(in_order=False)
    publisher.settle()
    consumer.hang_up()
    drain(broker.port, others, "other")
    others.check()
    case.note(f"{total} messages, {len(tried.deliveries)} deliveries, {others.attempts[1]} messages beside them")
    broker.stop()


@scenario("FM28")
def a_dead_message_is_in_one_of_its_queues_and_a_transaction_whole_or_not_at_all(case):
    """Killed at random moments, while messages die and transactions over two queues commit."""
    units_are_whole(case, case.broker(), case.rounds(5, 100), 300, 0.005)


@scenario("FM28")
def the_same_on_a_slow_disk(case):
    """Where what was written apart would be found apart: a kill finds one half on its way to the disk, the other one waiting."""
    broker = case.broker(wrapper=strace("-e", "inject=fdatasync:delay_exit=30000"))
    units_are_whole(case, broker, case.rounds(6, 100), 30, 0.1)


def units_are_whole(case, broker, laps, messages, commit_secs):
    """A commit takes about so long; the last one of each lap is on its way when the broker is killed."""
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    published = rounds = 0
    for lap in range(laps):
        broker.start(limit=25)
        if lap == 0:
            declare(broker, "jobs", **arguments)
            declare(broker, "dead", "left", "right")
        history = History()
        publisher = Publisher(broker.port, history, "jobs")
        publisher.publish_all(messages, limit=60)
        published += messages
        rejecter = Rejecter(broker.port, History(), "jobs", prefetch=20)
        both = Client(broker.port)
        both.ask("tx.select", "tx.select-ok")
        pair = publish_bytes(b"left", routing_key="left") + publish_bytes(b"right", routing_key="right")
        until = time.monotonic() + case.random.uniform(0.02, 0.4)
        committed = 0
        while time.monotonic() < until:
            rejecter.pump(0.001)
            both.write(pair * 5)
            both.ask("tx.commit", "tx.commit-ok")
            committed += 1
        both.write(pair * 5)
        both.send("tx.commit")
        time.sleep(case.random.uniform(0.0, commit_secs))
        broker.kill()
        rounds += committed
        broker.start(limit=25)
        asked = Client(broker.port)
        jobs, dead = asked.count("jobs"), asked.count("dead")
        assert jobs + dead == published, f"{jobs} are in the old queue, {dead} in the new one, {published} were published"
        left, right = asked.count("left"), asked.count("right")
        assert left == right and left % 5 == 0, f"{left} on the left, {right} on the right"
        assert left >= committed * 5, f"{left} of {committed} transactions of 5"
        for queue in ("left", "right"):
            asked.ask("queue.purge", "queue.purge-ok", queue=queue)
        broker.stop()
    case.note(f"{published} published, {rounds} transactions")


@scenario("FM29")
def all_expire_at_once_into_a_dead_letter_queue(case):
    total = case.rounds(10_000, 1_000_000)
    ttl_ms = case.rounds(3000, 120_000)
    broker, history = case.broker().start(), History()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-message-ttl": ttl_ms}
    declare(broker, "jobs", **arguments)
    declare(broker, "dead")
    publisher = Publisher(broker.port, history, "jobs", window=2000)
    publisher.publish_all(total, limit=1000)
    # The flood of deaths must not keep the broker from its heartbeats, or from hearing those of others.
    idle = Client(broker.port, heartbeat=2)
    asked = Client(broker.port)

    def moved():
        idle.pump(0)
        return asked.count("dead") >= total

    if case.random.random() < 0.5:
        # Killed in the middle: what was on its way is in one of the two.
        wait_for(lambda: asked.count("dead") > 0 or moved(), 200, "the first have moved")
        history.crashed()
        broker.kill()
        broker.start()
        asked, idle = Client(broker.port), Client(broker.port, heartbeat=2)
        case.note("killed while they moved")
    wait_for(moved, 600, "all have expired")
    assert asked.count("dead") == total, f"{asked.count('dead')} instead of {total}"
    assert asked.count("jobs") == 0
    assert drain(broker.port, history, "dead", limit=case.rounds(60, 1800)) == total
    history.check(in_order=not history.crashes)
    broker.stop()


@scenario("FM30")
def a_dead_letter_target_that_is_missing_full_or_a_cycle(case):
    broker = case.broker().start()
    client = Client(broker.port)
    client.declare("missing", **{"x-dead-letter-exchange": "nowhere", "x-max-length": 1})
    client.declare("full", **{"x-max-length": 5, "x-overflow": "reject-publish"})
    client.declare("to-full", **{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "full", "x-max-length": 1})
    cycle = {"x-dead-letter-exchange": "", "x-message-ttl": 50}
    client.declare("cycle", **{**cycle, "x-dead-letter-routing-key": "cycle"})
    for queue in ("missing", "to-full", "cycle"):
        Publisher(broker.port, History(), queue).publish_all(20)
    wait_for(lambda: client.count("full") == 5, 10, "the full one is full")
    wait_for(lambda: client.count("missing") == 1, 10, "the missing target takes nothing")
    wait_for(lambda: client.count("to-full") == 1, 10, "what the full one refuses is dropped")
    wait_for(lambda: client.count("cycle") == 0, 10, "a cycle without a consumer ends")
    noise = [line for line in broker.since_start().splitlines() if "[error]" in line or "panicked" in line]
    assert not noise, noise
    broker.stop()
