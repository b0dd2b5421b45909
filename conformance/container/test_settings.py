"""Files that people mount: configuration, definitions, certificates.

Tests with a number in their names are lines of the drop-in checklist (docs/drop-in.md), with its text.
"""

import json
import socket
import ssl
import subprocess

import pika
import pytest

from container import ADDRESS, COMPLETE
from files import MAIN, MORE, write
from program import eventually

# Keys of configurations that people publish, by how often they are in them.
PUBLIC_KEYS = """
listeners.tcp.default = 5672
management.tcp.port = 15672
management.tcp.ip = 0.0.0.0
vm_memory_high_watermark.relative = 0.6
vm_memory_high_watermark_paging_ratio = 0.5
disk_free_limit.absolute = 50MB
loopback_users = none
log.console = true
log.console.level = info
log.file = false
log.file.level = info
log.dir = /var/log/rabbitmq
log.default.level = info
log.connection.level = info
heartbeat = 60
default_user_tags.administrator = true
default_permissions.configure = .*
default_permissions.read = .*
default_permissions.write = .*
channel_max = 2047
frame_max = 131072
max_message_size = 16777216
consumer_timeout = 1800000
cluster_name = mq
cluster_formation.peer_discovery_backend = classic_config
cluster_formation.classic_config.nodes.1 = rabbit@mq
cluster_partition_handling = ignore
queue_master_locator = client-local
queue_leader_locator = balanced
default_queue_type = classic
management.rates_mode = basic
management.http_log_dir = /tmp/http
management.login_session_timeout = 60
management.db_cache_multiplier = 5
management.sample_retention_policies.global.minute = 5
management.disable_stats = false
prometheus.tcp.port = 15692
prometheus.tcp.ip = 0.0.0.0
prometheus.path = /metrics
prometheus.return_per_object_metrics = false
collect_statistics = coarse
collect_statistics_interval = 5000
tcp_listen_options.backlog = 128
tcp_listen_options.nodelay = true
tcp_listen_options.keepalive = true
tcp_listen_options.linger.on = true
tcp_listen_options.linger.timeout = 0
num_acceptors.tcp = 10
handshake_timeout = 10000
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
auth_backends.1 = internal
password_hashing_module = rabbit_password_hashing_sha256
deprecated_features.permit.management_metrics_collection = true
vhost_max = 100
stream.listeners.tcp.1 = 5552
mqtt.listeners.tcp.default = 1883
stomp.listeners.tcp.1 = 61613
quorum_queue.property_equivalence.relaxed_checks_on_redeclaration = true
raft.segment_max_entries = 32768
classic_queue.default_version = 2
vm_memory_calculation_strategy = rss
reverse_dns_lookups = false
proxy_protocol = false
net_ticktime = 60
mnesia_table_loading_retry_timeout = 30000
mnesia_table_loading_retry_limit = 10
hipe_compile = false
mirroring_sync_batch_size = 4096
delegate_count = 16
background_gc_enabled = false
log.exchange = false
log.console.formatter = plaintext
log.file.rotation.date = $D0
""".strip()


def test_16_public_configurations_are_read_without_a_word(image, tmp_path):
    """`/etc/rabbitmq/rabbitmq.conf` and `conf.d/*.conf`: the ranked keys honoured, known-but-irrelevant keys accepted
    silently."""
    container = image.start(mounts=[(write(tmp_path / "rabbitmq.conf", PUBLIC_KEYS), MAIN, "ro")])
    complaints = [line for line in container.log.splitlines() if "[warning]" in line]
    assert not complaints, complaints
    assert container.api("cluster-name").json["name"] == "mq"


def test_16_later_lines_and_files_win_and_unknown_keys_warn(image, tmp_path):
    """Read in order, later wins; unknown keys warn instead of failing."""
    container = image.start(
        mounts=[
            (write(tmp_path / "main", "heartbeat = 11\nheartbeat = 12\nchannel_max = 7\nhartbeat = 1\n"), MAIN, "ro"),
            (write(tmp_path / "a", "heartbeat = 13\n"), f"{MORE}/20-a.conf", "ro"),
            (write(tmp_path / "b", "heartbeat = 14 # the last\n"), f"{MORE}/30-b.conf", "ro"),
        ]
    )
    with container.connect() as connection:
        assert connection._impl.params.heartbeat == 14
        assert connection._impl.params.channel_max == 7
    [complaint] = [line for line in container.out.splitlines() if "hartbeat" in line]
    assert "[warning]" in complaint and "heartbeat" in complaint.replace("hartbeat", "")


