"""What those wait for who start a container and then use it: lines of the log, health checks, logins, the end.

Tests with a number in their names are lines of the drop-in checklist (docs/drop-in.md), with its text.
"""

import contextlib
import re
import socket
import threading
import time

import pika
import pytest

from container import ADDRESS, COMPLETE, RABBITMQ

PING = ("rabbitmq-diagnostics", "-q", "ping")

# What health checks of containers call.
CHECKS = [
    "rabbitmq-diagnostics -q ping",
    "rabbitmq-diagnostics ping",
    "rabbitmq-diagnostics check_port_connectivity",
    "rabbitmq-diagnostics -q check_port_connectivity",
    "rabbitmq-diagnostics check_running",
    "rabbitmq-diagnostics -q check_running",
    "rabbitmq-diagnostics -q check_local_alarms",
    "rabbitmq-diagnostics check_virtual_hosts",
    "rabbitmq-diagnostics -q is_running",
    "rabbitmq-diagnostics -q status",
    "rabbitmqctl status",
    "rabbitmqctl ping",
    "rabbitmqctl node_health_check",
]


def test_01_the_line_of_the_start_comes_once_on_stdout_after_every_listener_accepts(image):
    """stdout prints `Server startup complete; N plugins started.` exactly once, after every listener accepts, each
    boot."""
    for _ in range(2):
        container = image.run()
        pid = container.pid
        container.wait_for(COMPLETE)
        with container.network():
            for port in (5672, 15672, 15692):
                # At the first try.
                socket.create_connection((ADDRESS, port), timeout=5).close()
        assert container.pid == pid
        found = re.findall(r"Server startup complete; \d+ plugins started\.$", container.out, re.MULTILINE)
        assert len(found) == 1, container.log
        assert COMPLETE not in container.err


def test_02_the_line_comes_early(image):
    """The line comes early: cold start under 2 s."""
    container = image.start()
    [moment] = [moment for moment, line in container.stdout if COMPLETE in line]
    assert moment - container.began < 2


def test_03_ping_is_0_when_up_and_69_when_down_in_less_than_300_ms(image):
    """`rabbitmq-diagnostics -q ping` exits 0 when up, 69 when down; < 300 ms."""
    container = image.run(command=["sleep", "60"])
    assert container.exec(*PING).code == 69
    container = image.start()
    container.ok(*PING)
    # The best of three, since the machine may be busy with something else.
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        assert container.ok(*PING) == "Ping succeeded\n"
        seconds.append(time.monotonic() - began)
    assert min(seconds) < 0.3, seconds


@pytest.mark.parametrize("check", CHECKS)
def test_04_health_checks_of_every_form_and_user(container, check):
    """`ping`, `check_port_connectivity`, `check_running`, `check_local_alarms`, `check_virtual_hosts`, `is_running`,
    `status`, `node_health_check` in the forms CMD and CMD-SHELL, as root, with gosu, as the user rabbitmq."""
    container.ok(*check.split())
    for line in (check, f"gosu rabbitmq {check}", f"{check} || exit 1"):
        ran = container.shell(line)
        assert ran.code == 0, (line, ran)
    container.ok(*check.split(), user=RABBITMQ)


def test_04_check_running_is_not_zero_before_the_boot_ends(image, tmp_path):
    """`check_running` is non-zero before boot ends."""
    # A boot that does not end before it is told to: it reads its definitions from a pipe.
    script = "mkfifo /tmp/definitions && chown rabbitmq /tmp/definitions && exec docker-entrypoint.sh rabbitmq-server"
    container = image.run(
        entry_point=["sh", "-c", script],
        command=[],
        environment={"LEVERET_DEFINITIONS": "/tmp/definitions"},
    )
    container.wait_for("data dir")
    ran = container.exec("rabbitmq-diagnostics", "check_running")
    assert ran.code == 69, ran
    assert container.exec(*PING).code == 0
    container.ok("sh", "-c", "echo '{}' >/tmp/definitions")
    container.started()
    container.ok("rabbitmq-diagnostics", "check_running")


