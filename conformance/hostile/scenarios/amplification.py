"""Few bytes that ask for much: what one read leads to, and what many connections together make the broker keep."""

import socket
import time

from frames.wire import HEADER, METHOD, Frame, encode_header, encode_method
from peer import Api, Peak, Peer

MEGABYTE = 1 << 20


def fan_out(peer, queues):
    """Queues behind `amq.fanout`, each with room for one message."""
    for number in range(queues):
        peer.send("queue.declare", queue=f"q{number}", arguments={"x-max-length": 1}, nowait=True)
        peer.send("queue.bind", queue=f"q{number}", exchange="amq.fanout", nowait=True)
    return peer.is_alive()


PUBLISH = Frame(METHOD, 1, encode_method("basic.publish", exchange="amq.fanout", routing_key="")).encode() + (
    Frame(HEADER, 1, encode_header(0)).encode()
)
"""Fifty bytes."""


def sc21_a_fan_out_takes_the_memory_of_one_turn(case):
    broker = case.broker()
    peer = Peer(broker.port).open()
    queues, publishes = case.many(200, 2000), 12_000
    fan_out(peer, queues)
    peak, began = Peak(broker), time.monotonic()
    # In one piece, so that reads become as large as they can be.
    peer.sock.settimeout(None)
    peer.write(PUBLISH * publishes)
    # Others have their turn, and an operator is heard, while all of it is worked through.
    slowest = 0.0
    other = Peer(broker.port).open()
    for _ in range(20):
        asked = time.monotonic()
        other.is_alive()
        slowest = max(slowest, time.monotonic() - asked)
    peer.sock.settimeout(600)
    peer.send("basic.qos", prefetch_count=0)
    assert peer.method(timeout=600).name == "basic.qos-ok"
    took, grown = time.monotonic() - began, peak.grown()
    case.note(
        f"{publishes} publishes to {queues} queues: {took:.1f} s, memory {grown / MEGABYTE:+.0f} MiB at most, "
        f"the slowest answer to another client {slowest * 1e3:.0f} ms"
    )
    assert grown < 48 * MEGABYTE
    assert slowest < 2.0


def sc21_a_transaction_has_the_bound_of_all_its_queues(case):
    broker = case.broker()
    peer = Peer(broker.port).open()
    fan_out(peer, 200)
    peer.ask("tx.select", "tx.select-ok")
    peak = Peak(broker)
    peer.write(PUBLISH * 20_000)
    assert peer.refusal() == 406, "as many commands as there is memory for"
    assert peak.grown() < 128 * MEGABYTE
    Peer(broker.port).open().is_alive()


def sc21_many_consumers_that_never_read_share_what_memory_there_is(case):
    limit, body = 250_000_000, b"x" * 65_536
    broker = case.broker("--memory-limit", str(limit))
    publisher = Peer(broker.port).open()
    publisher.queue("backlog", durable=True)
    publisher.ask("confirm.select", "confirm.select-ok")
    count, confirmed = 8000, 0
    for number in range(1, count + 1):
        publisher.publish(body, routing_key="backlog", properties={"delivery_mode": 2})
        while confirmed < (count if number == count else number - 100):
            confirmed = publisher.expect("basic.ack").arguments["delivery_tag"]
    consumers = []
    for _ in range(40):
        peer = Peer(broker.port).open()
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.send("basic.consume", queue="backlog", no_ack=True, nowait=True)
        consumers.append(peer)
    ready, api = [count + 1, count], Api(broker)
    while ready[-1] < ready[-2]:
        time.sleep(2)  # Between two looks at whether anything is still handed out.
        ready.append(api.get("/api/queues/%2F/backlog")["messages_ready"])
    memory = broker.rss()
    case.note(
        f"{count * len(body) / MEGABYTE:.0f} MiB for {len(consumers)} consumers that do not read: "
        f"{memory / MEGABYTE:.0f} MiB in use, the limit is {limit / MEGABYTE:.0f}, {ready[-1]} messages stay"
    )
    assert memory < limit + 50_000_000
    assert ready[-1] > 0
    # Whoever reads gets messages all the same.
    reader = Peer(broker.port).open()
    reader.ask("basic.get", "basic.get-ok", queue="backlog", no_ack=True)
