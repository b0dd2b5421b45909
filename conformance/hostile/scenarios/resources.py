"""What somebody who has logged in can use up."""

import concurrent.futures
import socket
import threading
import time
import urllib.parse

from frames.wire import BODY, HEADER, HEARTBEAT, METHOD, Frame, encode_header, encode_method
from peer import Api, Peer, until

MEGABYTE = 1 << 20


def pour(peer, data, seconds):
    """Sends without ever reading, until the broker takes no more; bytes sent."""
    peer.sock.settimeout(1.0)
    sent, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            sent += peer.sock.send(data)
        except TimeoutError:
            break
        except OSError:
            break
    return sent


def sc21_a_publisher_that_never_reads_its_confirms(case):
    broker = case.broker("--memory-limit", "4GB")
    peer = Peer(broker.port).open()
    peer.queue("unread")
    peer.ask("confirm.select", "confirm.select-ok")
    # Unroutable and mandatory: every publish makes a return and a confirm, larger than itself.
    publish = b"".join(
        Frame(kind, 1, payload).encode()
        for kind, payload in (
            (METHOD, encode_method("basic.publish", exchange="", routing_key="nowhere", mandatory=True)),
            (HEADER, encode_header(1000)),
            (BODY, b"x" * 1000),
        )
    )
    before = broker.rss()
    sent = pour(peer, publish * 200, case.many(8, 60))
    grown = broker.rss() - before
    case.note(f"{sent / MEGABYTE:.0f} MiB sent, memory {grown / MEGABYTE:+.0f} MiB")
    assert grown < 160 * MEGABYTE, f"{grown / MEGABYTE:.0f} MiB for a client that does not read"
    Peer(broker.port).open().is_alive()


def sc21_a_client_that_never_reads_its_answers(case):
    broker = case.broker()
    peer = Peer(broker.port).open()
    peer.queue("unread", exclusive=True)
    ask = Frame(METHOD, 1, encode_method("queue.declare", queue="unread", passive=True)).encode()
    before = broker.rss()
    sent = pour(peer, ask * 2000, case.many(8, 60))
    grown = broker.rss() - before
    case.note(f"{sent / MEGABYTE:.0f} MiB of questions, memory {grown / MEGABYTE:+.0f} MiB")
    assert grown < 160 * MEGABYTE, f"{grown / MEGABYTE:.0f} MiB for a client that does not read"
    Peer(broker.port).open().is_alive()


def sc21_a_consumer_that_never_reads(case):
    broker = case.broker()
    publisher = Peer(broker.port).open()
    publisher.queue("flood", durable=True)
    count, body = case.many(16_000, 100_000), b"x" * 16_000
    consumer = Peer(broker.port).open()
    consumer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    consumer.ask("basic.consume", "basic.consume-ok", queue="flood", no_ack=True)
    before = broker.rss()
    # What is on its way to the disk is not what this is about.
    publisher.ask("confirm.select", "confirm.select-ok")
    confirmed = 0
    for number in range(1, count + 1):
        publisher.publish(body, routing_key="flood", properties={"delivery_mode": 2})
        while confirmed < (count if number == count else number - 200):
            confirmed = publisher.expect("basic.ack").arguments["delivery_tag"]
    publisher.is_alive()
    grown = broker.rss() - before
    case.note(f"{count * len(body) / MEGABYTE:.0f} MiB for a consumer that does not read, memory {grown / MEGABYTE:+.0f} MiB")
    assert grown < 160 * MEGABYTE


def sc22_limits_hold_under_a_race(case):
    broker = case.broker()
    api = Api(broker)
    api.user("few", "few")
    api.put("/api/user-limits/few/max-connections", {"value": 5})
    opened = []

    def attempt(_):
        peer = Peer(broker.port)
        answer = peer.login("few", "few")
        assert answer is not None and answer.name == "connection.tune", answer
        peer.send("connection.tune-ok", 0, channel_max=2047, frame_max=131072, heartbeat=0)
        peer.send("connection.open", 0, virtual_host="/")
        answer = peer.method()
        opened.append(peer)
        return answer.name

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(attempt, range(40)))
    assert answers.count("connection.open-ok") == 5, answers
    assert answers.count("connection.close") == 35, answers
    api.put("/api/user-limits/guest/max-channels", {"value": 3})
    peer = Peer(broker.port).open(channel=False)
    for channel in range(1, 7):
        peer.send("channel.open", channel)
    answers = [peer.method().name for _ in range(4)]
    assert answers == ["channel.open-ok"] * 3 + ["connection.close"], answers


