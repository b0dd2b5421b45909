"""Settings that people have in rabbitmq.conf, by what they do to a broker that starts with them."""

import base64
import contextlib
import http.client
import os
import re
import socket
import subprocess

import pika
import pytest

from program import eventually
from settings.own import running

pytestmark = [
    pytest.mark.beyond,
    pytest.mark.skipif("LEVERET_BIN" not in os.environ, reason="not run: LEVERET_BIN names no program to start"),
]


def test_the_first_administrator_has_the_tags_and_permissions_of_the_file(tmp_path):
    conf = """
default_user = alice
default_pass = secret
default_user_tags.monitoring = true
default_user_tags.team-a = true
default_permissions.configure = ^a
default_permissions.write = ^b
default_permissions.read = ^c
"""
    with running(tmp_path, conf) as own:
        api = own.api("alice", "secret")
        assert sorted(api.get("whoami").json["tags"]) == ["monitoring", "team-a"]
        with own.connect("alice", "secret") as connection:
            channel = connection.channel()
            channel.queue_declare("a1")
            with pytest.raises(Exception, match="ACCESS_REFUSED.*configure access to queue 'b1'"):
                channel.queue_declare("b1")


def test_every_new_vhost_has_its_users_limits_and_operator_policies(tmp_path):
    conf = r"""
default_users.watcher.vhost_pattern = .*
default_users.watcher.password = p,ss
default_users.watcher.tags = monitoring
default_users.watcher.configure = ^$
default_policies.operator.caps.vhost_pattern = ^team-
default_policies.operator.caps.queue_pattern = ^jobs
default_policies.operator.caps.max_length_bytes = 1MB
default_policies.operator.caps.expires = 1h
default_limits.vhosts.few.pattern = ^team-
default_limits.vhosts.few.max_queues = 1
default_limits.vhosts.few.max_connections = 2
"""
    with running(tmp_path, conf) as own:
        api = own.api()
        assert own.api("watcher", "p,ss").get("overview").status == 200
        assert api.get("permissions/%2F/watcher").json["configure"] == "^$"
        assert api.put("vhosts/team-a").status == 201
        assert api.put("vhosts/other").status == 201
        limits = {each["vhost"]: each["value"] for each in api.get("vhost-limits").json}
        assert limits == {"team-a": {"max-queues": 1, "max-connections": 2}}
        [policy] = api.get("operator-policies").json
        assert (policy["vhost"], policy["pattern"]) == ("team-a", "^jobs")
        assert policy["definition"] == {"max-length-bytes": 1_048_576, "expires": 3_600_000}
        with own.connect(vhost="team-a") as connection:
            channel = connection.channel()
            channel.queue_declare("jobs", durable=True)
            queue = api.get("queues/team-a/jobs").json
            assert queue["operator_policy"] == "caps"
            assert queue["effective_policy_definition"]["max-length-bytes"] == 1_048_576
            with pytest.raises(Exception, match="queue limit in vhost 'team-a' \\(1\\) is reached"):
                channel.queue_declare("second")
        # The user who is there keeps their password.
        assert api.put("users/watcher", {"password": "other", "tags": "monitoring"}).status == 204
        assert api.put("vhosts/team-b").status == 201
        assert own.api("watcher", "other").get("overview").status == 200


def test_there_are_no_more_vhosts_than_may_be(tmp_path):
    with running(tmp_path, "vhost_max = 2\n") as own:
        api = own.api()
        assert api.put("vhosts/second").status == 201
        refused = api.put("vhosts/third")
        assert (refused.status, refused.json["reason"]) == (
            400,
            "cannot create vhost 'third': vhost limit of 2 is reached",
        )
        assert api.put("vhosts/second", {"description": "changed"}).status == 204