def test_17_without_the_images_defaults_guest_is_local_again(image, tmp_path):
    """Image defaults come from `conf.d/10-defaults.conf`, so mounting over `conf.d` makes guest loopback-only again."""
    empty = tmp_path / "conf.d"
    empty.mkdir()
    container = image.start(mounts=[(empty, MORE, "")])
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        container.connect()
    container.connect(host="127.0.0.1").close()
    assert container.api("overview").status == 401
    assert container.api("overview", host="127.0.0.1").status == 200


DEFINITIONS = {
    "users": [{"name": "file", "password": "secret", "tags": "administrator"}],
    "vhosts": [{"name": "jobs"}],
    "permissions": [{"user": "file", "vhost": "jobs", "configure": ".*", "write": ".*", "read": ".*"}],
    "queues": [{"name": "work", "vhost": "jobs", "durable": True, "auto_delete": False, "arguments": {}}],
}
PLACE = "/etc/rabbitmq/definitions.json"
SAYS_WHERE = {
    "load_definitions": ("conf", f"load_definitions = {PLACE}"),
    "management.load_definitions": ("conf", f"management.load_definitions = {PLACE}"),
    "definitions.local.path": (
        "conf",
        f"definitions.import_backend = local_filesystem\ndefinitions.local.path = {PLACE}",
    ),
    "Erlang terms": ("terms", f'[{{rabbitmq_management, [{{load_definitions, "{PLACE}"}}]}}].'),
    "arguments of the virtual machine": ("variable", f'-rabbitmq_management load_definitions "{PLACE}"'),
}


@pytest.mark.parametrize("how", SAYS_WHERE)
def test_18_definitions_are_there_before_anybody_is_let_in(image, tmp_path, how):
    """`load_definitions` and `management.load_definitions` (conf, Erlang terms, ERL args) import before listeners open;
    then no default user/vhost is seeded and the `DEFAULT_*` variables are ignored."""
    kind, text = SAYS_WHERE[how]
    environment = {"RABBITMQ_DEFAULT_USER": "ignored", "RABBITMQ_DEFAULT_PASS": "ignored"}
    mounts = [(write(tmp_path / "definitions", json.dumps(DEFINITIONS)), PLACE, "ro")]
    if kind == "conf":
        mounts.append((write(tmp_path / "conf", text), MAIN, "ro"))
    elif kind == "terms":
        mounts.append((write(tmp_path / "terms", text), "/etc/rabbitmq/advanced.config", "ro"))
    else:
        environment["RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS"] = text
    container = image.start(mounts=mounts, environment=environment)
    with container.connect("file", "secret", "jobs") as connection:
        connection.channel().queue_declare("work", passive=True)
    for nobody in ("guest", "ignored"):
        with pytest.raises(pika.exceptions.ProbableAuthenticationError):
            container.connect(nobody, nobody, "jobs")
    assert container.ok("rabbitmqctl", "-q", "list_vhosts") == "name\njobs\n"


@pytest.mark.parametrize(
    "text",
    [None, "{", '{"permissions": [{"user": "x", "vhost": "nowhere", "configure": "", "write": "", "read": ""}]}'],
    ids=["missing", "no JSON", "impossible"],
)
def test_19_definitions_that_cannot_be_applied_fail_the_boot(image, tmp_path, text):
    """Missing or broken definitions file: exit 1, stderr `BOOT FAILED` + reason."""
    mounts = [(write(tmp_path / "conf", f"load_definitions = {PLACE}"), MAIN, "ro")]
    if text is not None:
        mounts.append((write(tmp_path / "definitions", text), PLACE, "ro"))
    container = image.run(mounts=mounts)
    assert container.ended() == 1
    assert "BOOT FAILED" in container.err and PLACE in container.err, container.err
    assert COMPLETE not in container.log


