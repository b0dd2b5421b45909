"""TLS, proxies, sockets in the file system."""

import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import time

from certificates import Authority, openssl
from frames.wire import PROTOCOL_HEADER
from hostile import Skip
from peer import PATIENCE, Api, Peer, until

CONFORMANCE = pathlib.Path(__file__).resolve().parents[2]


class Ground:
    """An authority, and a broker with a certificate of it."""

    def __init__(self, case, *arguments, **options):
        if not shutil.which("openssl"):
            raise Skip("no openssl on this machine")
        self.authority = Authority(case.scratch / "certificates")
        self.certificate, self.key = self.authority.issue("broker", "/CN=localhost")
        self.broker = case.broker(
            "--tls-listen",
            "127.0.0.1:0",
            "--tls-cert",
            str(self.certificate),
            "--tls-key",
            str(self.key),
            *[str(argument) for argument in arguments],
            **options,
        )
        self.port = self.broker.ports["amqps"][0]

    def context(self, client=None, authority=None):
        context = ssl.create_default_context(cafile=(authority or self.authority).certificate)
        if client:
            context.load_cert_chain(*client)
        return context

    def peer(self, client=None, host="localhost", context=None):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        return Peer(None, sock=(context or self.context(client)).wrap_socket(sock, server_hostname=host))


def a10_both_versions_carry_everything(case):
    ground = Ground(case)
    for version, name in ((ssl.TLSVersion.TLSv1_2, "tlsv1.2"), (ssl.TLSVersion.TLSv1_3, "tlsv1.3")):
        context = ground.context()
        context.minimum_version = context.maximum_version = version
        peer = ground.peer(context=context).open()
        queue = peer.queue("", exclusive=True)
        body = os.urandom(3_000_000)
        peer.publish(body, routing_key=queue).ask("basic.get", "basic.get-ok", queue=queue)
        received = b""
        while len(received) < len(body):
            frame = peer.read()
            received += frame.payload if frame.kind == 3 else b""
        assert received == body
        shown = Api(ground.broker).get("/api/connections")[0]
        assert (shown["ssl"], shown["ssl_protocol"], shown["peer_cert_subject"]) == (True, name, ""), shown
        peer.hang_up()
        until(lambda: Api(ground.broker).get("/api/connections") == [])
    kinds = {each["protocol"]: each["port"] for each in Api(ground.broker).get("/api/overview")["listeners"]}
    assert kinds["amqp/ssl"] == ground.port
    assert f"started TLS (SSL) listener on 127.0.0.1:{ground.port}" in ground.broker.logged()


def a10_a_certificate_that_ends_soon_is_told_by_the_health_check(case):
    ground = Ground(case)
    api, check = Api(ground.broker), "/api/health/checks/certificate-expiration"
    assert api.get(f"{check}/2/weeks") == {"status": "ok"}
    status, body = api.call("GET", f"{check}/2/MONTHS")
    answer = json.loads(body)
    assert (status, answer["status"], answer["reason"]) == (503, "failed", "Certificates expiring"), answer
    (listener,) = answer["expired"]
    assert (listener["protocol"], listener["port"]) == ("amqp/ssl", ground.port), listener
    assert listener["certfile"] == str(ground.certificate) and listener["cacertfile_expires_on"] == [], listener
    (end,) = listener["certfile_expires_on"]
    told = openssl("x509", "-in", ground.certificate, "-noout", "-enddate").strip().removeprefix("notAfter=")
    expected = datetime.datetime.strptime(told, "%b %d %H:%M:%S %Y GMT")
    assert end == f"{expected:%Y-%m-%d} {expected.hour}:{expected:%M:%S}", (end, told)


