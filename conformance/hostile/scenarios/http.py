"""The HTTP API."""

import base64
import concurrent.futures
import json
import socket
import time
import urllib.parse
import urllib.request

from peer import PATIENCE, Api, Peak, Peer, raw_http, until

MEGABYTE = 1 << 20

GUEST = base64.b64encode(b"guest:guest").decode()
MARKUP = "<script>alert(1)</script>\"'&\u202egnp.\x1b[31mred"


def head(method="GET", path="/api/overview", *lines):
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Basic {GUEST}", *lines, "", ""]).encode()


def status(answer):
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else None


def sc46_sizes_have_limits(case):
    broker = case.broker()
    before = broker.rss()
    port = broker.http_port
    assert status(raw_http(port, head("GET", "/api/overview", "X-Long: " + "x" * 40_000))) == 431
    assert status(raw_http(port, head("GET", "/api/overview", *(f"X-{n}: y" for n in range(500))))) == 431
    assert status(raw_http(port, head("GET", "/api/" + "x" * 70_000))) in (414, 431)
    huge = head("PUT", "/api/queues/%2F/q", "Content-Length: 99999999999", "Connection: close") + b"{" * 1000
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(huge)
        assert status(sock.recv(100)) == 413
    chunk = b"100000\r\n" + b"x" * 0x100000 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
        sock.sendall(head("PUT", "/api/queues/%2F/q", "Transfer-Encoding: chunked"))
        try:
            for _ in range(40):
                sock.sendall(chunk)
        except OSError:
            pass
        try:
            assert status(sock.recv(100)) == 413
        except ConnectionResetError:
            pass
    # Compressed bodies are not unpacked: what is no JSON is refused as such.
    gzip = bytes.fromhex("1f8b08000000000000ff")
    answer = raw_http(port, head("PUT", "/api/queues/%2F/q", "Content-Encoding: gzip", f"Content-Length: {len(gzip)}", "Connection: close") + gzip)
    assert status(answer) in (400, 415)
    deep = b'{"arguments":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    answered, _ = Api(broker).call("PUT", "/api/queues/%2F/q", deep)
    assert answered == 400
    assert broker.rss() - before < 64 << 20
    assert Api(broker).get("/api/queues") == []


