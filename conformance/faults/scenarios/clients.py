"""Clients that stop reading, vanish, or speak nonsense."""

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time

import client as clients
from client import Client, Closed, Consumer, Gone, Publisher, body_of, drain, publish_bytes
from faults import HERE, Skip, scenario
from history import History

from scenarios.kills import declare


def wait_for(condition, limit, what):
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not after {limit} s"
        time.sleep(0.05)


@scenario("FM18")
def a_consumer_that_stops_reading_costs_little_and_is_found_out(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs", "other")
    Publisher(broker.port, history, "jobs", size=20000).publish_all(4000, limit=60)
    before = broker.rss()
    # No prefetch: all that it is ready to take; it takes nothing and beats no heart.
    asleep = Consumer(broker.port, history, "jobs", prefetch=0, heartbeat=1)
    asked = Client(broker.port)
    wait_for(lambda: asked.count("jobs") < 4000, 10, "deliveries begin")
    others = History()
    Publisher(broker.port, others, "other").publish_all(500)
    drain(broker.port, others, "other")
    others.check()
    grown = broker.rss() - before
    assert grown < 48 << 20, f"{grown >> 20} MiB for one reader that sleeps"
    wait_for(lambda: asked.count("jobs") == 4000, 10, "its messages are back after two heartbeats")
    asleep.hang_up()
    drain(broker.port, history, "jobs")
    history.check()
    case.note(f"{grown >> 10} KiB for the sleeper")
    broker.stop()


@scenario("FM19")
def ten_thousand_unacked_of_a_killed_consumer_come_back_in_place_and_flagged(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    Publisher(broker.port, history, "jobs", window=2000).publish_all(10_000)
    holder = Consumer(broker.port, history, "jobs", prefetch=10_000, acks=False)
    holder.pump_until(lambda: len(holder.deliveries) == 10_000, what="10 000 deliveries")
    holder.reset()
    asked = Client(broker.port)
    wait_for(lambda: asked.count("jobs") == 10_000, 10, "all are ready again")
    Publisher(broker.port, history, "jobs").publish_all(10)
    assert drain(broker.port, history, "jobs") == 10_010
    history.check()
    flagged = [redelivered for _, session, _, redelivered in history.deliveries if session != holder.session]
    assert all(flagged[:10_000]) and not any(flagged[10_000:]), "flags do not tell who was delivered before"
    broker.stop()


@scenario("FM20")
def a_half_open_connection_is_found_within_two_heartbeats(case):
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        raise Skip("needs root, unshare and ip for a network of its own")
    program = f"import sys; sys.path.insert(0, {str(HERE)!r}); import faults; faults.load(); "
    program += f"from scenarios.clients import half_open; half_open({str(case.scratch)!r})"
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    case.note(done.stdout.strip())


def half_open(scratch):
    """In a network of its own, whose only link goes down in the middle."""
    from broker import Broker

    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    broker, history = Broker(pathlib.Path(scratch) / "data").start(), History()
    try:
        declare(broker, "jobs")
        Publisher(broker.port, history, "jobs").publish_all(100)
        holder = Consumer(broker.port, history, "jobs", acks=False, heartbeat=1)
        holder.pump_until(lambda: len(holder.deliveries) == 100, what="all deliveries")
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        began = time.monotonic()
        wait_for(lambda: "missed heartbeats from client" in broker.since_start(), 10, "the broker notices")
        took = time.monotonic() - began
        assert took < 4, f"{took:.1f} s with a heartbeat of 1 s"
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        assert drain(broker.port, history, "jobs") == 100
        history.check()
        assert all(redelivered for _, session, _, redelivered in history.deliveries if session != holder.session)
        print(f"found after {took:.1f} s")
    finally:
        broker.end_quietly()


@scenario("FM21")
def a_disconnect_at_every_byte_of_a_publish_stores_it_whole_or_not(case):
    broker = case.broker().start()
    declare(broker, "jobs")
    whole = publish_bytes(body_of(1, 1, 24), routing_key="jobs")
    step = case.rounds(7, 1)
    for cut in [*range(1, len(whole), step), len(whole)]:
        client = Client(broker.port)
        client.write(whole[:cut])
        client.hang_up()
    asked = Client(broker.port)
    wait_for(lambda: asked.count("jobs") == 1, 10, "the whole one is stored")
    got = asked.ask("basic.get", "basic.get-ok", queue="jobs", no_ack=True)
    assert clients.id_of(got.body) == (1, 1), got
    assert asked.count("jobs") == 0, "a part of a publish was stored"
    broker.stop()


@scenario("FM22")
def a_reset_while_delivering_requeues_without_noise(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    Publisher(broker.port, history, "jobs", size=2000).publish_all(2000)
    for _ in range(case.rounds(5, 50)):
        consumer = Consumer(broker.port, history, "jobs", prefetch=0, acks=False)
        wanted = case.random.randrange(1, 500)
        consumer.pump_until(lambda: len(consumer.deliveries) >= wanted, what="deliveries")
        consumer.reset()
    asked = Client(broker.port)
    wait_for(lambda: asked.count("jobs") == 2000, 10, "all are ready again")
    assert drain(broker.port, history, "jobs") == 2000
    history.check()
    noise = [line for line in broker.since_start().splitlines() if "[error]" in line or "panicked" in line]
    assert not noise, noise
    broker.stop()


@scenario("FM23")
def garbage_on_the_socket_hurts_nobody_else(case):
    broker, history = case.broker().start(), History()
    declare(broker, "jobs")
    good = Publisher(broker.port, history, "jobs")
    before = broker.rss()
    whole = publish_bytes(body_of(1, 1, 2000), routing_key="jobs")
    for _ in range(case.rounds(60, 5000)):
        kind = case.random.randrange(4)
        if kind == 0:
            peer = socket.create_connection(("127.0.0.1", broker.port))
            peer.sendall(case.random.randbytes(case.random.randrange(1, 5000)))
        else:
            peer = Client(broker.port)
            data = bytearray(whole * 3)
            if kind == 1:
                for _ in range(case.random.randrange(1, 5)):
                    data[case.random.randrange(len(data))] ^= 1 << case.random.randrange(8)
            elif kind == 2:
                at, size = case.random.randrange(len(data)), case.random.randrange(1, 400)
                del data[at : at + size]
            else:
                cut = case.random.randrange(1, len(data))
                data = data[cut:] + data[:cut]
            try:
                peer.write(bytes(data))
                peer.pump(0.01)
            except (Gone, Closed, AssertionError):
                pass
            peer = peer.sock
        peer.close()
        good.publish_all(1)
    assert broker.rss() - before < 64 << 20, f"{before >> 20} MiB grew to {broker.rss() >> 20} MiB"
    assert "panicked" not in broker.since_start(), broker.tail()
    broker.stop()