def sc10_old_versions_and_renegotiation_are_off(case):
    ground = Ground(case)
    target = ["s_client", "-connect", f"127.0.0.1:{ground.port}", "-CAfile", ground.authority.certificate]
    for old in ("-tls1", "-tls1_1"):
        command = ["openssl", *map(str, target), old, "-cipher", "DEFAULT@SECLEVEL=0"]
        done = subprocess.run(command, input=b"", capture_output=True, check=False)
        assert done.returncode != 0 and b"Cipher is (NONE)" in done.stdout, (old, done.stdout[-300:])
        # RabbitMQ says the former.
        alerts = (b"alert protocol version", b"alert handshake failure")
        assert any(alert in done.stderr for alert in alerts), (old, done.stderr[-300:])
    for new in ("-tls1_2", "-tls1_3"):
        assert "Verify return code: 0 (ok)" in openssl(*target, new, stdin=b"Q\n")
    # R asks for a renegotiation; the connection does not survive it.
    command = ["openssl", *map(str, target), "-tls1_2"]
    done = subprocess.run(command, input=b"R\n", capture_output=True, check=False, timeout=PATIENCE)
    assert b"no renegotiation" in done.stderr or done.returncode != 0, done.stderr[-300:]


def sc10_half_done_handshakes_end_in_time(case):
    ground = Ground(case)
    before, count = ground.broker.rss(), case.many(200, 10_000)
    hello = bytes.fromhex("1603010200010001fc0303") + os.urandom(100)
    sockets = [socket.create_connection(("127.0.0.1", ground.port)) for _ in range(count)]
    began = time.monotonic()
    for number, each in enumerate(sockets):
        if number % 2:
            each.sendall(hello)
    each_bytes = (ground.broker.rss() - before) / count
    ground.peer().open().hang_up()
    for each in sockets:
        each.settimeout(PATIENCE)
        try:
            while each.recv(100):
                pass
        except ConnectionResetError:
            pass
    took = time.monotonic() - began
    case.note(f"{count} half-done handshakes, {each_bytes / 1024:.1f} KiB each, gone after {took:.1f} s")
    assert took < 9 and each_bytes < 32 * 1024
    # Plain AMQP on the TLS port, and TLS on the plain one.
    Peer(ground.port).write(PROTOCOL_HEADER).ends()


def sc57_handshakes_that_fail_do_not_fill_the_disk(case):
    ground = Ground(case)
    port, count = ground.port, 500
    for _ in range(count):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sock:
            sock.sendall(b"no handshake at all")
            sock.recv(100)
    told = ground.broker.logged().count("TLS handshake failed")
    assert told == 300, told
    assert ground.broker.logged().count("further ones within this minute are not told") == 1
    ground.peer().open().is_alive()


def sc10_clients_certificates_are_checked_to_their_authority(case):
    ground = Ground(case)
    strict = ["--tls-ca", ground.authority.certificate, "--tls-verify", "peer"]
    good = ground.authority.issue("good", "/CN=good")
    other = Authority(case.scratch / "others", "others").issue("evil", "/CN=good")
    self_signed = Authority(case.scratch / "alone", "good")
    own = (self_signed.certificate, self_signed.key)
    expired = ground.authority.issue("expired", "/CN=good", days="0")
    asking = [*map(str, strict), "--tls-cert", str(ground.certificate), "--tls-key", str(ground.key), "--tls-listen", "127.0.0.1:0"]
    for required in (False, True):
        broker = case.broker(*asking, *(["--tls-require-client-cert"] if required else []))
        port = broker.ports["amqps"][0]

        def enters(client):
            sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            try:
                Peer(None, sock=ground.context(client).wrap_socket(sock, server_hostname="localhost")).open().hang_up()
                return True
            except (ssl.SSLError, AssertionError, OSError):
                return False

        assert enters(good)
        assert enters(None) is not required
        time.sleep(1.1)
        assert not enters(other) and not enters(own) and not enters(expired)