def sc47_slow_heads_and_smuggling_shapes(case):
    broker = case.broker()
    port = broker.http_port
    began = time.monotonic()
    slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    for each in slow:
        each.sendall(b"GET /api/overview HTTP/1.1\r\nX-A: ")
    Api(broker).get("/api/overview")
    for each in slow:
        each.settimeout(25)
        try:
            while each.recv(1000):
                pass
        except ConnectionResetError:
            pass
    took = time.monotonic() - began
    case.note(f"slow heads end after {took:.1f} s")
    assert took < 20
    body = b'{"durable":true}'
    smuggled = b"GET /api/version HTTP/1.1\r\nHost: x\r\n\r\n"
    for lines in (
        ["Content-Length: 0", f"Content-Length: {len(smuggled)}"],
        [f"Content-Length: {len(smuggled)}", "Transfer-Encoding: identity, chunked, identity"],
        ["Content-Length: +5"],
        ["Content-Length: 5 5"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding : chunked"],
        ["Content-Length: -1"],
    ):
        answer = raw_http(port, head("PUT", "/api/queues/%2F/smuggled", *lines, "Connection: close") + smuggled, 5)
        assert status(answer) in (400, 501, None), (lines, answer[:100])
        assert answer.count(b"HTTP/1.1 2") == 0, (lines, answer)
    # Both lengths: the chunks count, and the connection ends behind it.
    both = head("PUT", "/api/queues/%2F/both", "Content-Length: 6", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + smuggled
    answer = raw_http(port, both, 5)
    assert answer.count(b"HTTP/1.1") <= 1, answer
    del body


def sc47_timeouts_are_settings(case):
    broker = case.broker("--http-request-timeout", "300ms", "--http-body-timeout", "300ms")
    began = time.monotonic()
    assert raw_http(broker.http_port, b"GET /api/overview HTTP/1.1\r\nX-A: ")[:12] in (b"", b"HTTP/1.1 408")
    credentials = base64.b64encode(b"guest:guest").decode()
    slow = head("PUT", "/api/queues/%2F/slow", f"Authorization: Basic {credentials}", "Content-Length: 10")
    assert status(raw_http(broker.http_port, slow + b"{")) == 408
    assert time.monotonic() - began < 8
    Api(broker).get("/api/overview")


def sc47_nobody_without_credentials_is_waited_for(case):
    """A body that never comes, of a path that needs no credentials, takes no longer than a head may."""
    broker = case.broker("--http-request-timeout", "300ms", "--http-body-timeout", "60s")
    lines = ("Host: x", "Content-Length: 100", "Connection: close", "", "")
    began = time.monotonic()
    for method, path, expected in (("POST", "login", 408), ("DELETE", "login", 408), ("GET", "version", 200), ("GET", "health/checks/is-in-service", 200)):
        asked = "\r\n".join([f"{method} /api/{path} HTTP/1.1", *lines]).encode()
        assert status(raw_http(broker.http_port, asked)) == expected, path
    assert time.monotonic() - began < 8


def sc38_a_monitoring_user_changes_nothing(case):
    broker = case.broker()
    admin = Api(broker)
    admin.put("/api/queues/%2F/kept")
    admin.put("/api/vhosts/other")
    admin.put("/api/users/watcher", {"password": "w", "tags": "monitoring"})
    watcher = Api(broker, "watcher", "w")
    for method, path, body in (
        ("PUT", "/api/users/x", {"password": "x", "tags": ""}),
        ("DELETE", "/api/users/guest", None),
        ("PUT", "/api/vhosts/x", {}),
        ("DELETE", "/api/vhosts/other", None),
        ("PUT", "/api/permissions/%2F/watcher", {"configure": ".*", "write": ".*", "read": ".*"}),
        ("PUT", "/api/policies/%2F/p", {"pattern": ".*", "definition": {"max-length": 1}}),
        ("PUT", "/api/queues/%2F/x", {}),
        ("DELETE", "/api/queues/%2F/kept", None),
        ("DELETE", "/api/queues/%2F/kept/contents", None),
        ("POST", "/api/exchanges/%2F/amq.default/publish", {"properties": {}, "routing_key": "kept", "payload": "x", "payload_encoding": "string"}),
        ("POST", "/api/queues/%2F/kept/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}),
        ("POST", "/api/definitions", {"queues": [{"name": "x", "vhost": "/", "durable": True, "arguments": {}}]}),
        ("PUT", "/api/cluster-name", {"name": "x"}),
        ("PUT", "/api/global-parameters/x", {"value": 1}),
        ("PUT", "/api/user-limits/guest/max-connections", {"value": 0}),
        ("PUT", "/api/vhost-limits/%2F/max-connections", {"value": 0}),
    ):
        answered, _ = watcher.call(method, path, body)
        # 404 where it may not even enter the vhost.
        assert answered in (401, 403, 404), (method, path, answered)
    assert [queue["name"] for queue in admin.get("/api/queues")] == ["kept"]
    assert sorted(user["name"] for user in admin.get("/api/users")) == ["guest", "watcher"]
    assert admin.get("/api/policies") == [] and admin.get("/api/user-limits") == []
    # What it may not enter looks as if it were not there, or refused, alike.
    admin.put("/api/users/member", {"password": "m", "tags": "management"})
    member = Api(broker, "member", "m")
    assert member.get("/api/vhosts") == [] and member.get("/api/queues") == []
    there, _ = member.call("GET", "/api/queues/other")
    missing, _ = member.call("GET", "/api/queues/nowhere")
    assert there == missing, (there, missing)


def sc40_imports_pass_the_same_checks(case):
    broker = case.broker()
    admin = Api(broker)
    admin.put("/api/users/maker", {"password": "m", "tags": "policymaker"})
    answered, _ = Api(broker, "maker", "m").call("POST", "/api/definitions", {"users": []})
    assert answered == 401
    admin.put("/api/vhost-limits/%2F/max-queues", {"value": 1})
    queues = [{"name": f"q{n}", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}} for n in range(3)]
    admin.call("POST", "/api/definitions", {"queues": queues})
    assert len(admin.get("/api/queues")) <= 1
    for bad in (
        {"queues": [{"name": "x" * 300, "vhost": "/", "durable": True, "arguments": {}}]},
        {"queues": [{"name": "x", "vhost": "/", "durable": True, "arguments": {"x-message-ttl": -1}}]},
        {"exchanges": [{"name": "amq.new", "vhost": "/", "type": "direct", "durable": True, "arguments": {}}]},
        {"permissions": [{"user": "guest", "vhost": "/", "configure": "(", "write": "(", "read": "("}]},
        {"queues": 7},
        {"users": [{"name": "u", "password_hash": "!!", "tags": 5}]},
        [],
    ):
        answered, _ = admin.call("POST", "/api/definitions", bad)
        assert answered in (204, 400, 404), (bad, answered)
    Peer(broker.port).open().is_alive()
    assert [x for x in admin.get("/api/exchanges") if x["name"] == "amq.new"] == []


def sc40_protected_users_stay(case):
    broker = case.broker()
    api = Api(broker)
    api.user("kept", "password", tags="protected,management")
    api.user("other", "password", tags="management")
    for method, body in (("DELETE", None), ("PUT", {"password": "mine", "tags": ""})):
        status, answer = api.call(method, "/api/users/kept", body)
        assert status == 400 and b"Protected users cannot be modified via the HTTP API" in answer, answer
    assert api.call("POST", "/api/users/bulk-delete", {"users": ["kept", "other"]})[0] == 204
    assert {user["name"] for user in api.get("/api/users")} == {"guest", "kept"}
    assert Api(broker, "kept", "password").get("/api/whoami")["name"] == "kept"


def sc48_names_with_markup_are_text(case):
    broker = case.broker("--log-level", "debug")
    api = Api(broker)
    quoted = urllib.parse.quote(MARKUP, safe="")
    api.put(f"/api/vhosts/{quoted}")
    api.put(f"/api/queues/%2F/{quoted}")
    api.user(MARKUP, "p")
    assert MARKUP in [queue["name"] for queue in api.get("/api/queues")]
    answer = raw_http(broker.http_port, head("GET", f"/api/queues/%2F/{quoted}", "Connection: close"))
    assert b"content-type: application/json" in answer.lower() and b"nosniff" in answer
    peer = Peer(broker.port)
    assert peer.login(MARKUP, "p", properties={"connection_name": MARKUP, "product": MARKUP}).name == "connection.tune"
    Peer(broker.port).login(MARKUP + "\n2026-11-30 forged line", "p")
    Peer(broker.port).login("a\r\nb", "p")
    api.call("GET", "/api/overview", headers={"X-Forwarded-For": "x"})
    Api(broker, MARKUP + "\r\nforged", "p").call("GET", "/api/overview")
    log = broker.logged()
    assert "\x1b[31m" not in log and "\u202e" not in log, [line for line in log.splitlines() if "alert" in line][:3]
    assert not [line for line in log.splitlines() if line.startswith(("2026-11-30 forged", "forged"))]


def sc51_answers_carry_the_headers_of_browsers(case):
    broker = case.broker()
    for path in ("/", "/api/overview", "/api/nothing", "/nothing"):
        answer = raw_http(broker.http_port, head("GET", path, "Origin: http://evil", "Connection: close")).lower()
        for header in (b"content-security-policy:", b"x-frame-options: deny", b"x-content-type-options: nosniff", b"referrer-policy:"):
            assert header in answer, (path, header, answer[:400])
        # SC50: nobody else's pages may read it.
        assert b"access-control-allow-origin" not in answer
        assert b"set-cookie" not in answer


def sc52_encoded_names_reach_the_right_object_or_none(case):
    broker = case.broker()
    api = Api(broker)
    for encoded, name in (("a%2Fb", "a/b"), ("%2E%2E", ".."), ("a%00b", "a\0b"), ("%252F", "%2F"), ("a+b", "a+b"), ("a%3Fb", "a?b")):
        api.put(f"/api/queues/%2F/{encoded}")
        assert api.get(f"/api/queues/%2F/{encoded}")["name"] == name
    port = broker.http_port
    for path in ("/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/../../etc/passwd", "/js/..%2f..%2fetc/passwd", "/api/queues/%2F/%ff", "//etc/passwd", "/api/queues/%2F/..%2f..", "\\..\\.."):
        answer = raw_http(port, head("GET", path, "Connection: close"))
        assert status(answer) in (400, 404), (path, answer[:200])


def sc53_no_route_fetches_what_somebody_names(case):
    broker = case.broker()
    with socket.create_server(("127.0.0.1", 0)) as trap:
        url = f"http://127.0.0.1:{trap.getsockname()[1]}/x"
        api = Api(broker)
        api.call("PUT", "/api/parameters/shovel/%2F/s", {"value": {"src-uri": url, "dest-uri": url, "src-queue": "a", "dest-queue": "b"}})
        api.call("POST", "/api/definitions", {"url": url})
        api.call("GET", f"/api/queues?url={urllib.parse.quote(url)}")
        trap.settimeout(2)
        try:
            trap.accept()
        except TimeoutError:
            return
        raise AssertionError("somebody came")


def sc54_publishing_and_getting_have_the_limits_of_amqp(case):
    broker = case.broker("--max-message-size", "100000")
    api = Api(broker)
    api.put("/api/queues/%2F/q")
    api.user("writer", "w")
    api.put("/api/users/writer", {"password": "w", "tags": "management"})
    api.put("/api/permissions/%2F/writer", {"configure": "", "write": "^amq\\.default$", "read": "^mine$"})
    writer = Api(broker, "writer", "w")

    def publish(payload, **properties):
        body = {"properties": properties, "routing_key": "q", "payload": payload, "payload_encoding": "string"}
        return writer.call("POST", "/api/exchanges/%2F/amq.default/publish", body)

    assert publish("x")[0] == 200
    answered, text = publish("x" * 200_000)
    assert answered >= 400, (answered, text)
    answered, text = publish("x", user_id="guest")
    assert answered >= 400, (answered, text)
    assert publish("x", user_id="writer")[0] == 200
    take = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert writer.call("POST", "/api/queues/%2F/q/get", take)[0] >= 400
    assert len(json.loads(api.call("POST", "/api/queues/%2F/q/get", take)[1])) == 2


def sc55_there_are_no_endpoints_for_tests(case):
    broker = case.broker()
    for path in ("/api/test", "/api/debug", "/api/fault", "/api/faults", "/api/test-mode", "/debug/pprof", "/api/clock", "/api/sleep"):
        # Whatever there is nothing at: it is not found, or not to be written to.
        for method, wanted in (("GET", {404}), ("POST", {404, 405}), ("PUT", {404, 405})):
            answered, _ = Api(broker).call(method, path)
            assert answered in wanted, (method, path, answered)


def sc47_who_takes_nothing_of_an_answer_is_cut_off(case):
    broker = case.broker("--metrics-listen", "127.0.0.1:0")
    peer = Peer(broker.port).open()
    for number in range(2000):
        peer.send("queue.declare", queue=f"{'q' * 200}{number}", nowait=True)
    peer.is_alive()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", broker.metrics_port))
        sock.sendall(b"GET /metrics/per-object HTTP/1.1\r\nhost: x\r\n\r\n")
        sock.settimeout(PATIENCE * 2)
        assert sock.recv(1) == b"H"
        before = broker.descriptors()
        # Nothing is asked of the broker meanwhile: it has to find out by itself.
        until(lambda: broker.descriptors() < before, limit=60, text="the answer is still there")
    with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics/per-object", timeout=60) as answer:
        size = len(answer.read())
    case.note(f"an answer of {size / MEGABYTE:.0f} MiB that nobody took")
    assert size > 8 * MEGABYTE, "more than fits into sockets"


def sc46_large_bodies_wait_for_each_other(case):
    """Whoever has shown good credentials still holds no more of the memory than there is for bodies."""
    broker = case.broker()
    authorization = Api(broker).authorization
    body = 16 * MEGABYTE
    head = f"PUT /api/vhosts/large HTTP/1.1\r\nhost: x\r\nauthorization: {authorization}\r\ncontent-length: {body}\r\n\r\n"
    before, half = broker.rss(), b" " * (body // 2)
    socks = [socket.create_connection(("127.0.0.1", broker.http_port), timeout=PATIENCE) for _ in range(20)]
    for sock in socks:
        sock.sendall(head.encode())
    for sock in socks:
        sock.settimeout(0.2)
        try:
            sock.sendall(half)
        except TimeoutError:
            pass
    grown = broker.rss() - before
    case.note(f"{len(socks)} halves of {body / MEGABYTE:.0f} MiB each: memory {grown / MEGABYTE:+.0f} MiB")
    assert grown < 100 * MEGABYTE
    # Small ones do not wait.
    Api(broker).put("/api/vhosts/small")
    for sock in socks:
        sock.close()
    until(lambda: Api(broker).call("PUT", "/api/vhosts/large", b" " * body)[0] == 201)


def sc49_a_foreign_page_changes_nothing(case):
    broker = case.broker()
    api = Api(broker)
    foreign = {"sec-fetch-site": "cross-site", "origin": "http://elsewhere.example", "content-type": "text/plain"}
    for method, path, body in (
        ("POST", "/api/definitions", json.dumps({"vhosts": [{"name": "forged"}]}).encode()),
        ("POST", "/api/exchanges/%2F/amq.default/publish", b"{}"),
        ("PUT", "/api/vhosts/forged", b"{}"),
        ("DELETE", "/api/vhosts/%2F", None),
    ):
        assert api.call(method, path, body, foreign)[0] == 403, (method, path)
    assert [vhost["name"] for vhost in api.get("/api/vhosts")] == ["/"]
    # It may be looked at, which no page of another origin is shown, and our own page may do everything.
    assert api.call("GET", "/api/overview", None, foreign)[0] == 200
    assert api.call("PUT", "/api/vhosts/ours", b"{}", {"sec-fetch-site": "same-origin"})[0] == 201


def sc54_gets_wait_for_each_other(case):
    """One get has a bound; many at once hold no more than a few."""
    broker = case.broker()
    peer = Peer(broker.port).open()
    peer.queue("backlog", durable=True)
    peer.ask("confirm.select", "confirm.select-ok")
    count, confirmed = 300, 0
    for number in range(1, count + 1):
        peer.publish(b"x" * MEGABYTE, routing_key="backlog", properties={"delivery_mode": 2})
        while confirmed < (count if number == count else number - 20):
            confirmed = peer.expect("basic.ack").arguments["delivery_tag"]
    api, peak = Api(broker), Peak(broker)
    ask = {"ackmode": "ack_requeue_false", "count": 20, "encoding": "auto"}

    def get(_):
        while True:
            status, answer = api.call("POST", "/api/queues/%2F/backlog/get", ask)
            if status == 200:
                return len(json.loads(answer))
            # Refused before anything was taken.
            assert status == 503, status
            time.sleep(0.1)

    with concurrent.futures.ThreadPoolExecutor(15) as pool:
        taken = sum(pool.map(get, range(15)))
    grown = peak.grown()
    case.note(f"15 gets of 20 MiB each: memory {grown / MEGABYTE:+.0f} MiB at most")
    assert taken == count, "each message is in an answer"
    assert grown < 280 * MEGABYTE
