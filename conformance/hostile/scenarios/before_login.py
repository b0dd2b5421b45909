"""Before anybody has logged in."""

import os
import socket
import statistics
import struct
import time

from frames.wire import METHOD, PROTOCOL_HEADER, encode_method
from peer import PATIENCE, Api, Peer, nested_tables

HANDSHAKE_SECS = 10.0


def round_trip(port):
    """Seconds for a login and a declare of a good client."""
    began = time.monotonic()
    peer = Peer(port).open()
    peer.queue("", exclusive=True)
    peer.hang_up()
    return time.monotonic() - began


def sc01_silent_and_slow_sockets_cost_little_and_end(case):
    broker = case.broker()
    quiet = statistics.median(round_trip(broker.port) for _ in range(9))
    before, count = broker.rss(), case.many(600, 10_000)
    began = time.monotonic()
    sockets = [socket.create_connection(("127.0.0.1", broker.port)) for _ in range(count)]
    opened = time.monotonic()
    beside = statistics.median(round_trip(broker.port) for _ in range(9))
    each = (broker.rss() - before) / count
    # Half of them send a byte a second, which is no progress.
    for octet in PROTOCOL_HEADER[:6]:
        time.sleep(max(0.0, opened + 1 - time.monotonic()))
        opened = time.monotonic()
        for slow in sockets[::2]:
            slow.sendall(bytes([octet]))
    for each_socket in sockets:
        each_socket.settimeout(HANDSHAKE_SECS + PATIENCE)
        try:
            assert each_socket.recv(100) == b"", "something was answered"
        except ConnectionResetError:
            pass
    took = time.monotonic() - began
    case.note(f"{count} sockets, {each / 1024:.1f} KiB each, gone after {took:.1f} s; login {quiet * 1e3:.0f} -> {beside * 1e3:.0f} ms")
    assert each < 20 * 1024, f"{each:.0f} bytes for each silent socket"
    assert beside < 10 * quiet + 0.5, f"a good client took {beside:.2f} s beside them, {quiet:.2f} s without"


def sc02_other_protocols_get_the_header_and_the_end(case):
    broker = case.broker()
    hello = bytes.fromhex("160301020001000001fc0303") + os.urandom(500)
    before = broker.rss()
    for first in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", hello, b"AMQP\0\0\x08\0", b"\0" * 8, os.urandom(8), b"x" * 4_000_000):
        answer = Peer(broker.port).write(first).rest()
        # What was sent behind the header may have turned the end into a reset, which takes the answer along.
        assert answer in (PROTOCOL_HEADER, b""), answer
    assert broker.rss() - before < 4 << 20
    assert Peer(broker.port).write(b"GET / HT").rest() == PROTOCOL_HEADER


def sc03_a_large_frame_before_tuning_ends_before_its_payload(case):
    broker = case.broker()
    for size in (8193, 131072, 0x7FFFFFFF, 0xFFFFFFFF):
        before = broker.rss()
        peer = Peer(broker.port).greet().write(struct.pack(">BHI", METHOD, 0, size))
        peer.ends(PATIENCE)
        assert broker.rss() - before < 1 << 20


def sc04_lying_lengths_in_the_first_table_reserve_nothing(case):
    broker = case.broker()
    tail = b"\x05PLAIN" + struct.pack(">I", 12) + b"\0guest\0guest" + b"\x05en_US"
    start_ok = encode_method("connection.start-ok")[:4]
    before = broker.rss()
    for table in (
        struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 0x7FFFFFFF) + b"\x01kS",
        struct.pack(">I", 7) + b"\x01kS" + struct.pack(">I", 0xFFFFFFFF),
        struct.pack(">I", 7) + b"\x01kF" + struct.pack(">I", 0x10000000),
        struct.pack(">I", 8) + b"\x01kx" + struct.pack(">I", 200) + b"\0",
        nested_tables(1200),
    ):
        peer = Peer(broker.port).greet().frame(METHOD, 0, start_ok + table + tail)
        answer = peer.method()
        assert answer is None or answer.name == "connection.close", answer
    assert broker.rss() - before < 4 << 20, f"{broker.rss() - before} bytes more"


def sc05_methods_before_their_time_execute_nothing(case):
    broker = case.broker()
    declare = encode_method("queue.declare", queue="early", durable=True)
    early = [
        (0, encode_method("connection.open", virtual_host="/")),
        (1, encode_method("channel.open")),
        (1, declare),
        (0, encode_method("basic.publish", routing_key="early")),
        (0, encode_method("connection.tune-ok", channel_max=9, frame_max=131072)),
    ]
    for channel, payload in early:
        # Before the login, between login and tuning, and on a running connection's channel 0.
        Peer(broker.port).greet().frame(METHOD, channel, payload).ends()
        peer = Peer(broker.port)
        peer.login()
        if payload[:4] != encode_method("connection.tune-ok")[:4]:
            peer.frame(METHOD, channel, payload).ends()
        if channel == 0:
            assert Peer(broker.port).open().frame(METHOD, 0, payload).refusal() in (504, 505)
    assert Api(broker).get("/api/queues") == []


def sc06_every_refused_login_looks_and_takes_the_same(case):
    broker = case.broker("--loopback-users", "local")
    api = Api(broker)
    api.put("/api/users/nopass", {"password_hash": "", "tags": ""})
    api.user("real", "secret")
    kinds = {"wrong": ("real", "nothing"), "unknown": ("nobody", "secret"), "without": ("nopass", ""), "empty": ("", "")}
    answers, times = {}, {kind: [] for kind in kinds}
    for _ in range(40):
        for kind, (user, password) in kinds.items():
            peer = Peer(broker.port).greet()
            began = time.perf_counter()
            peer.start_ok(response=f"\0{user}\0{password}")
            frame = peer.read()
            times[kind].append(time.perf_counter() - began)
            answers[kind] = frame
            peer.hang_up()
    assert len(set(answers.values())) == 1, answers
    medians = {kind: statistics.median(each) for kind, each in times.items()}
    case.note(", ".join(f"{kind} {median * 1e6:.0f} us" for kind, median in medians.items()))
    assert max(medians.values()) < 2 * min(medians.values()) + 0.002, medians


