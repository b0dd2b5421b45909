"""How people start the image: their commands, users, variables, files, and what their Dockerfiles do to it.

Tests with a number in their names are lines of the drop-in checklist (docs/drop-in.md), with its text.
"""

import os
import stat

import pika
import pytest

from container import RABBITMQ

COOKIE = "/var/lib/rabbitmq/.erlang.cookie"

FORMS = {
    "command: rabbitmq-server": dict(command=["rabbitmq-server"]),
    "bash -c with something beside": dict(
        command=["bash", "-c", "(rabbitmqctl await_startup && rabbitmqctl add_user second secret) & rabbitmq-server"]
    ),
    "an entry point of one's own": dict(
        entry_point=["sh", "-c", "echo first; exec docker-entrypoint.sh rabbitmq-server"], command=[]
    ),
    "sh -c that chmods the cookie": dict(command=["sh", "-c", f"chmod 400 {COOKIE}; rabbitmq-server"]),
}


@pytest.mark.parametrize("form", FORMS)
def test_13_the_entry_point_and_the_server_are_on_the_path(image, form):
    """Entrypoint `docker-entrypoint.sh`, command `rabbitmq-server`, both on PATH; `bash -c "... & rabbitmq-server"`,
    `command: rabbitmq-server`, custom entry points that end in `exec docker-entrypoint.sh rabbitmq-server` work."""
    assert image.settings.entry_point == ["docker-entrypoint.sh"]
    assert image.settings.command == ["rabbitmq-server"]
    container = image.start(**FORMS[form])
    container.connect().close()
    container.ok("rabbitmqctl", "await_startup")


def test_13_a_script_starts_the_server_in_the_background(image):
    """`rabbitmq-server -detached` works."""
    script = "rabbitmq-server -detached && rabbitmqctl wait --timeout 20 \"$RABBITMQ_PID_FILE\" && echo waited; sleep 60"
    container = image.run(command=["bash", "-c", script], environment={"RABBITMQ_PID_FILE": "/tmp/pid"})
    container.wait_for("waited")
    container.connect().close()
    assert container.ok("cat", "/tmp/pid").strip().isdigit()


def test_14_the_cookie_is_there_for_its_owner_only(container):
    """File `/var/lib/rabbitmq/.erlang.cookie` exists before the command runs, mode 0400, owner rabbitmq."""
    assert container.ok("stat", "-c", "%a %U", COOKIE) == "400 rabbitmq\n"
    container.ok("chmod", "400", COOKIE)
    assert container.ok("cat", "/root/.erlang.cookie") == container.ok("cat", COOKIE)


def test_14_the_cookie_of_the_environment_is_written(image, volume):
    """`RABBITMQ_ERLANG_COOKIE` is what the file has, on a volume of one's own too."""
    container = image.start(
        environment={"RABBITMQ_ERLANG_COOKIE": "SECRET"}, mounts=[(volume, "/var/lib/rabbitmq", "")]
    )
    assert container.ok("cat", COOKIE) == "SECRET"
    assert container.ok("stat", "-c", "%a %U", COOKIE) == "400 rabbitmq\n"


@pytest.mark.parametrize(("user", "runs_as"), [(0, RABBITMQ), (RABBITMQ, RABBITMQ), (12345, 12345)])
def test_15_it_starts_as_root_and_steps_down_as_999_and_as_anybody(image, user, runs_as):
    """User uid 999/gid 999; starts as root and steps down, starts with `--user 999`, starts with an arbitrary uid."""
    container = image.start(user=user)
    assert container.ok("id", "rabbitmq") == "uid=999(rabbitmq) gid=999(rabbitmq) groups=999(rabbitmq)\n"
    [line] = [line for line in container.ok("cat", "/proc/1/status").splitlines() if line.startswith("Uid:")]
    assert set(line.split()[1:]) == {str(runs_as)}
    # Everything that is not root's to read is still reached by whoever is inside.
    container.ok("rabbitmq-diagnostics", "-q", "ping", user=user)
    with container.connect() as connection:
        connection.channel().queue_declare("q", durable=True)


def test_15_root_gives_a_volume_to_the_user_rabbitmq(image, volume):
    """A volume that belongs to somebody else belongs to rabbitmq when the broker starts."""
    (volume / "old").write_text("")
    os.chown(volume, 4711, 4711)
    image.start(mounts=[(volume, "/var/lib/rabbitmq", "")])
    assert {path.stat().st_uid for path in [volume, volume / "old", volume / "mnesia"]} == {RABBITMQ}


# Variables