def test_the_http_api_is_as_the_file_wants_it(tmp_path):
    conf = """
management.path_prefix = /mq
management.cors.allow_origins.1 = *
management.csp.policy = default-src 'self'
management.hsts.policy = max-age=7
management.headers.frame_options = SAMEORIGIN
management.headers.xss_protection = 1; mode=block
management.headers.content_type_options = nosniff
management.headers.referrer_policy = same-origin
management.http.max_body_size = 200
management.login_session_timeout = 30
management.rates_mode = detailed
management.disable_stats = true
management.enable_queue_totals = true
management.restrictions.operator_policy_changes.disabled = true
management.definitions.require_json_extension = true
"""
    with running(tmp_path, conf) as own:
        api = own.api()
        assert api.get("overview").status == 404
        api.base = api.base.replace("/api/", "/mq/api/")
        answer = api.get("overview", Origin="http://elsewhere")
        sent = {name.lower(): value for name, value in answer.headers.items()}
        assert sent["access-control-allow-origin"] == "*"
        assert sent["content-security-policy"] == "default-src 'self'"
        assert sent["strict-transport-security"] == "max-age=7"
        assert sent["x-frame-options"] == "SAMEORIGIN"
        assert sent["x-xss-protection"] == "1; mode=block"
        assert sent["referrer-policy"] == "same-origin"
        overview = answer.json
        assert overview["rates_mode"] == "detailed"
        assert overview["disable_stats"] and overview["enable_queue_totals"]
        assert overview["require_definition_json_extension"] and not overview["is_op_policy_updating_enabled"]
        assert api.get("whoami").json["login_session_timeout"] == 30
        assert api.get("consumers").status == 400
        assert api.put("queues/%2F/q").status == 201
        [queue] = api.get("queues").json
        assert queue["messages"] == 0 and "message_bytes" not in queue
        assert api.put("queues/%2F/r", {"arguments": {"x": "y" * 200}}).status == 413
        assert api.put("operator-policies/%2F/p", {"pattern": "", "definition": {"expires": 1}}).status == 405
        assert api.delete("operator-policies/%2F/p").status == 405
        assert api.get("operator-policies").json == []


def test_without_rates_nothing_has_message_stats(tmp_path):
    with running(tmp_path, "management.rates_mode = none\n") as own, contextlib.closing(own.connect()) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_publish("", "q", b"x")
        channel.exchange_declare("x", "fanout")
        channel.basic_publish("x", "", b"x")
        channel.basic_get("q")
        api = own.api()
        assert api.get("overview").json["message_stats"] == {}
        assert api.get("queues/%2F/q").json["messages"] == 1
        for path in ("queues/%2F/q", "exchanges/%2F/x", "vhosts/%2F"):
            assert "message_stats" not in api.get(path).json, path
        [shown] = api.get("channels").json
        assert shown["messages_unacknowledged"] == 1 and "message_stats" not in shown


def test_the_version_that_clients_are_told_is_told_everywhere(tmp_path):
    with running(tmp_path, arguments=["--compat-version", "4.1.2"]) as own:
        api = own.api()
        assert api.get("version").json == "4.1.2"
        overview = api.get("overview").json
        assert {overview[name] for name in ("rabbitmq_version", "management_version", "product_version")} == {"4.1.2"}
        assert api.get("nodes").json[0]["rabbitmq_version"] == "4.1.2"
        assert api.get("definitions").json["rabbitmq_version"] == "4.1.2"
        with own.connect() as connection:
            assert connection._impl.server_properties["version"] == "4.1.2"


def test_ways_to_log_in_are_told_as_they_are(tmp_path):
    with running(tmp_path, "auth_mechanisms.1 = PLAIN\n") as own:
        shown = own.api().get("nodes").json[0]["auth_mechanisms"]
        assert [each["name"] for each in shown if each["enabled"]] == ["PLAIN"]


def test_lines_of_the_log_are_published(tmp_path):
    with running(tmp_path, "log.exchange = true\nlog.exchange.level = info\n") as own, own.connect() as connection:
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.queue_bind(queue, "amq.rabbitmq.log", "info")
        own.connect().close()
        got = []

        def line():
            method, properties, body = channel.basic_get(queue, auto_ack=True)
            if method:
                got.append((method.routing_key, properties, body.decode()))
            return method

        eventually(line, "a line of the log as a message", "")
        key, properties, body = got[0]
        assert key == "info" and " [info] " in body
        assert properties.content_type == "text/plain"
        assert properties.headers == {"node": f"settings-{os.getpid()}@localhost"}