def test_21_policies_that_mirrored_queues_are_no_reason_not_to_start(image, tmp_path):
    """Policies with 3.x mirroring keys are accepted and ignored, in import, API and CLI."""
    mirrored = {"ha-mode": "all", "ha-sync-mode": "automatic", "max-length": 2}
    definitions = DEFINITIONS | {
        "policies": [{"vhost": "jobs", "name": "ha-all", "pattern": ".*", "apply-to": "all", "definition": mirrored}]
    }
    container = image.start(
        mounts=[
            (write(tmp_path / "definitions", json.dumps(definitions)), PLACE, "ro"),
            (write(tmp_path / "conf", f"load_definitions = {PLACE}"), MAIN, "ro"),
        ]
    )
    policy = {"pattern": "^x", "definition": {"ha-mode": "exactly", "ha-params": 2}}
    assert container.api("policies/jobs/by-api", "file", "secret", "PUT", policy).status == 201
    container.ok("rabbitmqctl", "set_policy", "-p", "jobs", "by-cli", "^x", '{"ha-mode":"nodes","ha-params":["a@b"]}')
    found = {each["name"]: each["definition"] for each in container.api("policies/jobs", "file", "secret").json}
    assert found["ha-all"] == mirrored
    assert found["by-api"] == policy["definition"]
    assert found["by-cli"] == {"ha-mode": "nodes", "ha-params": ["a@b"]}
    queue = container.api("queues/jobs/work", "file", "secret").json
    assert queue["policy"] == "ha-all" and queue["effective_policy_definition"]["max-length"] == 2


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A CA, a server's certificate and a client's."""
    directory = tmp_path_factory.mktemp("certificates")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)

    openssl(*"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem".split())
    for name in ("server", "client"):
        openssl(*f"req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr".split())
        (directory / "names").write_text(f"subjectAltName=IP:{ADDRESS},DNS:{name}\n")
        openssl(*f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out {name}.pem".split())
    for path in directory.iterdir():
        path.chmod(0o644)
    directory.chmod(0o755)
    return directory


def tls(certificates, client=False):
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    if client:
        context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    return pika.SSLOptions(context, ADDRESS)


TLS_CONF = """
listeners.tcp = none
listeners.ssl.default = 5671
ssl_options.cacertfile = /certificates/ca.pem
ssl_options.certfile = /certificates/server.pem
ssl_options.keyfile = /certificates/server.key
ssl_options.verify = verify_peer
ssl_options.fail_if_no_peer_cert = true
management.ssl.port = 15671
management.ssl.cacertfile = /certificates/ca.pem
management.ssl.certfile = /certificates/server.pem
management.ssl.keyfile = /certificates/server.key
"""


def test_28_tls_by_configuration(image, tmp_path, certificates):
    """TLS by `listeners.ssl.default` + `ssl_options.*`; log line `started TLS (SSL) listener on [::]:5671`;
    `verify_peer` + `fail_if_no_peer_cert` enforced; management over 15671."""
    container = image.start(
        mounts=[(certificates, "/certificates", "ro"), (write(tmp_path / "conf", TLS_CONF), MAIN, "ro")]
    )
    assert "started TLS (SSL) listener on [::]:5671" in container.out
    container.connect(port=5671, ssl_options=tls(certificates, client=True)).close()
    with pytest.raises((pika.exceptions.AMQPError, ssl.SSLError)):
        container.connect(port=5671, ssl_options=tls(certificates))
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        container.connect(port=5672)
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    context.load_cert_chain(certificates / "client.pem", certificates / "client.key")
    with container.network():
        plain = socket.create_connection((ADDRESS, 15671), timeout=10)
    with context.wrap_socket(plain, server_hostname=ADDRESS) as encrypted:
        encrypted.sendall(b"GET /api/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert encrypted.recv(4096).startswith(b"HTTP/1.1 200")


def test_29_variables_that_the_official_image_no_longer_takes_work(image, tmp_path, certificates):
    """Deprecated env (`RABBITMQ_SSL_*`, `RABBITMQ_DEFAULT_USER_FILE/_PASS_FILE`,
    `RABBITMQ_VM_MEMORY_HIGH_WATERMARK`) works instead of exit 1."""
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    write(secrets / "user", "app")
    write(secrets / "pass", "s3cret")
    container = image.start(
        mounts=[(certificates, "/certificates", "ro"), (secrets, "/run/secrets", "ro")],
        environment={
            "RABBITMQ_SSL_CACERTFILE": "/certificates/ca.pem",
            "RABBITMQ_SSL_CERTFILE": "/certificates/server.pem",
            "RABBITMQ_SSL_KEYFILE": "/certificates/server.key",
            "RABBITMQ_SSL_VERIFY": "verify_peer",
            "RABBITMQ_SSL_FAIL_IF_NO_PEER_CERT": "true",
            "RABBITMQ_SSL_DEPTH": "2",
            "RABBITMQ_DEFAULT_USER_FILE": "/run/secrets/user",
            "RABBITMQ_DEFAULT_PASS_FILE": "/run/secrets/pass",
            "RABBITMQ_VM_MEMORY_HIGH_WATERMARK": "0.25",
        },
    )
    container.connect("app", "s3cret", port=5671, ssl_options=tls(certificates, client=True)).close()
    with pytest.raises((pika.exceptions.AMQPError, ssl.SSLError)):
        container.connect("app", "s3cret", port=5671, ssl_options=tls(certificates))
    status = json.loads(container.ok("rabbitmqctl", "status", "--formatter", "json"))
    assert status["vm_memory_high_watermark_setting"] == {"relative": 0.25}


@pytest.mark.parametrize(
    ("line", "resource"),
    [("disk_free_limit.absolute = 100TB", "disk"), ("vm_memory_high_watermark.absolute = 1000", "memory")],
)
def test_30_a_limit_above_what_there_is_blocks_publishers_and_shows(image, tmp_path, line, resource):
    """Alarms from `vm_memory_high_watermark.*` and `disk_free_limit.*` block publishers (`connection.blocked`) and show
    in API, CLI, metrics."""
    container = image.start(mounts=[(write(tmp_path / "conf", line), MAIN, "ro")])
    blocked = []
    connection = container.connect()
    connection.add_on_connection_blocked_callback(lambda _, method: blocked.append(method.method.reason))

    def is_blocked():
        connection.process_data_events(0.05)
        return blocked

    connection.channel().basic_publish("", "nowhere", b"")
    eventually(is_blocked, "connection.blocked", container)
    assert blocked == [f"low on {resource}"]
    assert container.api("health/checks/alarms").status == 503
    [alarm] = container.api("health/checks/alarms").json["alarms"]
    assert alarm["resource"] == resource
    ran = container.exec("rabbitmq-diagnostics", "-q", "check_alarms")
    words = {"disk": "Free disk space alarm on node ", "memory": "Memory alarm on node "}
    assert ran.code == 69 and ran.err.startswith(words[resource]), ran
    metric = {"disk": "rabbitmq_alarms_free_disk_space_watermark", "memory": "rabbitmq_alarms_memory_used_watermark"}
    assert f"{metric[resource]} 1" in container.page("/metrics", port=15692)[1]


def test_66_variables_in_the_configuration_and_units_of_sizes(image, tmp_path):
    """`$(VAR)` interpolation in rabbitmq.conf, size units incl. the 1000/1024 rule."""
    text = "default_user = $(APP_USER)\ndefault_pass = $(APP_PASS)\ndisk_free_limit.absolute = 3MiB\n"
    container = image.start(
        mounts=[(write(tmp_path / "conf", text), MAIN, "ro")], environment={"APP_USER": "app", "APP_PASS": "s3cret"}
    )
    container.connect("app", "s3cret").close()
    [node] = container.api("nodes", "app", "s3cret").json
    assert node["disk_free_limit"] == 3 << 20
    assert node["config_files"] == ["/etc/rabbitmq/rabbitmq.conf", "/etc/rabbitmq/conf.d/10-defaults.conf"]
    assert node["log_files"] == ["<stdout>"]