def test_23_the_configuration_file_is_named_with_and_without_extension(image, tmp_path):
    """`RABBITMQ_CONFIG_FILE` (with or without extension, `.conf` or Erlang `.config`)."""
    tmp_path.chmod(0o755)
    (tmp_path / "one.conf").write_text("default_user = conf\ndefault_pass = secret\n")
    (tmp_path / "two.config").write_text('[{rabbit, [{default_user, <<"terms">>}, {default_pass, <<"secret">>}]}].\n')
    for name, user in (("one", "conf"), ("one.conf", "conf"), ("two", "terms"), ("two.config", "terms")):
        container = image.start(
            environment={"RABBITMQ_CONFIG_FILE": f"/config/{name}"}, mounts=[(tmp_path, "/config", "ro")]
        )
        container.connect(user, "secret").close()
        assert f"/config/{name.split('.')[0]}" in container.out
        image.remove_containers()


def test_23_places_ports_and_names_come_from_the_environment(image):
    """`RABBITMQ_NODE_PORT`, `RABBITMQ_NODENAME` (also bare), `RABBITMQ_NODE_IP_ADDRESS`, `RABBITMQ_MNESIA_BASE`,
    `RABBITMQ_LOG_BASE`, `RABBITMQ_LOGS=-`, `RABBITMQ_ENABLED_PLUGINS_FILE`, `RABBITMQ_PID_FILE`."""
    container = image.start(
        environment={
            "RABBITMQ_NODE_PORT": "5673",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "bare",
            "RABBITMQ_MNESIA_BASE": "/tmp/base",
            "RABBITMQ_LOG_BASE": "/tmp/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_PID_FILE": "/tmp/broker.pid",
            "RABBITMQ_DIST_PORT": "25673",
        },
        hostname="mq",
    )
    container.connect(host="127.0.0.1", port=5673).close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        container.connect(port=5673)
    assert container.api("overview").json["node"] == "bare@mq"
    assert "/tmp/base/bare@mq" in container.out
    container.ok("test", "-d", "/tmp/base/bare@mq")
    assert container.ok("cat", "/tmp/broker.pid").strip() == "1"
    container.ok("rabbitmqctl", "list_queues", "name")
    container.ok("rabbitmqctl", "-n", "bare@mq", "list_queues", "name")
    assert container.exec("rabbitmqctl", "-n", "other@mq", "list_queues", "name").code == 69


def test_23_the_directory_of_the_data_comes_from_the_environment(image):
    """`RABBITMQ_MNESIA_DIR`."""
    container = image.start(environment={"RABBITMQ_MNESIA_DIR": "/tmp/here"})
    container.ok("test", "-d", "/tmp/here/rocksdb")


def test_23_listeners_of_the_configuration_beat_the_variable(image, tmp_path):
    """`listeners.tcp.*` in config beats `NODE_PORT`."""
    conf = tmp_path / "rabbitmq.conf"
    conf.write_text("listeners.tcp.default = 5680\n")
    container = image.start(
        environment={"RABBITMQ_NODE_PORT": "5673"}, mounts=[(conf, "/etc/rabbitmq/rabbitmq.conf", "ro")]
    )
    container.connect(port=5680).close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        container.connect(port=5673)


def test_23_an_enabled_plugins_file_that_is_not_there_means_no_plugins(image):
    """`RABBITMQ_ENABLED_PLUGINS_FILE` may name a file that does not exist, as pytest-rabbitmq does."""
    container = image.start(environment={"RABBITMQ_ENABLED_PLUGINS_FILE": "/no/such/file"})
    container.connect().close()
    with pytest.raises(OSError):
        container.api("overview")


def test_33_the_pid_file_is_where_scripts_wait_for_it(image):
    """The pid file is at `/var/lib/rabbitmq/mnesia/<node>.pid`."""
    container = image.start(hostname="mq")
    container.ok("rabbitmqctl", "wait", "/var/lib/rabbitmq/mnesia/rabbit@mq.pid", "--timeout", "10")


def test_24_arguments_for_the_virtual_machine_never_prevent_a_start(image):
    """`RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS` never prevents start; its `-app key value` pairs take effect."""
    arguments = "-rabbit consumer_timeout 1000 +S 2:2 -kernel inet_default_connect_options [{nodelay,true}] +MBas aobf"
    container = image.start(environment={"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": arguments})
    out = container.ok("rabbitmqctl", "eval", "application:get_env(rabbit, consumer_timeout).")
    assert out == "{ok,1000}\n"
    container.connect().close()


@pytest.mark.parametrize(
    "text",
    [
        "[rabbitmq_management,rabbitmq_prometheus].",
        "[ rabbitmq_management ,\n  rabbitmq_prometheus ].\n",
        "[rabbitmq_management,no_such_plugin,rabbitmq_top]. % comment\n",
    ],
)
def test_25_enabled_plugins_may_be_mounted_in_any_spacing(image, tmp_path, text):
    """`/etc/rabbitmq/enabled_plugins` (any spacing, with or without newline) may be mounted or written at run time;
    unknown names never prevent boot."""
    path = tmp_path / "enabled_plugins"
    path.write_text(text)
    container = image.start(mounts=[(path, "/etc/rabbitmq/enabled_plugins", "ro")])
    assert container.api("overview").status == 200
    container.ok("rabbitmq-plugins", "is_enabled", "rabbitmq_management")