def sc10_a_missing_certificate_is_told_by_an_alert(case):
    authority = Authority(case.scratch / "asking")
    certificate, key = authority.issue("broker", "/CN=localhost")
    asking = ["--tls-cert", certificate, "--tls-key", key, "--tls-ca", authority.certificate, "--tls-verify", "peer"]
    broker = case.broker("--tls-listen", "127.0.0.1:0", "--tls-require-client-cert", *map(str, asking))
    other = Authority(case.scratch / "strangers", "strangers").issue("stranger", "/CN=stranger")
    target = ["openssl", "s_client", "-connect", f"127.0.0.1:{broker.ports['amqps'][0]}", "-CAfile", authority.certificate]
    for version, shown, alerts in (
        ("-tls1_2", (), (b"alert handshake failure", b"alert certificate required")),
        ("-tls1_3", (), (b"alert certificate required",)),
        ("-tls1_2", other, (b"alert unknown ca", b"alert bad certificate")),
        ("-tls1_3", other, (b"alert unknown ca", b"alert bad certificate")),
    ):
        with_shown = ["-cert", shown[0], "-key", shown[1]] if shown else []
        command = [str(word) for word in (*target, version, *with_shown, "-ign_eof")]
        done = subprocess.run(command, input=PROTOCOL_HEADER, capture_output=True, check=False, timeout=PATIENCE)
        assert any(alert in done.stderr for alert in alerts), (version, done.stderr[-400:])
    assert "panicked" not in broker.logged()


def a10_a_certificate_is_a_login(case):
    ground = Ground(case)
    for arguments, subject, names, user in (
        ([], "/CN=alice/O=client", "DNS:a", "O=client,CN=alice"),
        (["--ssl-cert-login-from", "common-name"], "/CN=alice/O=client", "DNS:a", "alice"),
        (["--ssl-cert-login-from", "san-dns", "--ssl-cert-login-san-index", "1"], "/CN=x", "DNS:a,DNS:alice.example", "alice.example"),
        (["--ssl-cert-login-from", "san-email"], "/CN=x", "email:alice@example", "alice@example"),
        (["--ssl-cert-login-from", "san-uri"], "/CN=x", "URI:spiffe://example/alice", "spiffe://example/alice"),
    ):
        broker = case.broker(
            "--auth-mechanisms", "plain,external", "--tls-listen", "127.0.0.1:0", "--tls-cert", str(ground.certificate),
            "--tls-key", str(ground.key), "--tls-ca", str(ground.authority.certificate), "--tls-verify", "peer", *arguments,
        )  # fmt: skip
        ground.port = broker.ports["amqps"][0]
        alice = ground.authority.issue("alice", subject, names)
        mallory = ground.authority.issue("mallory", "/CN=mallory/O=client", "DNS:m,DNS:mallory.example,email:mallory@example")

        def external(client):
            peer = ground.peer(client)
            peer.greet().start_ok("EXTERNAL", "")
            return peer, peer.method()

        assert external(alice)[1].name == "connection.close", "before there is such a user"
        Api(broker).user(user, "unused")
        assert external(mallory)[1].name == "connection.close"
        assert external(None)[1].name == "connection.close"
        peer, answer = external(alice)
        assert answer.name == "connection.tune", answer
        peer.send("connection.tune-ok", 0, channel_max=2047, frame_max=131072, heartbeat=0)
        peer.ask("connection.open", "connection.open-ok", 0, virtual_host="/")
        shown = Api(broker).get("/api/connections")[0]
        assert (shown["user"], shown["auth_mechanism"]) == (user, "EXTERNAL"), shown
        assert shown["peer_cert_subject"].startswith(("O=client,CN=alice", "CN=x")), shown
        # Nothing of it without TLS.
        plain = Peer(broker.port)
        plain.write(PROTOCOL_HEADER)
        assert b"EXTERNAL" not in bytes(plain.expect("connection.start").arguments["mechanisms"], "ascii")
        plain.start_ok("EXTERNAL", user).ends()


def a10_certificates_change_without_a_disconnect(case):
    ground = Ground(case)
    before = ground.peer().open()
    renewed = ground.authority.issue("renewed", "/CN=localhost", "DNS:localhost,DNS:renewed.example")
    shutil.copy(renewed[1], ground.key)
    shutil.copy(renewed[0], ground.certificate)

    def names():
        peer = ground.peer()
        found = [name for _, name in peer.sock.getpeercert()["subjectAltName"]]
        peer.hang_up()
        return found

    until(lambda: "renewed.example" in names(), text="the new certificate is not shown")
    before.is_alive()
    # Told, it does not wait for its next look; and what is no good changes nothing.
    ground.certificate.write_text("no certificate")
    os.kill(ground.broker.pid, signal.SIGHUP)
    until(lambda: "new certificates are no good" in ground.broker.logged())
    assert "renewed.example" in names()
    before.is_alive()