def test_05_the_default_user_of_the_environment_is_the_administrator_and_guest_is_nobody(image):
    """`RABBITMQ_DEFAULT_USER`/`_PASS` seed an administrator with `.*` permissions; `guest` then does not exist."""
    container = image.start(environment={"RABBITMQ_DEFAULT_USER": "app", "RABBITMQ_DEFAULT_PASS": "s3cret"})
    with container.connect("app", "s3cret") as connection:
        connection.channel().queue_declare("q")
    assert container.api("whoami", "app", "s3cret").json["tags"] == ["administrator"]
    found = container.api("users/app/permissions", "app", "s3cret").json
    assert found == [{"user": "app", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}]
    with pytest.raises(pika.exceptions.ProbableAuthenticationError, match="403"):
        container.connect()
    assert container.api("whoami").status == 401
    assert [each["name"] for each in container.api("users", "app", "s3cret").json] == ["app"]


def test_06_without_environment_guest_may_come_from_any_address(container):
    """No environment: guest/guest works from any address."""
    for host in (ADDRESS, "127.0.0.1"):
        container.connect(host=host).close()
        assert container.api("overview", host=host).status == 200


def test_07_the_default_vhost_of_the_environment_is_the_only_one(image):
    """`RABBITMQ_DEFAULT_VHOST=app`: vhost `app` exists, `/` does not."""
    container = image.start(environment={"RABBITMQ_DEFAULT_VHOST": "app"})
    assert container.ok("rabbitmqctl", "-q", "list_vhosts") == "name\napp\n"
    container.connect(vhost="app").close()
    with pytest.raises(pika.exceptions.AMQPError) as closed:
        container.connect(vhost="/")
    assert "530" in str(closed.value) and "vhost / not found" in str(closed.value)


def test_09_the_api_and_its_first_page_answer_on_15672(container):
    """Management HTTP answers on 15672: `/` is 200 HTML, `/api/overview` with a login 200."""
    kind, page = container.page("/")
    assert kind == "text/html" and page
    assert container.api("overview").status == 200


def test_10_the_version_is_three_numbers_and_the_same_everywhere(container):
    """Server-properties: `product: RabbitMQ`, `version` three dotted integers, 4.x, no suffix; same value in
    `overview.rabbitmq_version`, `rabbitmqctl version`, `/api/version`, Prometheus `rabbitmq_build_info`."""
    with container.connect() as connection:
        properties = connection._impl.server_properties
    assert properties["product"] == "RabbitMQ"
    version = properties["version"]
    assert re.fullmatch(r"4\.\d+\.\d+", version)
    assert container.api("overview").json["rabbitmq_version"] == version
    assert container.ok("rabbitmqctl", "version") == f"{version}\n"
    assert container.api("version").json == version
    _, metrics = container.page("/metrics", port=15692)
    assert f'rabbitmq_version="{version}"' in metrics
    assert container.environment["RABBITMQ_VERSION"] == version


def test_11_sigterm_ends_process_1_with_0_within_a_second_and_tells_clients(image, volume):
    """SIGTERM: exit 0 within 1 s; clients told 320 `CONNECTION_FORCED`; data flushed."""
    container = image.start(mounts=[(volume, "/var/lib/rabbitmq", "")], environment={"RABBITMQ_NODENAME": "rabbit@fixed"})
    connection = container.connect()
    channel = connection.channel()
    channel.queue_declare("kept", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "kept", b"kept", pika.BasicProperties(delivery_mode=2))
    # The client answers while it waits.
    ended = []
    stopping = threading.Thread(target=lambda: ended.append(container.stop()))
    stopping.start()
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(1)
    stopping.join()
    assert closed.value.reply_code == 320
    assert closed.value.reply_text.startswith("CONNECTION_FORCED")
    [(code, seconds)] = ended
    assert code == 0 and seconds < 1, (code, seconds)
    assert "SIGTERM received - shutting down" in container.log