DELAYED = "rabbitmq_delayed_message_exchange"


def test_26_plugins_are_enabled_while_an_image_is_built(image):
    """`RUN rabbitmq-plugins enable --offline a b` works without a server; every well-known plugin name is accepted,
    including `rabbitmq_delayed_message_exchange`; copied `.ez` files are ignored; an `x-delayed-message` exchange can be
    declared."""
    build = f"touch /plugins/{DELAYED}-4.3.0.ez && rabbitmq-plugins enable --offline {DELAYED} rabbitmq_shovel"
    container = image.start(
        entry_point=["sh", "-c", f"set -e; {build}; exec docker-entrypoint.sh rabbitmq-server"], command=[]
    )
    assert "Offline change; changes will take effect at broker restart." in container.out
    container.ok("rabbitmq-plugins", "is_enabled", DELAYED, "rabbitmq_management")
    listed = container.ok("cat", "/etc/rabbitmq/enabled_plugins")
    assert listed == f"[{DELAYED},rabbitmq_management,rabbitmq_prometheus,rabbitmq_shovel].\n"
    with container.connect() as connection:
        arguments = {"x-delayed-type": "direct"}
        connection.channel().exchange_declare("later", "x-delayed-message", arguments=arguments)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("x-delayed-message", {"x-delayed-type": "topic"}),
        ("x-consistent-hash", {}),
        ("x-random", {}),
        ("x-recent-history", {"x-recent-history-length": 3}),
    ],
)
def test_27_exchanges_of_common_plugins_are_built_in(container, kind, arguments):
    """Exchange features behind common plugins are built in."""
    with container.connect() as connection:
        connection.channel().exchange_declare(f"of {kind}", kind, arguments=arguments, auto_delete=True)


def test_61_derived_images_find_a_shell_bash_and_the_package_manager(container):
    """Image has a shell, `bash`, and a package manager for derived Dockerfiles."""
    for program in ("sh", "bash", "apt-get", "dpkg", "gosu"):
        container.ok("sh", "-c", f"command -v {program}")
    assert container.ok("bash", "-c", "echo $((1 + 1))") == "2\n"
    container.ok("apt-get", "--version")
    # What Dockerfiles do to files of theirs.
    container.ok("sh", "-c", "touch /etc/rabbitmq/definitions.json && chown rabbitmq:rabbitmq /etc/rabbitmq/definitions.json")
    container.ok("test", "-e", "/usr/share/zoneinfo/Europe/Berlin")


def test_62_configuration_and_root_may_be_read_only(image, tmp_path):
    """Read-only mounts of config, `tmpfs` data dir, a read-only root."""
    conf = tmp_path / "rabbitmq.conf"
    conf.write_text("heartbeat = 17\n")
    container = image.start(
        read_only=True,
        user=RABBITMQ,
        mounts=[
            (conf, "/etc/rabbitmq/rabbitmq.conf", "ro"),
            ("tmpfs", "/var/lib/rabbitmq", f"mode=0700,uid={RABBITMQ},gid={RABBITMQ}"),
            ("tmpfs", "/tmp", "mode=1777"),
        ],
    )
    assert container.exec("touch", "/etc/x").code != 0
    with container.connect() as connection:
        assert connection._impl.params.heartbeat == 17
        connection.channel().queue_declare("q", durable=True)
    container.ok("rabbitmq-diagnostics", "-q", "ping")


def test_64_hooks_of_orchestrators_are_content_with_one_node(container):
    """`rabbitmq-upgrade await_online_quorum_plus_one`, `drain`, `rabbitmq-queues rebalance all`, `enable_feature_flag
    all`: 0 on one node."""
    container.ok("rabbitmq-upgrade", "await_online_quorum_plus_one", "-t", "5")
    container.ok("rabbitmq-queues", "rebalance", "all")
    container.ok("rabbitmqctl", "enable_feature_flag", "all")
    assert container.ok("rabbitmqctl", "eval", "rabbit_nodes:reached_target_cluster_size().") == "true\n"


def test_the_administrators_socket_has_a_directory_that_only_its_user_can_write_to(container):
    assert container.ok("stat", "-c", "%a %U:%G %F", "/run/leveret") == "755 rabbitmq:rabbitmq directory\n"
    found = container.ok("sh", "-c", "ls /run/leveret").split()
    assert found == ["rabbit@4f1d3c5b7a9e.sock"]


def test_every_program_answers_by_its_name(container):
    for program in ("rabbitmqctl", "rabbitmq-diagnostics", "rabbitmq-plugins", "rabbitmq-queues", "rabbitmq-streams",
                    "rabbitmq-upgrade", "rabbitmqadmin"):
        container.ok(program, "help")
        assert container.ok("sh", "-c", f"command -v {program}") == f"/opt/rabbitmq/sbin/{program}\n"
    mode = container.ok("stat", "-L", "-c", "%a", "/opt/rabbitmq/sbin/rabbitmqctl").strip()
    assert int(mode, 8) & stat.S_IXOTH