def test_the_log_goes_to_syslog(tmp_path):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(20)
        port = receiver.getsockname()[1]
        conf = f"""
log.syslog = true
log.syslog.host = 127.0.0.1
log.syslog.port = {port}
log.syslog.transport = udp
log.syslog.protocol = rfc5424
log.syslog.facility = local3
log.syslog.identity = mq
"""
        with running(tmp_path, conf):
            first = receiver.recv(65536).decode()
    # Facility 19, severity 6 of an info.
    assert first.startswith("<158>1 ") and " mq " in first and "[info]" in first


def test_what_has_no_effect_is_told_by_name(tmp_path):
    conf = """
cluster_formation.peer_discovery_backend = classic_config
anonymous_login_pass = secret
log.exchange = false
hartbeat = 10
"""
    with running(tmp_path, conf, environment={"RABBITMQ_USERNAME": "u"}) as own:
        told = own.warnings()
        assert any("anonymous_login_pass has no effect" in line for line in told)
        assert any("hartbeat; did you mean heartbeat?" in line for line in told)
        assert any("RABBITMQ_USERNAME" in line and "RABBITMQ_DEFAULT_USER" in line for line in told)
        assert len(told) == 3, told
        assert "peer_discovery_backend has no effect: one node, no cluster" in own.said()


def test_passwords_are_hashed_as_the_file_says(tmp_path):
    with running(tmp_path, "password_hashing_module = rabbit_password_hashing_sha512\n") as own:
        assert not own.warnings()
        api = own.api()
        guest = api.get("users/guest").json
        assert guest["hashing_algorithm"] == "rabbit_password_hashing_sha512"
        # Salt and hash.
        assert len(base64.b64decode(guest["password_hash"])) == 4 + 64