def sc22_a_channel_flood_ends_at_the_limit(case):
    broker = case.broker()
    peer = Peer(broker.port).open(channel=False)
    for channel in range(1, 2049):
        peer.send("channel.open", channel)
    answers = [peer.method().name for _ in range(2048)]
    assert answers == ["channel.open-ok"] * 2047 + ["connection.close"], answers[-3:]


def sc23_churn_returns_descriptors_and_memory(case):
    broker = case.broker()

    def round_of(count):
        for _ in range(count):
            peer = Peer(broker.port).open()
            peer.queue("", exclusive=True)
            peer.ask("channel.close", "channel.close-ok", reply_code=200)
            peer.send("channel.open")
            peer.expect("channel.open-ok")
            peer.hang_up()

    round_of(100)
    until(lambda: Api(broker).get("/api/overview")["object_totals"]["connections"] == 0)
    descriptors, memory = broker.descriptors(), broker.rss()
    count = case.many(600, 60_000)
    round_of(count)
    until(lambda: Api(broker).get("/api/overview")["object_totals"]["connections"] == 0)
    until(lambda: broker.descriptors() <= descriptors + 4, text=f"{broker.descriptors()} descriptors, {descriptors} before")
    grown = broker.rss() - memory
    case.note(f"{count} connections, memory {grown / MEGABYTE:+.1f} MiB, descriptors as before")
    assert grown < 24 * MEGABYTE
    assert Api(broker).get("/api/queues") == []


def sc24_declared_and_deleted_queues_leave_nothing(case):
    broker = case.broker()
    peer = Peer(broker.port).open()

    def round_of(count, first):
        for number in range(first, first + count):
            peer.send("queue.declare", queue=f"q{number}", durable=True)
        for _ in range(count):
            peer.expect("queue.declare-ok")
        for number in range(first, first + count):
            peer.send("queue.delete", queue=f"q{number}")
        for _ in range(count):
            peer.expect("queue.delete-ok")

    round_of(200, 0)
    before, count = broker.rss(), case.many(1000, 100_000)
    round_of(count, 200)
    grown = broker.rss() - before
    case.note(f"{count} queues, memory {grown / MEGABYTE:+.1f} MiB")
    assert grown < 32 * MEGABYTE
    assert Api(broker).get("/api/queues") == []


def sc25_topic_keys_cannot_be_made_expensive(case):
    broker = case.broker()
    peer = Peer(broker.port).open()
    queue = peer.queue("", exclusive=True)
    peer.send("queue.bind", queue=queue, exchange="amq.topic", routing_key="#.a.#.b.#.c.#")
    assert peer.refusal() == 406, "a key with many hashes"
    for key in ("#.#.#", "#.*.#.*.#", ".".join("#" * 100)):
        peer = Peer(broker.port).open()
        queue = peer.queue("", exclusive=True)
        peer.send("queue.bind", queue=queue, exchange="amq.topic", routing_key=key)
        assert peer.refusal() == 406, "a run of hashes"
    peer = Peer(broker.port).open()
    queue = peer.queue("", exclusive=True)
    bindings = case.many(2000, 100_000)
    for number in range(bindings):
        key = f"#.w{number}.#" if number % 2 else "*." * 100 + f"w{number}"
        peer.send("queue.bind", queue=queue, exchange="amq.topic", routing_key=key, nowait=True)
    peer.is_alive()
    words = ".".join("a" for _ in range(128))
    began, publishes = time.monotonic(), 200
    for number in range(publishes):
        # A new key each time, so that nothing is remembered.
        peer.publish(b"x", exchange="amq.topic", routing_key=words[:-4] + f"{number}")
    peer.is_alive()
    each = (time.monotonic() - began) / publishes
    case.note(f"{each * 1e3:.2f} ms for a key of 126 words and {bindings} bindings")
    assert each < 0.25


def sc28_reply_addresses_cannot_be_forged(case):
    broker = case.broker()
    requester = Peer(broker.port).open()
    requester.ask("basic.consume", "basic.consume-ok", queue="amq.rabbitmq.reply-to", no_ack=True)
    forger = Peer(broker.port).open()
    for name in ("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.", "amq.rabbitmq.reply-to." + "A" * 40, "amq.rabbitmq.reply-to.1.1"):
        forger.publish(b"forged", routing_key=name, mandatory=True)
        answer = forger.method()
        assert answer is None or answer.name in ("basic.return", "channel.close"), answer
        forger = Peer(broker.port).open()
    # Nothing has arrived: the next thing is the answer to a question.
    requester.is_alive()


