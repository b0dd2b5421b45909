"""Bad neighbours: what a good client notices of an attack, and what is left of it in the broker's memory.

    neighbours.py [--seconds N] [--sockets N] [FILTER]

Each attack has a broker of its own. A good client, in a process of its own, publishes a persistent message every twenty
milliseconds, and takes the time from the moment when it was due until it is confirmed and has come back: first quiet, then
while the attack runs. Memory is read before, at its highest, and when it has come to rest afterwards. Prints rows for the
table of docs/security.md and fails when a p99 is more than twice its quiet value or memory does not return.

LEVERET_BIN is the program, best the release build; the machine should have nothing else to do: attackers and the good client
share its cores with the broker.
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import resource
import select
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "faults"), str(HERE.parent / "python")]

from frames.wire import BODY, HEADER, METHOD, Frame, decode_method, encode_header, encode_method, take_frame  # noqa: E402
from hostile import HostileBroker  # noqa: E402
from peer import Peer  # noqa: E402

EVERY_SECS = 0.02
RATIO_MAX = 2.0
# Below this a ratio says more about the machine's scheduler than about the broker.
FLOOR_MILLIS = 5.0
MEMORY_LEFT_MAX = 32 << 20
REST_LIMIT_SECS = 60
PATIENCE_SECS = 60
MEGABYTE = 1 << 20


# --- the good client --------------------------------------------------------------------------------------------------


def good_client(port, seconds, results):
    """Sends the latencies, in milliseconds."""
    peer = Peer(port).open()
    queue = peer.queue("good", durable=True)
    peer.ask("confirm.select", "confirm.select-ok")
    peer.ask("basic.consume", "basic.consume-ok", queue=queue, no_ack=True)
    latencies, waiting = [], {}
    start = time.monotonic()
    due, number = start, 0
    while due < start + seconds or waiting:
        left = due - time.monotonic()
        if left <= 0 and due < start + seconds:
            number += 1
            # Confirmed, and come back: both count.
            waiting[number] = (due, {"confirm", "delivery"})
            peer.publish(number.to_bytes(100), routing_key=queue, properties={"delivery_mode": 2})
            # Whoever is late with one is late with the next: that counts too.
            due += EVERY_SECS
            continue
        assert time.monotonic() < start + seconds + PATIENCE_SECS, f"{len(waiting)} messages are not back"
        if select.select([peer.sock], [], [], max(left, 0.001))[0]:
            peer.buffer += peer.sock.recv(1 << 16)
        while (frame := take_frame(peer.buffer)) is not None:
            for done, what in marks(frame, waiting):
                since, left_of_it = waiting[done]
                left_of_it.discard(what)
                if not left_of_it:
                    latencies.append((time.monotonic() - since) * 1e3)
                    del waiting[done]
    peer.hang_up()
    results.send(latencies)


def marks(frame, waiting):
    """Which messages a frame says something of, and what."""
    if frame.kind == BODY:
        return [(int.from_bytes(frame.payload), "delivery")]
    if frame.kind == METHOD and (method := decode_method(frame.payload)).name == "basic.ack":
        tag = method.arguments["delivery_tag"]
        of = [each for each in waiting if each <= tag] if method.arguments["multiple"] else [tag]
        return [(each, "confirm") for each in of]
    return []


def measured(port, seconds):
    mine, its = multiprocessing.Pipe()
    process = multiprocessing.Process(target=good_client, args=(port, seconds, its))
    process.start()
    # Its end too when it fails, so that nobody waits for ever.
    its.close()
    latencies = sorted(mine.recv())
    process.join()
    return latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]


# --- attacks ----------------------------------------------------------------------------------------------------------


def silent_sockets(port, options):
    """Thousands of sockets that say nothing; those that are ended are opened again."""
    import selectors
    import socket

    selector = selectors.DefaultSelector()
    while True:
        while len(selector.get_map()) < options.sockets:
            with contextlib.suppress(OSError):
                selector.register(socket.create_connection(("127.0.0.1", port)), selectors.EVENT_READ)
        for key, _ in selector.select(0.1):
            with contextlib.suppress(OSError):
                if key.fileobj.recv(4096):
                    continue
            selector.unregister(key.fileobj)
            key.fileobj.close()


def login_storm(port, _):
    """Wrong passwords, as fast as they go; a refused socket stays half a second."""
    waiting = []
    while True:
        peer = Peer(port).greet().start_ok(response="\0guest\0wrong")
        waiting.append(peer)
        if len(waiting) > 200:
            waiting.pop(0).hang_up()


def channel_flood(port, _):
    """All the channels of a connection opened in one write, and closed in one."""
    opens = b"".join(Frame(METHOD, number, encode_method("channel.open")).encode() for number in range(1, 2001))
    close = encode_method("channel.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    closes = b"".join(Frame(METHOD, number, close).encode() for number in range(1, 2001))
    peer = Peer(port).open(channel=False)
    while True:
        for data, answer in ((opens, "channel.open-ok"), (closes, "channel.close-ok")):
            peer.write(data)
            for _ in range(2000):
                peer.expect(answer)


def published(exchange, key, body, properties=None):
    return b"".join(
        Frame(kind, 1, payload).encode()
        for kind, payload in (
            (METHOD, encode_method("basic.publish", exchange=exchange, routing_key=key)),
            (HEADER, encode_header(len(body), properties or {})),
            (BODY, body),
        )
    )


def unread_consumers(port, _):
    """Ten consumers who never read, without a prefetch, of queues that are filled meanwhile."""
    idle = []
    for number in range(10):
        peer = Peer(port).open()
        peer.queue(f"unread{number}", auto_delete=True)
        peer.ask("basic.consume", "basic.consume-ok", queue=f"unread{number}", no_ack=True)
        idle.append(peer)
    publisher = Peer(port).open()
    publisher.ask("confirm.select", "confirm.select-ok")
    confirmed = acked = 0
    rounds = b"".join(published("", f"unread{number}", b"x" * 10_000) for number in range(10))
    while True:
        publisher.write(rounds)
        confirmed += 10
        while acked < confirmed:
            answer = publisher.method()
            if answer is None:
                return
            acked = answer.arguments["delivery_tag"] if answer.arguments["multiple"] else acked + 1


def header_bombs(port, _):
    """Messages whose headers are as large as a frame, through an exchange that looks at headers."""
    peer = Peer(port).open()
    peer.ask("exchange.declare", "exchange.declare-ok", exchange="bombs", type="headers", auto_delete=False)
    peer.queue("bombed", exclusive=True, arguments={"x-max-length": 10})
    for number in range(50):
        arguments = {"x-match": "all", f"key{number}": "value", "never": number}
        peer.ask("queue.bind", "queue.bind-ok", queue="bombed", exchange="bombs", routing_key="", arguments=arguments)
    headers = {f"key{number}": "value" for number in range(5000)}
    data = published("bombs", "", b"x", {"headers": headers}) * 4
    while True:
        peer.write(data)
        peer.is_alive()


def churn(port, _):
    """Connections with a channel and a queue, one after the other."""
    number = 0
    while True:
        peer = Peer(port).open()
        peer.queue(f"churn{number % 100}", auto_delete=True)
        peer.ask("queue.delete", "queue.delete-ok", queue=f"churn{number % 100}")
        peer.hang_up()
        number += 1


ATTACKS = (silent_sockets, login_storm, channel_flood, unread_consumers, header_bombs, churn)


def attack_process(attack, port, options):
    # Attackers are someone else's machines: what they cost here is not taken from the good client.
    os.nice(10)
    raise_descriptors()
    attack(port, options)


# --- the measurement --------------------------------------------------------------------------------------------------


def raise_descriptors():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def under(attack, options, scratch):
    """One row, and what is wrong with it."""
    broker = HostileBroker(scratch / attack.__name__, "--http-listen", "none").start(limit=20)
    try:
        quiet = measured(broker.port, options.seconds)
        before = highest = broker.rss()
        attacker = multiprocessing.Process(target=attack_process, args=(attack, broker.port, options))
        attacker.start()
        time.sleep(1)
        attacked = measured(broker.port, options.seconds)
        is_attacked = attacker.is_alive()
        highest = max(highest, broker.rss(), high_water(broker))
        attacker.kill()
        attacker.join()
        deadline = time.monotonic() + REST_LIMIT_SECS
        while (after := broker.rss()) > before + MEMORY_LEFT_MAX and time.monotonic() < deadline:
            time.sleep(0.5)
        is_up = broker.is_up() and "panicked at" not in broker.logged()
    finally:
        broker.end_quietly()
    ratio = attacked[1] / quiet[1]
    wrong = [
        text
        for text, is_wrong in (
            ("the attack ended by itself", not is_attacked),
            ("the broker did not live through it", not is_up),
            (f"p99 is {ratio:.1f} times the quiet one", ratio > RATIO_MAX and attacked[1] > FLOOR_MILLIS),
            (f"{(after - before) / MEGABYTE:.0f} MiB are left", after > before + MEMORY_LEFT_MAX),
        )
        if is_wrong
    ]
    memory = " → ".join(f"{size / MEGABYTE:.0f}" for size in (before, highest, after))
    cells = [
        attack.__name__.replace("_", " "),
        *(f"{value:.1f}" for value in (*quiet, *attacked)),
        f"{ratio:.1f}",
        memory,
        "; ".join(wrong) or "held",
    ]
    return f"| {' | '.join(cells)} |", wrong


def high_water(broker):
    for line in pathlib.Path(f"/proc/{broker.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--sockets", type=int, default=10_000)
    parser.add_argument("filter", nargs="?", default="")
    options = parser.parse_args()
    if not os.environ.get("LEVERET_BIN"):
        sys.exit("neighbours: LEVERET_BIN names no program")
    # Half for each side of a socket, and some for everything else.
    room = raise_descriptors() - 1000
    if options.sockets > room:
        sys.exit(f"neighbours: this machine allows {room} sockets; --sockets asks for {options.sockets}")
    chosen = [attack for attack in ATTACKS if options.filter in attack.__name__]
    if not chosen:
        sys.exit(f"neighbours: no attack has {options.filter!r} in its name")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="leveret-neighbours-"))
    failed = False
    print("| attack | p50 quiet | p99 quiet | p50 attacked | p99 attacked | p99, times quiet | MiB before → highest → after | |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    try:
        for attack in chosen:
            row, wrong = under(attack, options, scratch)
            print(row, flush=True)
            failed = failed or bool(wrong)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