def test_11_sigterm_ends_process_1_with_0_while_it_starts(image):
    """SIGTERM: exit 0 within 1 s; also before the boot ends."""
    script = "mkfifo /tmp/definitions && chown rabbitmq /tmp/definitions && exec docker-entrypoint.sh rabbitmq-server"
    container = image.run(
        entry_point=["sh", "-c", script], command=[], environment={"LEVERET_DEFINITIONS": "/tmp/definitions"}
    )
    container.wait_for("made a new store")
    code, seconds = container.stop()
    assert code == 0 and seconds < 1, (code, seconds)
    assert COMPLETE not in container.log


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (dict(hostname="mq"), dict(hostname="mq")),
        (
            dict(hostname="4f1d3c5b7a9e", environment={"RABBITMQ_NODENAME": "rabbit@fixed"}),
            dict(hostname="0c9b8a7d6e5f", environment={"RABBITMQ_NODENAME": "rabbit@fixed"}),
        ),
        (dict(hostname="4f1d3c5b7a9e"), dict(hostname="0c9b8a7d6e5f")),
    ],
    ids=["the same hostname", "the same RABBITMQ_NODENAME", "a changed hostname"],
)
def test_12_durable_things_survive_with_the_volume_and(image, volume, before, after):
    """Durable objects and persistent messages survive stop/start with the same volume at `/var/lib/rabbitmq` and the
    same hostname or `RABBITMQ_NODENAME`; also with a changed hostname."""
    mounts = [(volume, "/var/lib/rabbitmq", "")]
    container = image.start(mounts=mounts, **before)
    with container.connect() as connection:
        channel = connection.channel()
        channel.exchange_declare("events", "topic", durable=True)
        channel.queue_declare("kept", durable=True)
        channel.queue_bind("kept", "events", "#")
        channel.confirm_delivery()
        channel.basic_publish("events", "a", b"kept", pika.BasicProperties(delivery_mode=2))
    assert container.stop()[0] == 0
    container = image.start(mounts=mounts, **after)
    with container.connect() as connection:
        _, properties, body = connection.channel().basic_get("kept")
        assert (properties.delivery_mode, body) == (2, b"kept")
        connection.channel().exchange_declare("events", passive=True)


def test_63_a_probe_that_says_nothing_leaves_no_error_and_nothing_open(container):
    """TCP probe on 5672 (connect, close without bytes) causes no error-level log or leak."""
    descriptors = lambda: int(container.ok("sh", "-c", "ls /proc/1/fd | wc -l"))  # noqa: E731
    before = descriptors()
    with container.network():
        for _ in range(1000):
            socket.create_connection((ADDRESS, 5672), timeout=5).close()
    container.connect().close()
    deadline = time.monotonic() + 10
    while descriptors() > before and time.monotonic() < deadline:
        time.sleep(0.02)
    assert descriptors() <= before
    wrong = [line for line in container.log.splitlines() if re.search(r"error|warn", line, re.IGNORECASE)]
    assert not wrong, wrong[:3]


def test_65_the_log_has_what_scripts_look_for(image, tmp_path):
    """Startup log has `config file(s) : <path>`; `debug` appears when the level is debug; `BOOT FAILED` on failure."""
    container = image.start(environment={"RABBITMQ_LOG": "debug"})
    assert " config file(s) : /etc/rabbitmq/conf.d/10-defaults.conf" in container.out
    with contextlib.closing(container.connect()):
        assert "debug" in container.log.lower()
    bad = tmp_path / "rabbitmq.conf"
    bad.write_text("heartbeat = soon\n")
    container = image.run(mounts=[(bad, "/etc/rabbitmq/rabbitmq.conf", "ro")])
    assert container.ended() == 1
    assert "BOOT FAILED" in container.err