def a10_a_host_has_its_certificate(case):
    ground = Ground(case)
    certificate, key = ground.authority.issue("second", "/CN=second", "DNS:second.example")
    broker = case.broker(
        "--tls-listen", "127.0.0.1:0", "--tls-cert", str(ground.certificate), "--tls-key", str(ground.key),
        "--tls-host", f"second.example={certificate},{key}",
    )  # fmt: skip
    ground.port = broker.ports["amqps"][0]
    ground.peer(host="second.example").open().hang_up()
    ground.peer(host="localhost").open().hang_up()
    try:
        ground.peer(host="third.example")
        raise AssertionError("a certificate of another host was taken")
    except ssl.SSLCertVerificationError:
        pass


def a10_the_api_and_the_metrics_speak_tls(case):
    import urllib.error
    import urllib.request

    ground = Ground(case, "--http-tls-listen", "127.0.0.1:0", "--metrics-tls-listen", "127.0.0.1:0")
    ports = ground.broker.ports
    for port, path in ((ports["https"][0], "/api/overview"), (ports["metrics_tls"][0], "/metrics")):
        request = urllib.request.Request(f"https://localhost:{port}{path}")
        request.add_header("authorization", Api(ground.broker).authorization)
        with urllib.request.urlopen(request, context=ground.context(), timeout=PATIENCE) as answer:
            assert answer.status == 200 and answer.read()
            if path == "/api/overview":
                assert answer.headers["strict-transport-security"].startswith("max-age=")
    # A half-done handshake ends there as well.
    with socket.create_connection(("127.0.0.1", ports["https"][0]), timeout=PATIENCE) as sock:
        assert sock.recv(1) == b""