def sc28_reply_addresses_cannot_be_bound(case):
    broker = case.broker()
    requester = Peer(broker.port).open()
    requester.ask("basic.consume", "basic.consume-ok", queue="amq.rabbitmq.reply-to", no_ack=True)
    for name in ("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.g1h2AAR0ZXN0.key", "amq.rabbitmq.reply-to."):
        peer = Peer(broker.port).open()
        peer.send("queue.bind", queue=name, exchange="amq.fanout", routing_key="")
        assert peer.refusal() in (403, 404), name
    publisher = Peer(broker.port).open()
    publisher.publish(b"x", exchange="amq.fanout", mandatory=True)
    assert publisher.method().name == "basic.return"
    requester.is_alive()


def sc28_a_fan_out_of_forged_addresses_is_cheap(case):
    broker = case.broker()
    requester = Peer(broker.port).open()
    requester.ask("basic.consume", "basic.consume-ok", queue="amq.rabbitmq.reply-to", no_ack=True)
    forger = Peer(broker.port).open()
    addresses = [f"amq.rabbitmq.reply-to.g1h2AAR0ZXN0{number:06}.key" for number in range(2000)]
    before, began, count = broker.rss(), time.monotonic(), case.many(20, 500)
    for _ in range(count):
        forger.publish(b"x", routing_key=addresses[0], properties={"headers": {"CC": addresses}})
    forger.is_alive()
    each = (time.monotonic() - began) / count
    grown = broker.rss() - before
    case.note(f"{each * 1e3:.1f} ms for {len(addresses)} addresses, memory {grown / MEGABYTE:+.1f} MiB")
    assert each < 0.5 and grown < 64 * MEGABYTE
    requester.is_alive()


def sc27_a_weight_costs_nothing(case):
    broker = case.broker()
    peer = Peer(broker.port).open()
    peer.ask("exchange.declare", "exchange.declare-ok", exchange="hash", type="x-consistent-hash")
    before = broker.rss()
    for key in ("0", "-1", "1000000000", "99999999999999999999", "many"):
        # Taken or refused, as the type has it: it is a number in either case.
        other = Peer(broker.port).open()
        queue = other.queue("", exclusive=True)
        other.send("queue.bind", queue=queue, exchange="hash", routing_key=key)
        assert other.method().name in ("queue.bind-ok", "channel.close", "connection.close")
    queue = peer.queue("", exclusive=True)
    peer.ask("queue.bind", "queue.bind-ok", queue=queue, exchange="hash", routing_key="1000")
    peer.publish(b"x", exchange="hash", routing_key="k").is_alive()
    assert broker.rss() - before < 16 * MEGABYTE


def sc31_hostile_patterns_of_permissions_and_policies(case):
    broker = case.broker()
    api = Api(broker)
    name = "a" * 200 + "!"
    began = time.monotonic()
    for number, pattern in enumerate(
        ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(?=(a+)+$)a", r"^(a+)\1+$", "a{1000}{1000}", "(((((a{100}){100}){100}){100}){100})", "((a*)*)*" * 20]
    ):
        user = f"u{number}"
        api.put(f"/api/users/{user}", {"password": "p", "tags": ""})
        body = {"configure": pattern, "write": pattern, "read": pattern}
        status, _ = api.call("PUT", f"/api/permissions/%2F/{user}", body)
        assert status in (201, 204, 400), (pattern, status)
        status, _ = api.call("PUT", f"/api/policies/%2F/p{number}", {"pattern": pattern, "definition": {"max-length": 5}})
        assert status in (201, 204, 400), (pattern, status)
        answer = Peer(broker.port).login(user, "p")
        assert answer is not None and answer.name == "connection.tune"
        peer = Peer(broker.port)
        peer.login(user, "p")
        peer.send("connection.tune-ok", 0, channel_max=2047, frame_max=131072, heartbeat=0)
        peer.send("connection.open", 0, virtual_host="/")
        if peer.method().name != "connection.open-ok":
            continue
        peer.ask("channel.open", "channel.open-ok")
        peer.send("queue.declare", queue=name)
        assert peer.method() is not None
        peer.hang_up()
    took = time.monotonic() - began
    case.note(f"{took:.1f} s")
    assert took < 30


