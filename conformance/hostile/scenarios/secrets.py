"""Passwords, what is logged, what lies on the disk."""

import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import socket
import stat
import subprocess

from peer import PATIENCE, Api, Peer, raw_http, until

MARK = "pl4nted-s3cret"

MEGABYTE = 1 << 20

# Who has no rights of their own on any system.
NOBODY = 65534


def sc42_no_secret_is_ever_told(case):
    """Secrets on every way in, then a look at every way out."""
    environment = {"RABBITMQ_DEFAULT_PASS": f"{MARK}-environment"}
    broker = case.broker("--log-level", "trace", "--default-user", "root", env=environment)
    root = Api(broker, "root", f"{MARK}-environment")
    root.user("user", f"{MARK}-password", tags="monitoring")
    hashed = base64.b64encode(b"salt" + hashlib.sha256(b"salt" + f"{MARK}-hashed".encode()).digest()).decode()
    root.put("/api/users/hashed", {"password_hash": hashed, "tags": ""})
    root.put("/api/parameters/shovel/%2F/moves", {"value": {"src-uri": f"amqp://u:{MARK}-uri@h", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}})
    peer = Peer(broker.port).open("user", f"{MARK}-password")
    peer.ask("connection.update-secret", "connection.update-secret-ok", 0, new_secret=f"{MARK}-token", reason="r")
    Peer(broker.port).login("user", f"{MARK}-wrong")
    Peer(broker.port).login("user", f"{MARK}\n-broken")
    garbage = Peer(broker.port).greet().start_ok("PLAIN", f"x\0user\0{MARK}-malformed")
    garbage.ends()
    Peer(broker.port).write(f"GET /?password={MARK}-plain HTTP/1.1\r\n\r\n".encode()).ends()
    Api(broker, "user", f"{MARK}-wrong-http").call("GET", "/api/overview")
    raw_http(broker.http_port, f"GET /api/x HTTP/1.1\r\nAuthorization: Bearer {MARK}-bearer\r\nCookie: {MARK}-cookie\r\nConnection: close\r\n\r\n".encode())
    raw_http(broker.http_port, f"POST /api/login HTTP/1.1\r\nContent-Length: 50\r\nConnection: close\r\n\r\nusername=user&password={MARK}-form-login-xxxxxxxxx".encode())
    root.call("PUT", "/api/users/broken", f'{{"password": "{MARK}-json'.encode())
    root.call("POST", "/api/definitions", {"users": [{"name": "imported", "password": f"{MARK}-import", "tags": []}]})
    log = broker.logged()
    assert MARK not in log and hashed not in log, [line for line in log.splitlines() if MARK in line or hashed in line][:5]
    for path in ("overview", "users", "whoami", "connections", "channels", "nodes", "definitions"):
        for api in (root, Api(broker, "user", f"{MARK}-password")):
            _, answer = api.call("GET", f"/api/{path}")
            # What the shovel's parameter says is said to administrators, as in RabbitMQ.
            assert MARK.encode() not in answer.replace(f"{MARK}-uri".encode(), b""), (path, answer)
    for path in ("/metrics", "/api/auth/attempts/rabbit"):
        _, answer = root.call("GET", path)
        assert MARK.encode() not in answer
    with open(f"/proc/{broker.pid}/cmdline", "rb") as command:
        assert MARK.encode() not in command.read()
    # SC43: definitions carry hashes, for administrators only.
    status, _ = Api(broker, "user", f"{MARK}-password").call("GET", "/api/definitions")
    assert status == 401