def a10_stock_clients_speak_tls(case):
    """The suites of client programs, as they are, with an `amqps` URL; and pika, whose suite speaks plain AMQP."""
    ground = Ground(case)
    environment = {
        **os.environ,
        "BROKER_URL": f"amqps://guest:guest@localhost:{ground.port}",
        "BROKER_CONTROL": "",
        "SSL_CERT_FILE": str(ground.authority.certificate),
        "NODE_EXTRA_CA_CERTS": str(ground.authority.certificate),
    }
    environment.pop("SUMMARY_FILE", None)
    if shutil.which("keytool"):
        store = case.scratch / "trust.p12"
        imported = ["-importcert", "-noprompt", "-alias", "authority", "-file", ground.authority.certificate]
        where = ["-keystore", store, "-storetype", "PKCS12", "-storepass", "worthless"]
        subprocess.run(["keytool", *map(str, [*imported, *where])], check=True, capture_output=True)
        trust = {"trustStore": store, "trustStorePassword": "worthless"}
        environment["JAVA_TOOL_OPTIONS"] = " ".join(f"-Djavax.net.ssl.{name}={value}" for name, value in trust.items())
    run = []
    for suite, tools, names in (
        ("node", ["node", "npm"], "hello"),
        ("java", ["java", "javac", "mvn"], "hello"),
    ):
        if not all(shutil.which(tool) for tool in tools):
            case.note(f"{suite} not run: this machine lacks one of {' '.join(tools)}")
            continue
        done = subprocess.run([CONFORMANCE / suite / "run", names], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{suite}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        run.append(suite)
    pythons = sorted(pathlib.Path(environment.get("LEVERET_CACHE") or pathlib.Path.home() / ".cache/leveret").glob("venv-*/bin/python3"))
    if pythons:
        done = subprocess.run([pythons[-1], "-B", CONFORMANCE / "hostile/with_pika.py"], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        run.append("pika")
    else:
        case.note("pika not run: the python suite makes its environment later")
    case.note(f"over TLS: {', '.join(run)}")
    assert run, "no client at all"
    assert "TLS handshake failed" not in ground.broker.logged()


# --- proxies -------------------------------------------------------------------------------------------------------


def v1(source, port=4000):
    family = "TCP6" if ":" in source else "TCP4"
    target = "::1" if ":" in source else "127.0.0.1"
    return f"PROXY {family} {source} {target} {port} 5672\r\n".encode()


def v2(source, port=4000):
    if ":" in source:
        addresses = socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, "::1")
        family = 0x21
    else:
        addresses, family = socket.inet_aton(source) + socket.inet_aton("127.0.0.1"), 0x11
    rest = addresses + struct.pack(">HH", port, 5672) + b"\x04\x00\x01\x00"
    return b"\r\n\r\n\0\r\nQUIT\n" + struct.pack(">BBH", 0x21, family, len(rest)) + rest


def sc09_the_forwarded_address_counts_and_only_behind_a_proxy(case):
    broker = case.broker("--proxy-protocol")
    for header in (v1, v2):
        for source, enters in (("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("192.0.2.7", False), ("2001:db8::7", False), ("::ffff:192.0.2.7", False)):
            answer = Peer(broker.port).write(header(source)).login()
            found = answer is not None and answer.name == "connection.tune"
            assert found is enters, (header.__name__, source, answer)
    Api(broker).user("remote", "r")
    peer = Peer(broker.port).write(v2("192.0.2.7", 1234)).open("remote", "r")
    shown = Api(broker).get("/api/connections")[0]
    assert (shown["peer_host"], shown["peer_port"]) == ("192.0.2.7", 1234), shown
    peer.hang_up()
    # Without the header nothing is served there, half of one ends in time; elsewhere it is a wrong protocol header.
    Peer(broker.port).write(PROTOCOL_HEADER + PROTOCOL_HEADER).ends()
    began = time.monotonic()
    Peer(broker.port).write(b"PROXY TCP4 1").ends()
    assert time.monotonic() - began < 13
    direct = case.broker()
    for header in (v1, v2):
        assert Peer(direct.port).write(header("127.0.0.1") + PROTOCOL_HEADER).rest() in (PROTOCOL_HEADER, b"")


def a11_tls_behind_a_proxy(case):
    ground = Ground(case, "--proxy-protocol")
    for header in (v1, v2):
        sock = socket.create_connection(("127.0.0.1", ground.port), timeout=PATIENCE)
        sock.sendall(header("127.0.0.1"))
        Peer(None, sock=ground.context().wrap_socket(sock, server_hostname="localhost")).open().hang_up()


def a11_sockets_in_the_file_system(case):
    path = case.scratch / "amqp.sock"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(path))
    broker = case.broker("--unix-listen", str(path))

    def connect():
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        return Peer(None, sock=sock)

    peer, second = connect().open(), connect().open()
    queue = peer.queue("", exclusive=True)
    peer.publish(b"x" * 1_000_000, routing_key=queue)
    peer.ask("basic.get", "basic.get-ok", queue=queue)
    names = {each["name"] for each in Api(broker).get("/api/connections")}
    assert len(names) == 2 and all(name.startswith(f"unix:{path}#") for name in names), names
    peer.hang_up()
    second.hang_up()
    broker.signal(signal.SIGTERM)
    assert broker.process.wait(30) == 0
    assert not path.exists(), "the socket's file is left"
    broker.start(limit=20)
    connect().open()


def a11_several_listeners_of_both_families(case):
    if not socket.has_ipv6:
        raise Skip("no IPv6 on this machine")
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            pass
    except OSError:
        raise Skip("no IPv6 on this machine") from None
    broker = case.broker("--listen", "[::1]:0", "--listen", "127.0.0.1:0")
    first, sixth, third = broker.ports["amqp"]
    places = (("127.0.0.1", first), ("::1", sixth), ("127.0.0.1", third))
    peers = [Peer(port, host).open() for host, port in places]
    hosts = sorted(each["peer_host"] for each in Api(broker).get("/api/connections"))
    assert hosts == ["127.0.0.1", "127.0.0.1", "::1"], hosts
    for peer in peers:
        peer.is_alive()