def sc32_hostile_filters_of_lists(case):
    broker = case.broker()
    api = Api(broker)
    for number in range(20):
        api.put(f"/api/queues/%2F/{'a' * 100}{number}")
    for pattern in ["^(a+)+$", "(a|a)*b", "a{1000}{1000}", "(", "(((a{100}){100}){100}){100}", "\\p{L}{500}{500}"]:
        began = time.monotonic()
        status, _ = api.call("GET", f"/api/queues?page=1&page_size=100&use_regex=true&name={urllib.parse.quote(pattern)}")
        assert status in (200, 400), (pattern, status)
        assert time.monotonic() - began < 5, pattern


def sc36_revoked_rights_count_at_once(case):
    broker = case.broker()
    api = Api(broker)
    api.user("victim", "v")
    peer = Peer(broker.port).open("victim", "v")
    peer.queue("mine")
    peer.publish(b"x", routing_key="mine")
    peer.is_alive()
    api.put("/api/permissions/%2F/victim", {"configure": "", "write": "", "read": ""})
    peer.publish(b"x", routing_key="mine")
    assert peer.refusal() == 403
    other = Peer(broker.port).open("victim", "v")
    other.send("basic.get", queue="mine")
    assert other.refusal() == 403
    status, _ = api.call("DELETE", "/api/users/victim")
    assert status == 204
    assert other.refusal() == 320


def sc39_exclusive_queues_are_closed_to_everybody_else(case):
    broker = case.broker()
    owner = Peer(broker.port).open()
    queue = owner.queue("private", exclusive=True)
    api = Api(broker)
    for method, arguments in (
        ("basic.consume", {}),
        ("basic.get", {}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("queue.bind", {"exchange": "amq.direct"}),
        ("queue.declare", {"passive": True}),
    ):
        assert Peer(broker.port).open().send(method, queue=queue, **arguments).refusal() == 405, method
    for method, path, body in (
        ("DELETE", f"/api/queues/%2F/{queue}/contents", None),
        ("DELETE", f"/api/queues/%2F/{queue}", None),
        ("POST", f"/api/queues/%2F/{queue}/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
    ):
        status, _ = api.call(method, path, body)
        assert status >= 400, (method, path, status)
    owner.is_alive()


def sc59_without_descriptors_accepting_pauses_and_resumes(case):
    limit = 256
    broker = case.broker(wrapper=["prlimit", f"--nofile={limit}", "--"])
    good = Peer(broker.port).open()
    sockets = []
    for _ in range(limit + 50):
        try:
            sockets.append(socket.create_connection(("127.0.0.1", broker.port), timeout=0.5))
        except OSError:
            break
    good.is_alive()
    ticks = cpu_ticks(broker)
    time.sleep(1.0)
    busy = cpu_ticks(broker) - ticks
    assert busy < 60, f"{busy} ticks of CPU in a second without descriptors"
    good.is_alive()
    for each in sockets:
        each.close()
    until(lambda: answers(broker))
    assert broker.logged().count("cannot accept") < 100


def cpu_ticks(broker):
    fields = open(f"/proc/{broker.pid}/stat", encoding="ascii").read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def answers(broker):
    try:
        Peer(broker.port).open().hang_up()
    except (AssertionError, OSError):
        return False
    return True


def sc21_floods_of_frames_leave_others_their_turn(case):
    broker = case.broker()
    heartbeat = Frame(HEARTBEAT, 0, b"").encode()
    ack = Frame(METHOD, 1, encode_method("basic.qos", prefetch_count=5)).encode()
    flooders = [Peer(broker.port).open() for _ in range(2)]
    stop = threading.Event()

    def flood(peer, data):
        peer.sock.settimeout(0.5)
        while not stop.is_set():
            try:
                peer.sock.send(data)
                peer.sock.recv(1 << 20, socket.MSG_DONTWAIT)
            except (BlockingIOError, TimeoutError):
                pass
            except OSError:
                return

    threads = [
        threading.Thread(target=flood, args=(flooders[0], heartbeat * 5000), daemon=True),
        threading.Thread(target=flood, args=(flooders[1], ack * 1000), daemon=True),
    ]
    before = broker.rss()
    for thread in threads:
        thread.start()
    good, slowest = Peer(broker.port).open(), 0.0
    deadline = time.monotonic() + case.many(4, 60)
    while time.monotonic() < deadline:
        began = time.monotonic()
        good.is_alive()
        slowest = max(slowest, time.monotonic() - began)
    stop.set()
    for thread in threads:
        thread.join()
    grown = broker.rss() - before
    case.note(f"slowest answer to another client {slowest * 1e3:.0f} ms, memory {grown / MEGABYTE:+.0f} MiB")
    assert slowest < 2.0
    assert grown < 160 * MEGABYTE