def sc07_a_login_storm_leaves_others_their_heartbeats(case):
    broker = case.broker()
    good = Peer(broker.port).open(heartbeat=2)
    deadline = time.monotonic() + case.many(5, 60)
    beat_at = time.monotonic()
    storm, count, slowest = [], 0, 0.0
    while time.monotonic() < deadline:
        peer = Peer(broker.port).greet().start_ok(response=f"\0guest\0wrong{count}")
        storm.append(peer)
        count += 1
        if len(storm) > 50:
            storm.pop(0).hang_up()
        if time.monotonic() - beat_at > 0.5:
            began = time.monotonic()
            good.is_alive()
            slowest = max(slowest, time.monotonic() - began)
            beat_at = time.monotonic()
    case.note(f"{count} wrong logins; the slowest answer to another client {slowest * 1e3:.0f} ms")
    assert slowest < 2.0
    good.is_alive()


def sc07_who_fails_too_often_is_not_listened_to(case):
    broker = case.broker("--login-failures-max", "20")
    good = Peer(broker.port).open()
    for number in range(60):
        Peer(broker.port).login("guest", f"wrong{number}")
    good.is_alive()
    # The right password is no better, over HTTP either; the answer is that of any refused login.
    close = Peer(broker.port).login("guest", "guest")
    assert close.name == "connection.close" and close.arguments["reply_code"] == 403, close
    assert Api(broker).call("GET", "/api/overview")[0] == 401
    assert broker.logged().count("login refused") == 20
    assert broker.logged().count("too many logins from 127.0.0.1 have failed") == 1
    # Nor is there a line for who is not listened to.
    assert broker.logged().count("accepting AMQP connection") == 21


def sc07_who_comes_without_a_password_is_counted_as_well(case):
    """Anybody can ask for that mechanism, and each refusal is a line."""
    broker = case.broker("--login-failures-max", "20", "--anonymous-login-user", "nobody")
    for _ in range(60):
        peer = Peer(broker.port).greet().start_ok("ANONYMOUS", "")
        assert peer.method().name == "connection.close"
    assert broker.logged().count("login refused") == 20
    assert broker.logged().count("accepting AMQP connection") == 20
    assert broker.logged().count("too many logins from 127.0.0.1 have failed") == 1


def sc08_odd_credentials_are_refused_and_never_logged(case):
    broker = case.broker("--log-level", "debug", "--auth-mechanisms", "plain,amqplain")
    mark = "pl4nted-0dd-secret"
    for mechanism, response in (
        ("PLAIN", f"guest\0{mark}"),
        ("PLAIN", mark),
        ("PLAIN", f"\0guest\0{mark}\0more"),
        ("PLAIN", f"other\0guest\0{mark}"),
        ("PLAIN", "\0guest\0"),
        ("PLAIN", ""),
        ("PLAIN", f"\0guest\0{mark}" + "x" * 4000),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest"),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS" + struct.pack(">I", len(mark)) + mark.encode()),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS" + struct.pack(">I", 1 << 31) + mark.encode()),
        ("ANONYMOUS", mark),
        ("EXTERNAL", mark),
        (mark, mark),
    ):
        peer = Peer(broker.port).greet()
        peer.start_ok(mechanism, response)
        answer = peer.method()
        assert answer is None or answer.name == "connection.close", (mechanism, response, answer)
    assert mark not in broker.logged(), [line for line in broker.logged().splitlines() if mark in line]


def sc11_odd_vhost_names_are_names(case):
    broker = case.broker()
    for vhost in (b"..", b"../..", b"//", b"/etc/passwd", b"\0", b"a\0b", b"\xff\xfe", bytes(range(1, 256)), b"", b"\r\n"):
        peer = Peer(broker.port)
        peer.login()
        peer.send("connection.tune-ok", 0, channel_max=2047, frame_max=131072, heartbeat=0)
        payload = encode_method("connection.open")[:4] + bytes([len(vhost)]) + vhost + b"\0\0"
        assert peer.frame(METHOD, 0, payload).refusal() in (530, 501), vhost
    before = {str(path) for path in broker.directory.rglob("*")}
    api = Api(broker)
    for name in ("%2E%2E", "a%2Fb", "%00x", "%C3%A9"):
        api.put(f"/api/vhosts/{name}")
    made = {str(path) for path in broker.directory.rglob("*")} - before
    assert all(path.endswith((".log", ".sst", ".blob")) for path in made), made


def sc09_only_trusted_proxies_are_listened_to(case):
    line = b"PROXY TCP4 192.0.2.1 192.0.2.2 40000 5672\r\n"
    user = ("other", "password")
    for trusted, is_heard in (("10.0.0.0/8,::1", False), ("10.0.0.0/8,127.0.0.0/8", True)):
        broker = case.broker("--proxy-protocol", "--proxy-protocol-trusted", trusted)
        Api(broker).user(*user)
        peer = Peer(broker.port).write(line)
        if is_heard:
            peer.open(*user)
        else:
            peer.write(PROTOCOL_HEADER)
            assert peer.rest() == b"", "somebody else was listened to"
            assert "not one of the trusted proxies" in broker.logged()