def test_the_metrics_are_where_the_file_has_them(tmp_path):
    conf = "prometheus.path = /mq-metrics\n"
    with running(tmp_path, conf, arguments=("--metrics-listen", "127.0.0.1:0")) as own:
        listeners = own.api().get("overview").json["listeners"]
        [port] = [each["port"] for each in listeners if each["protocol"] == "http/prometheus"]

        def status(path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", path)
                return connection.getresponse().status

        wanted = {"/mq-metrics": 200, "/mq-metrics/per-object": 200, "/mq-metrics/none": 404, "/metrics": 404}
        assert {path: status(path) for path in wanted} == wanted
        assert own.warnings() == []


def ctl(run_dir, *words, program="ctl", **environment):
    """Exit code, standard output and standard error of a command of the broker's own binary."""
    ended = subprocess.run(
        [os.environ["LEVERET_BIN"], program, *words],
        env={"PATH": os.environ["PATH"], "LEVERET_RUN_DIR": str(run_dir), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    return ended.returncode, ended.stdout, ended.stderr


def test_new_passwords_are_what_the_file_asks_of_them(tmp_path):
    conf = """
default_pass = long-enough
credential_validator.validation_backend = rabbit_credential_validator_min_password_length
credential_validator.min_length = 8
"""
    node = f"settings-{os.getpid()}@localhost"
    with running(tmp_path, conf, environment={"LEVERET_RUN_DIR": str(tmp_path)}) as own:
        api = own.api("guest", "long-enough")
        refused = api.put("users/alice", {"password": "short", "tags": ""})
        assert (refused.status, refused.json["reason"]) == (400, "credential_validation_failed")
        assert api.put("users/alice", {"password": "longer than that", "tags": ""}).status == 201
        assert api.put("users/alice", {"password": "short", "tags": ""}).status == 400
        assert own.api("alice", "short").get("whoami").status == 401
        # A hash says nothing of its password.
        assert api.put("users/bob", {"password_hash": "", "tags": ""}).status == 201
        for words in [("add_user", "carol", "short"), ("change_password", "alice", "short")]:
            code, _, err = ctl(tmp_path, "-n", node, *words)
            assert (code, err) == (69, "Error:\nminimum required password length is 8\n"), words
        assert ctl(tmp_path, "-n", node, "add_user", "carol", "long-enough")[0] == 0


def test_there_are_no_new_queues_of_a_type_that_is_off(tmp_path):
    with running(tmp_path, "queue_types.quorum.enabled = false\n") as own:
        with own.connect() as connection:
            channel = connection.channel()
            channel.queue_declare("classic", durable=True)
            with pytest.raises(
                pika.exceptions.ConnectionClosedByBroker,
                match="INTERNAL_ERROR - Cannot declare a queue 'queue 'q' in vhost '/'' of type 'rabbit_quorum_queue' on "
                "node '.*': the corresponding feature flag is disabled",
            ):
                channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})


def test_the_command_line_finds_the_one_broker_that_is_meant(tmp_path):
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
    node = f"settings-{os.getpid()}@localhost"
    shared = {"LEVERET_RUN_DIR": str(tmp_path)}
    with running(places[0], environment=shared) as one:
        assert ctl(tmp_path, "-n", node, "-q", "ping")[0] == 0
        # As RabbitMQ names it: by the environment, or by the file that stands in for it.
        assert ctl(tmp_path, "-q", "ping", RABBITMQ_NODENAME=node)[0] == 0
        script = tmp_path / "rabbitmq-env.conf"
        script.write_text(f"NODENAME=settings-$(echo {os.getpid()})@localhost\n", encoding="utf-8")
        assert ctl(tmp_path, "-q", "ping", RABBITMQ_CONF_ENV_FILE=str(script))[0] == 0
        code, _, err = ctl(tmp_path, "-n", "elsewhere@localhost", "-q", "list_queues")
        assert code == 69
        assert f"these do: -n {node}" in err
        with running(places[1], environment=shared) as two:
            code, _, err = ctl(tmp_path, "-n", node, "-q", "list_queues")
            assert code == 69
            assert "Say which of the 2 brokers of this name is meant" in err
            with two.connect() as connection:
                connection.channel().queue_declare("of-two", durable=True)
            found = {ctl(tmp_path, "-n", name, "-q", "list_queues", "name")[1] for name in names_in(err)}
            assert found == {"", "name\nof-two\n"}
        assert ctl(tmp_path, "-n", node, "-q", "ping")[0] == 0
        one.api().get("whoami")


def names_in(text):
    """What an error says to put behind `-n`."""
    return re.findall(r"-n (\S+\+\d+)", text)


def test_bodies_of_any_bytes_go_through_files(tmp_path):
    body = bytes(range(256))
    with running(tmp_path) as own:
        url = own.http_url.rsplit(":", 1)[1]
        with own.connect() as connection:
            channel = connection.channel()
            channel.queue_declare("bytes", durable=True)
            channel.basic_publish("", "bytes", body)
            to = tmp_path / "body"
            admin = ("-P", url, "-H", "127.0.0.1")
            code, out, err = ctl(
                tmp_path,
                *admin,
                *("get", "queue=bytes", f"payload_file={to}", "ackmode=ack_requeue_false"),
                program="rabbitmqadmin",
            )
            assert code == 0, err
            assert to.read_bytes() == body
            assert "payload_bytes" in out
            published = subprocess.run(
                [os.environ["LEVERET_BIN"], "rabbitmqadmin", *admin, "publish", "routing_key=bytes"],
                input=body,
                capture_output=True,
                check=False,
                timeout=20,
            )
            assert published.returncode == 0, published.stderr
            _, _, got = channel.basic_get("bytes", auto_ack=True)
            assert got == body


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("heartbeat = 30s", "a whole number"),
        ("proxy_protocol = yes", "true or false"),
        ("vm_memory_high_watermark.relative = 40%", "a number with a point"),
        ("mqtt.prefetch = many", "a whole number"),
        ("log.console.level = loud", "debug, info, notice, warning, error, critical, alert, emergency, none"),
    ],
)
def test_what_rabbitmq_refuses_is_refused_with_file_line_and_what_is_allowed(tmp_path, line, allowed):
    path = tmp_path / "rabbitmq.conf"
    path.write_text(f"# first\n{line}\n", encoding="utf-8")
    checked = subprocess.run(
        [os.environ["LEVERET_BIN"], "config", "check", "--config", path],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert checked.returncode == 1
    assert f"error: {path}:2: {line} is not possible; allowed is {allowed}" in checked.stdout