def sc37_tokens_that_cannot_be_checked_keep_the_broker_from_starting(case):
    """A key that cannot be read, or one that nobody safe can be asked for, is told at the start and nobody is let in."""
    (case.scratch / "nothing.pem").write_text("nothing")
    keys = ["--oauth2-jwks-uri", "https://127.0.0.1:1/keys"]
    for options, told in (
        (["--oauth2-jwks-uri", "http://127.0.0.1:1/keys"], "allowed is a URL that begins with https://"),
        (["--oauth2-issuer", "file:///etc/passwd"], "allowed is a URL that begins with https://"),
        ([*keys, "--oauth2-https-crl-check", "true"], "crl_check asks for lists of certificates"),
        ([*keys, "--oauth2-https-cacertfile", f"{case.scratch}/missing.pem"], "cannot verify those who publish"),
        ([*keys, "--oauth2-https-cacertfile", f"{case.scratch}/nothing.pem"], "cannot verify those who publish"),
        ([*keys, "--oauth2-default-provider", "nobody"], "there is no provider nobody"),
        (["--oauth2-signing-keys", f"key={case.scratch}/missing.pem"], "cannot read the signing key key"),
        (["--oauth2-signing-keys", f"key={case.scratch}/nothing.pem"], "is no public key and no certificate in PEM"),
        (["--oauth2-algorithms", "none,rs1"], "allowed is rs256"),
    ):
        place = ["--data-dir", case.scratch / "never", "--listen", "127.0.0.1:0", "--http-listen", "off"]
        command = [os.environ["LEVERET_BIN"], *map(str, place), "--auth-backends", "oauth2,internal", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode != 0 and told in done.stdout + done.stderr, (options, done.stderr[-300:])
    broker = case.broker("--auth-backends", "ldap,internal")
    assert "there is no auth backend" in broker.logged()
    Peer(broker.port).open()


def sc41_odd_stored_hashes_are_refused(case):
    broker = case.broker()
    api = Api(broker)
    for number, hashed in enumerate((b"", b"abc", b"salt", b"salt" + b"x" * 31, b"salt" + b"x" * 33, b"\0" * 10_000)):
        for algorithm in ("sha256", "sha512", "md5", "argon2", ""):
            name = f"odd{number}{algorithm}"
            body = {"password_hash": base64.b64encode(hashed).decode(), "tags": "administrator"}
            body |= {"hashing_algorithm": f"rabbit_password_hashing_{algorithm}"} if algorithm else {}
            assert api.call("PUT", f"/api/users/{name}", body)[0] == 201
            for password in ("", "x"):
                assert Peer(broker.port).login(name, password).name == "connection.close"
                assert Api(broker, name, password).call("GET", "/api/whoami")[0] == 401


def sc41_a_hash_that_takes_memory(case):
    """Passwords are hashed with Argon2id where the operator says so; a storm of logins takes the memory of two."""
    broker = case.broker("--password-hashing", "argon2id", "--login-failures-max", "0", "--handshake-timeout", "60000")
    api = Api(broker)
    api.put("/api/users/new", {"password": "right", "tags": "administrator"})
    shown = api.get("/api/users/new")
    assert shown["hashing_algorithm"] == "leveret_password_hashing_argon2id"
    hashed = base64.b64decode(shown["password_hash"])
    assert hashed.startswith(b"$argon2id$v=19$m=19456,t=2,p=1$") and b"right" not in hashed
    assert Api(broker, "new", "right").call("GET", "/api/whoami")[0] == 200
    # What others hashed stays as it is, and a hash without a name is RabbitMQ's.
    usual = base64.b64encode(b"salt" + hashlib.sha256(b"salt" + b"old").digest()).decode()
    api.put("/api/users/old", {"password_hash": usual, "tags": "administrator"})
    assert Api(broker, "old", "old").call("GET", "/api/whoami")[0] == 200
    definitions = api.get("/api/definitions")
    api.put("/api/users/new", {"password": "other", "tags": "administrator"})
    assert api.call("POST", "/api/definitions", definitions)[0] in (200, 204)
    assert Api(broker, "new", "right").call("GET", "/api/whoami")[0] == 200
    before = highest = broker.rss()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        logins = [pool.submit(lambda n=n: Peer(broker.port).login(("new", "nobody")[n % 2], "wrong").name) for n in range(8)]
        while not all(login.done() for login in logins):
            highest = max(highest, broker.rss())
            concurrent.futures.wait(logins, timeout=0.05, return_when=concurrent.futures.FIRST_COMPLETED)
    assert {login.result() for login in logins} == {"connection.close"}
    case.note(f"memory {(highest - before) / MEGABYTE:+.0f} MiB")
    assert highest - before < 64 * MEGABYTE, (before, highest)


def sc42_no_secret_of_the_command_line_is_logged(case):
    """What administrators type, and what stands in the files that they name; on a broker that takes tokens too."""
    definitions = case.scratch / "definitions.json"
    hashed = base64.b64encode(b"salt" + hashlib.sha256(b"salt" + f"{MARK}-file".encode()).digest()).decode()
    shovel = {"src-uri": f"amqp://u:{MARK}-uri@h", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}
    definitions.write_text(
        json.dumps(
            {
                "vhosts": [{"name": "/"}],
                "users": [
                    {"name": "root", "password": f"{MARK}-file", "tags": ["administrator"]},
                    {"name": "old", "password_hash": hashed, "tags": []},
                ],
                "parameters": [{"component": "shovel", "vhost": "/", "name": "moves", "value": shovel}],
            }
        )
    )
    environment = {"LEVERET_RUN_DIR": str(case.scratch / "run")}
    (case.scratch / "run").mkdir(mode=0o700)
    options = ["--log-level", "trace", "--definitions", str(definitions), "--auth-backends", "oauth2,internal"]
    broker = case.broker(*options, env=environment)

    def ctl(*words):
        command = [os.environ["LEVERET_BIN"], "ctl", *words]
        return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)

    for words in (
        ("add_user", "typed", f"{MARK}-typed"),
        ("change_password", "typed", f"{MARK}-changed"),
        ("authenticate_user", "typed", f"{MARK}-changed"),
        ("authenticate_user", "typed", f"{MARK}-wrong"),
        ("hash_password", f"{MARK}-hashed"),
        ("set_parameter", "shovel", "again", json.dumps(shovel)),
        ("set_parameter", "nonsense", "again", json.dumps(shovel)),
        ("import_definitions", str(definitions)),
        ("eval", f'rabbit_auth_backend_internal:change_password(<<"typed">>, <<"{MARK}-eval">>, <<"me">>).'),
    ):
        ctl(*words)
    for path in ("list_users", "status", "environment", "report", "list_connections"):
        told = ctl(path)
        assert MARK not in (told.stdout + told.stderr).replace(f"{MARK}-uri", ""), path
    claims = base64.urlsafe_b64encode(f'{{"aud":"{MARK}-claim"}}'.encode()).decode().rstrip("=")
    token = f"eyJhbGciOiJIUzI1NiJ9.{claims}.{MARK}-signature"
    Peer(broker.port).login("anybody", token)
    raw_http(broker.http_port, f"GET /api/whoami HTTP/1.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode())
    peer = Peer(broker.port).open("typed", f"{MARK}-changed", channel=False) if ctl("set_permissions", "typed", ".*", ".*", ".*").returncode == 0 else None
    assert peer is not None
    peer.send("connection.update-secret", 0, new_secret=token, reason="r")
    peer.method()
    log = broker.logged()
    for secret in (MARK, claims, hashed):
        assert secret not in log, [line for line in log.splitlines() if secret in line][:5]


def sc43_uris_are_shown_without_credentials(case):
    broker = case.broker()
    api = Api(broker)
    api.user("policies", "password", tags="policymaker")
    api.put("/api/permissions/%2F/policies", {"configure": ".*", "write": ".*", "read": ".*"})
    uris = [f"amqps://user:{MARK}-list@other/v"]
    api.put("/api/parameters/shovel/%2F/moves", {"value": {"src-uri": f"amqp://user:{MARK}-uri@here:5672", "src-queue": "a", "dest-uri": uris, "dest-queue": "b"}})
    api.put("/api/parameters/federation-upstream/%2F/up", {"value": {"uri": f"amqp://user:{MARK}@up"}})
    other = Api(broker, "policies", "password")
    for path in ("", "/shovel", "/shovel/%2F", "/shovel/%2F/moves", "/federation-upstream/%2F/up"):
        status, answer = other.call("GET", f"/api/parameters{path}")
        assert status == 200 and MARK.encode() not in answer and b"user:" not in answer, answer
    moves = other.get("/api/parameters/shovel/%2F/moves")["value"]
    assert (moves["src-uri"], moves["dest-uri"]) == ("amqp://here:5672", ["amqps://other/v"])
    assert MARK in api.get("/api/parameters/shovel/%2F/moves")["value"]["src-uri"]
    assert MARK not in broker.logged()


def sc44_guest_is_for_this_machine_and_no_password_is_printed(case):
    address = own_address()
    broker = case.broker("--listen", "0.0.0.0:0")
    port = broker.ports["amqp"][1]
    assert Peer(broker.port).login().name == "connection.tune"
    if address:
        assert Peer(port, address).login().name == "connection.close"
        broker2 = case.broker("--listen", "0.0.0.0:0", "--loopback-users", "none")
        assert Peer(broker2.ports["amqp"][1], address).login().name == "connection.tune"
    else:
        case.note("this machine has no other address")
    assert "password" not in broker.logged().lower()


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            # Sends nothing: it only asks which address would be used.
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address = sock.getsockname()[0]
        return None if address.startswith("127.") else address


def sc45_the_data_directory_is_for_its_owner(case):
    umask = os.umask(0o022)
    try:
        broker = case.broker()
    finally:
        os.umask(umask)
    peer = Peer(broker.port).open()
    peer.queue("q", durable=True)
    wrong = [
        f"{stat.filemode(path.stat().st_mode)} {path.relative_to(broker.directory.parent)}"
        for path in [broker.directory, *broker.directory.rglob("*")]
        if path.stat().st_mode & 0o077
    ]
    # A directory that nobody else can enter protects what is in it.
    assert not [line for line in wrong if line.endswith(" data0")], wrong


def sc57_a_repeating_event_does_not_fill_the_disk(case):
    broker = case.broker()
    before, count = broker.log.stat().st_size, 300
    for number in range(count):
        Peer(broker.port).greet().start_ok(response=f"\0{'x' * 200}\0wrong{number}").hang_up()
    until(lambda: broker.logged().count("login refused") >= count)
    each = (broker.log.stat().st_size - before) / count
    case.note(f"{each:.0f} bytes for each refused login")
    assert each < 1000
    # But for the line that tells the ports, which is none of the log's.
    lines = [line for line in broker.logged().splitlines() if not line.startswith('{"amqp"')]
    assert all(line[:4].isdigit() for line in lines), "one event is one line"


def sc62_any_user_on_a_root_that_nobody_can_write_to(case):
    """Nobody's rights, no capabilities, no way to more of them, and only its own directory to write to."""
    if os.geteuid() != 0:
        case.skip("needs root to become somebody else")
    os.chown(case.scratch, NOBODY, NOBODY)
    # The program may stand where only root can come: in the namespace it stands beside the data too.
    program = case.scratch / "program"
    program.touch()
    confine = f"""
        set -e
        mount --bind {case.scratch} {case.scratch}
        mount --bind "$1" {program}
        mount -o remount,ro,bind /
        shift
        exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
            {program} "$@"
    """
    wrapper = ["unshare", "--mount", "--propagation", "private", "sh", "-c", confine, "sh"]
    broker = case.broker(wrapper=wrapper, env={"LEVERET_RUN_DIR": str(case.scratch)})
    status = pathlib.Path(f"/proc/{broker.pid}/status").read_text()
    facts = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == [str(NOBODY)] * 4, facts["Uid"]
    assert (facts["CapEff"], facts["CapBnd"], facts["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1"), facts
    peer = Peer(broker.port).open()
    queue = peer.queue("kept", durable=True)
    peer.ask("confirm.select", "confirm.select-ok")
    peer.publish(b"kept", routing_key=queue, properties={"delivery_mode": 2}).expect("basic.ack")
    peer.hang_up()
    broker.stop()
    broker.start(limit=20)
    assert Peer(broker.port).open().ask("basic.get", "basic.get-ok", queue=queue).arguments["message_count"] == 0
