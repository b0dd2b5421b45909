"""What people publish around RabbitMQ's image: compose files, Dockerfiles, scripts, charts, services of CI.

Each test is a kind that many of them have in common, with names and values of its own; docs/drop-in.md lists the kinds.
"""

import json
import os
import signal
import socket
import time

import pika
import pytest

from container import ADDRESS, RABBITMQ
from files import COOKIE, DATA, DEFINITIONS, ETC, MAIN, MORE, PLUGINS, write

# Each is one line, for a shell. Those of a single program are in test_start.py, in the form of a list too.
HEALTH_CHECKS = {
    "two checks in a row": "rabbitmq-diagnostics -q check_running && rabbitmq-diagnostics -q check_local_alarms",
    "the port alone": "rabbitmq-diagnostics -q check_port_listener 5672",
    "the protocol": "rabbitmq-diagnostics -q check_protocol_listener amqp",
    "no alarm": "rabbitmq-diagnostics -q check_alarms",
    "listeners, searched": "rabbitmq-diagnostics -q listeners | grep -q 5672",
    "a time limit": "rabbitmq-diagnostics -q ping --timeout 5",
    "a time limit, short": "rabbitmq-diagnostics ping -t 5",
    "the node by name": "rabbitmq-diagnostics -q ping -n rabbit@$(hostname)",
    "the node by name, long": "rabbitmqctl --node rabbit@$HOSTNAME status",
    "with its place": "/opt/rabbitmq/sbin/rabbitmqctl ping",
    "the cluster": "rabbitmqctl cluster_status",
    "nodes online": "rabbitmqctl await_online_nodes 1 --timeout 2",
    "the start": "rabbitmqctl await_startup --timeout 5",
    "lists": "rabbitmqctl list_queues && rabbitmqctl list_vhosts -q | grep -q '^/$'",
    "a user": "rabbitmqctl list_users -s | grep -q guest",
    "a password": "rabbitmqctl authenticate_user guest guest",
    "the status, searched": "rabbitmqctl status | grep -q 'RabbitMQ version'",
    "another user's": "su-exec rabbitmq rabbitmq-diagnostics -q ping",
    "rabbitmqadmin": "rabbitmqadmin list queues",
    "rabbitmqadmin, with its place": "/usr/local/bin/rabbitmqadmin -u guest -p guest list nodes",
    "the port, by netcat": "nc -z localhost 5672",
    "the port, by netcat that tells": "nc -zv 127.0.0.1 15672",
    "the port, by bash": "timeout 2 bash -c '</dev/tcp/localhost/5672'",
    "a page": "wget -q --spider http://localhost:15672",
    "a page, once": "wget --no-verbose --tries=1 --spider http://127.0.0.1:15672/ || exit 1",
    "the API": "wget -qO- --user=guest --password=guest http://localhost:15672/api/health/checks/alarms",
    "the API as before": "wget -qO- --user=guest --password=guest http://localhost:15672/api/aliveness-test/%2F",
    "metrics": "wget -qO- http://localhost:15692/metrics | grep -q rabbitmq_identity_info",
}


@pytest.mark.parametrize("check", HEALTH_CHECKS)
def test_a_health_check_is_good_while_the_broker_serves(container, check):
    ran = container.shell(HEALTH_CHECKS[check])
    assert ran.code == 0, ran


@pytest.mark.parametrize("check", HEALTH_CHECKS)
def test_a_health_check_is_bad_while_nobody_serves(image, check):
    container = image.run(command=["sleep", "60"])
    assert container.shell(HEALTH_CHECKS[check]).code != 0


# The service in a compose file.


def test_a_probe_that_waits_for_a_word_is_not_hung_up_on(container):
    """Readiness checks of frameworks connect to each port, read for a moment and take an end for a failure."""
    for port in (5672, 15672, 15692):
        with container.network():
            probe = socket.create_connection((ADDRESS, port), timeout=5)
        with probe:
            probe.settimeout(0.3)
            with pytest.raises(TimeoutError):
                probe.recv(1)


def test_data_mounted_over_mnesia_alone_survive(image, volume):
    mounts = [(volume, f"{DATA}/mnesia", "")]
    container = image.start(mounts=mounts, hostname="mq")
    with container.connect() as connection:
        connection.channel().queue_declare("kept", durable=True)
    assert container.stop()[0] == 0
    container = image.start(mounts=mounts, hostname="mq")
    with container.connect() as connection:
        connection.channel().queue_declare("kept", passive=True)


def test_a_name_with_a_dot_is_whole_where_long_names_are_asked_for(image):
    container = image.start(hostname="mq.example.org", environment={"RABBITMQ_USE_LONGNAME": "true"})
    container.ok("rabbitmq-diagnostics", "-q", "ping")
    container.ok("rabbitmqctl", "-n", "rabbit@mq.example.org", "status")
    assert container.api("overview").json["node"] == "rabbit@mq.example.org"


def test_a_name_with_a_dot_needs_nothing_else(image):
    container = image.start(hostname="mq.example.org")
    container.ok("rabbitmq-diagnostics", "-q", "ping")


def test_a_node_of_localhost_is_found(image):
    container = image.start(environment={"RABBITMQ_NODENAME": "jobs@localhost"}, hostname="4f1d3c5b7a9e")
    container.ok("rabbitmqctl", "status")
    container.ok("rabbitmqctl", "wait", f"{DATA}/mnesia/jobs@localhost.pid", "--timeout", "10")


@pytest.mark.parametrize(
    ("user", "password"), [("Ärger & Söhne", "pä$$'\"\\ wörd"), ("a@b.c", "p:/?#[]@!%2F"), ("app", " a ")]
)
def test_any_characters_make_a_user_and_a_password(image, user, password):
    container = image.start(environment={"RABBITMQ_DEFAULT_USER": user, "RABBITMQ_DEFAULT_PASS": password})
    container.connect(user, password).close()
    container.ok("rabbitmqctl", "authenticate_user", user, password)


def test_a_log_in_a_file_is_on_the_console_as_well(image):
    """As in RabbitMQ's image, whose defaults switch the console on."""
    path = "/var/log/rabbitmq/broker.log"
    container = image.start(environment={"RABBITMQ_LOGS": path}, mounts=[("tmpfs", "/var/log/rabbitmq", "mode=1777")])
    assert "Server startup complete" in container.out
    assert "Server startup complete" in container.ok("cat", path)


def test_files_that_only_root_could_give_away_keep_no_broker_from_starting(image, tmp_path, volume):
    """A cookie mounted read-only into the data belongs to somebody else and stays so."""
    cookie = write(tmp_path / "cookie", "SECRET")
    cookie.chmod(0o400)
    os.chown(cookie, 4711, 4711)
    container = image.start(mounts=[(volume, DATA, ""), (cookie, COOKIE, "ro")])
    assert container.ok("stat", "-c", "%u", COOKIE) == "4711\n"
    container.ok("rabbitmq-diagnostics", "-q", "ping")


def test_the_whole_of_etc_may_be_mounted(image, tmp_path):
    """Then nothing of the image's defaults is left: guest is local, and only what is listed is enabled."""
    etc = tmp_path / "etc"
    etc.mkdir(mode=0o755)
    write(etc / "rabbitmq.conf", "default_user = app\ndefault_pass = secret\nheartbeat = 23\n")
    write(etc / "enabled_plugins", "[rabbitmq_management].")
    container = image.start(mounts=[(etc, ETC, "ro")])
    with container.connect("app", "secret") as connection:
        assert connection._impl.params.heartbeat == 23
    assert container.api("overview", "app", "secret").status == 200
    container.ok("rabbitmq-diagnostics", "-q", "ping")


def test_secrets_are_files_that_the_configuration_names(image, tmp_path):
    definitions = {
        "users": [{"name": "app", "password": "secret", "tags": ["administrator"]}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "app", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    }
    container = image.start(
        mounts=[
            (write(tmp_path / "definitions", json.dumps(definitions)), "/run/secrets/definitions", "ro"),
            (write(tmp_path / "conf", "load_definitions=/run/secrets/definitions"), f"{MORE}/20-app.conf", "ro"),
        ]
    )
    container.connect("app", "secret").close()


def test_a_file_of_the_shell_names_node_and_ports(image, tmp_path):
    text = "NODENAME=jobs@localhost\nNODE_PORT=5673\nexport RABBITMQ_CONFIG_FILE=/etc/rabbitmq/other\n"
    container = image.start(
        mounts=[
            (write(tmp_path / "env", text), f"{ETC}/rabbitmq-env.conf", "ro"),
            (write(tmp_path / "other", "heartbeat = 19\n"), f"{ETC}/other.conf", "ro"),
        ]
    )
    with container.connect(port=5673) as connection:
        assert connection._impl.params.heartbeat == 19
    assert container.api("overview").json["node"] == "jobs@localhost"


def test_files_with_the_ends_of_line_of_windows_are_read(image, tmp_path):
    conf = tmp_path / "conf"
    conf.write_bytes(b"# checked out on Windows\r\nheartbeat = 22\r\n\r\nload_definitions = " + DEFINITIONS.encode() + b"\r\n")
    definitions = tmp_path / "definitions"
    definitions.write_bytes(b'{\r\n  "vhosts": [{"name": "jobs"}],\r\n  "users": []\r\n}\r\n')
    plugins = tmp_path / "plugins"
    plugins.write_bytes(b"[rabbitmq_management].\r\n")
    container = image.start(
        mounts=[(conf, MAIN, "ro"), (definitions, DEFINITIONS, "ro"), (plugins, PLUGINS, "ro")],
    )
    assert container.ok("rabbitmqctl", "-q", "list_vhosts") == "name\njobs\n"
    assert "[warning]" not in container.log


def test_what_the_broker_may_not_read_is_told(image, tmp_path):
    conf = write(tmp_path / "conf", "heartbeat = 19\n")
    conf.chmod(0o600)
    container = image.run(mounts=[(conf, MAIN, "ro")])
    assert container.ended() == 1
    assert MAIN in container.err and "denied" in container.err.lower(), container.err


def test_stopping_it_from_inside_ends_the_container_with_0(image):
    container = image.start()
    # The command itself ends with the container.
    container.exec("rabbitmqctl", "stop")
    assert container.ended() == 0


def test_a_cluster_name_shows(image, tmp_path):
    container = image.start(mounts=[(write(tmp_path / "conf", "cluster_name = jobs"), MAIN, "ro")])
    assert "Cluster name: jobs" in container.ok("rabbitmqctl", "cluster_status")


def test_a_machine_without_ipv6_is_served(image):
    off = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; exec docker-entrypoint.sh rabbitmq-server"
    container = image.start(entry_point=["sh", "-c", off], command=[])
    container.connect().close()
    assert container.api("overview").status == 200
    container.ok("rabbitmq-diagnostics", "-q", "check_port_connectivity")


def test_data_that_the_broker_may_not_write_end_the_start_in_words(image, volume):
    os.chown(volume, 4711, 4711)
    volume.chmod(0o755)
    container = image.run(user=RABBITMQ, mounts=[(volume, DATA, "")])
    assert container.ended() == 1
    assert "BOOT FAILED" in container.err and f"{DATA}/mnesia" in container.err, container.err
    assert "denied" in container.err


def test_an_interrupt_stops_it_as_the_signal_of_an_engine_does(image):
    """Of a container that runs in a terminal."""
    container = image.start()
    os.kill(container.pid, signal.SIGINT)
    assert container.ended() == 0


# Scripts around the server.


def script(tmp_path, text):
    path = write(tmp_path / "init.sh", text)
    path.chmod(0o755)
    return [(path, "/init.sh", "ro")]


ADD_A_USER = """
rabbitmqctl add_user app secret
rabbitmqctl set_user_tags app administrator
rabbitmqctl add_vhost jobs
rabbitmqctl set_permissions -p jobs app '.*' '.*' '.*'
rabbitmqctl set_policy -p jobs limited '^q' '{"max-length":5}' --apply-to queues
"""

SCRIPTS = {
    "waits beside the server for a file of its choice": """#!/bin/sh
( rabbitmqctl wait --timeout 20 $RABBITMQ_PID_FILE; {setup} echo done ) &
rabbitmq-server $@
""",
    "waits beside the server for the start": """#!/bin/bash
set -e
( rabbitmqctl await_startup --timeout 20 && {{ {setup} echo done; }} ) &
exec docker-entrypoint.sh rabbitmq-server
""",
    "tries until the status is good": """#!/bin/bash
rabbitmq-server &
until rabbitmqctl status >/dev/null 2>&1; do sleep 0.1; done
{setup}
echo done
wait
""",
    "starts it twice, the second time for good": """#!/bin/bash
rabbitmq-server -detached
rabbitmqctl await_startup
{setup}
rabbitmqctl stop
echo done
exec rabbitmq-server
""",
    "waits for the process": """#!/bin/sh
rabbitmq-server &
rabbitmqctl wait -P $! --timeout 20
{setup}
echo done
wait
""",
}


@pytest.mark.parametrize("kind", SCRIPTS)
def test_a_script_that_adds_users_and_vhosts(image, tmp_path, kind):
    setup = "; ".join(ADD_A_USER.strip().splitlines()) + ";"
    container = image.run(
        command=["/init.sh"],
        mounts=script(tmp_path, SCRIPTS[kind].format(setup=setup)),
        environment={"RABBITMQ_PID_FILE": f"{DATA}/mnesia/rabbitmq"},
    )
    container.wait_for("done").started()
    container.ok("rabbitmqctl", "await_startup", "--timeout", "20")
    container.connect("app", "secret", "jobs").close()
    assert [each["name"] for each in container.api("policies/jobs", "app", "secret").json] == ["limited"]


def test_a_script_that_writes_definitions_before_the_server_runs(image, tmp_path):
    template = {
        "users": [{"name": "@NAME@", "password": "@PASS@", "tags": "administrator"}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "@NAME@", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    }
    text = (
        "#!/bin/bash\nset -euo pipefail\n"
        f'sed -e "s/@NAME@/$APP_NAME/g" -e "s/@PASS@/$APP_PASS/g" /template.json >{DEFINITIONS}\n'
        "exec docker-entrypoint.sh rabbitmq-server\n"
    )
    container = image.start(
        entry_point=["/init.sh"],
        command=[],
        mounts=[*script(tmp_path, text), (write(tmp_path / "template", json.dumps(template)), "/template.json", "ro")],
        environment={
            "APP_NAME": "app",
            "APP_PASS": "secret",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f'-rabbitmq_management load_definitions "{DEFINITIONS}"',
        },
    )
    container.connect("app", "secret").close()


@pytest.mark.parametrize("user", [0, RABBITMQ])
def test_a_script_that_writes_the_cookie_before_the_server_runs(image, user):
    text = f'set -e; echo "$THE_COOKIE" >{COOKIE}; chmod 400 {COOKIE}; exec docker-entrypoint.sh rabbitmq-server'
    container = image.start(
        user=user, entry_point=["/bin/sh", "-c", text], command=[], environment={"THE_COOKIE": "SHARED"}
    )
    assert container.ok("cat", COOKIE) == "SHARED\n"
    container.ok("rabbitmq-diagnostics", "-q", "ping")


def test_definitions_are_imported_once_it_runs(image, tmp_path):
    definitions = {"vhosts": [{"name": "jobs"}], "queues": [{"name": "q", "vhost": "jobs", "durable": True}]}
    text = (
        "#!/bin/bash\n(rabbitmqctl await_startup --timeout 20; "
        f"rabbitmqctl import_definitions {DEFINITIONS}; echo done) &\nrabbitmq-server\n"
    )
    container = image.run(
        command=["/init.sh"],
        mounts=[*script(tmp_path, text), (write(tmp_path / "d", json.dumps(definitions)), DEFINITIONS, "ro")],
    )
    container.wait_for("done")
    assert container.ok("rabbitmqctl", "-q", "list_queues", "-p", "jobs", "name") == "name\nq\n"


# Dockerfiles: their steps, and then the start of what they make.


def built(image, steps, **options):
    """A container of an image with these steps on top, each of which has to succeed."""
    text = " && ".join([*steps, "echo built", "exec docker-entrypoint.sh rabbitmq-server"])
    return image.start(entry_point=["/bin/sh", "-c", text], command=[], **options)


def test_plugins_are_copied_and_enabled(image):
    delayed = "rabbitmq_delayed_message_exchange"
    container = built(
        image,
        [
            f"echo zip >$RABBITMQ_HOME/plugins/{delayed}-4.3.0.ez",
            f"chown rabbitmq:rabbitmq /plugins/{delayed}-4.3.0.ez",
            f"ls /opt/rabbitmq/plugins | grep -q {delayed}",
            f"/opt/rabbitmq/sbin/rabbitmq-plugins enable --offline rabbitmq_management {delayed}",
            "rabbitmq-plugins list | grep -q 'E.*delayed'",
        ],
    )
    with container.connect() as connection:
        connection.channel().exchange_declare("later", "x-delayed-message", arguments={"x-delayed-type": "direct"})
    assert "no counterpart" not in container.log


def test_plugins_are_enabled_without_saying_that_nobody_runs(image):
    container = built(image, ["rabbitmq-plugins enable rabbitmq_consistent_hash_exchange"])
    container.ok("rabbitmq-plugins", "is_enabled", "rabbitmq_consistent_hash_exchange")


def test_files_of_configuration_are_written_by_steps(image):
    container = built(
        image,
        [
            f"echo 'heartbeat = 21' >>{MAIN}",
            f"echo 'channel_max = 99' >{MORE}/99-own.conf",
            f"echo '[rabbitmq_management,rabbitmq_prometheus].' >{PLUGINS}",
            f"rm -f {MORE}/20-management_agent.disable_metrics_collector.conf",
            f"echo 'management_agent.disable_metrics_collector = false' >{MORE}/management_agent.conf",
            f"chown -R rabbitmq:rabbitmq {ETC}",
        ],
    )
    with container.connect() as connection:
        assert connection._impl.params.heartbeat == 21
        assert connection._impl.params.channel_max == 99
    assert "[warning]" not in container.log


def test_a_rabbitmqadmin_of_ones_own_takes_the_place_of_the_images(image):
    """The place is no link to the broker, which a download would write over."""
    container = built(
        image,
        [
            "printf '#!/bin/sh\\necho own\\n' >/usr/local/bin/rabbitmqadmin",
            "chmod +x /usr/local/bin/rabbitmqadmin",
        ],
    )
    assert container.ok("/usr/local/bin/rabbitmqadmin") == "own\n"
    container.ok("rabbitmq-diagnostics", "-q", "ping")


# Charts and operators of Kubernetes: not root, nothing to write to but the volumes.


def placed(path, files):
    """A directory as volumes of Kubernetes are: everybody of the pod may write there, root owns it."""
    path.mkdir()
    path.chmod(0o777)
    for name, text in files.items():
        write(path / name, text)
    return path


def test_an_operators_pod(image, tmp_path):
    """One directory of its own for data and one around it; no /tmp, no /run; a long name; probes and hooks by bash."""
    defaults = """
queue_master_locator = min-masters
disk_free_limit.absolute = 10MB
cluster_partition_handling = pause_minority
cluster_formation.peer_discovery_backend = rabbit_peer_discovery_k8s
cluster_formation.k8s.host = kubernetes.default
cluster_formation.k8s.address_type = hostname
cluster_formation.target_cluster_size_hint = 1
cluster_name = jobs
auth_mechanisms.1 = PLAIN
auth_mechanisms.2 = AMQPLAIN
"""
    plugins = "[rabbitmq_peer_discovery_k8s,rabbitmq_prometheus,rabbitmq_management]."
    environment = {
        "RABBITMQ_ENABLED_PLUGINS_FILE": "/operator/enabled_plugins",
        "RABBITMQ_USE_LONGNAME": "true",
        "RABBITMQ_NODENAME": "rabbit@jobs-server-0.jobs-nodes.work",
        "K8S_HOSTNAME_SUFFIX": ".jobs-nodes.work",
    }
    mounts = [
        ("tmpfs", DATA, "mode=0777"),
        (placed(tmp_path / "persistence", {}), f"{DATA}/mnesia", ""),
        (placed(tmp_path / "operator", {"enabled_plugins": plugins}), "/operator", ""),
        (write(tmp_path / "defaults", defaults), f"{MORE}/10-operatorDefaults.conf", "ro"),
        (write(tmp_path / "user", "default_user = app\ndefault_pass = secret\n"), f"{MORE}/11-default_user.conf", "ro"),
        (write(tmp_path / "more", "channel_max = 77\n"), f"{MORE}/90-userDefinedConfiguration.conf", "ro"),
    ]
    container = image.start(
        user=RABBITMQ, read_only=True, mounts=mounts, environment=environment, hostname="jobs-server-0"
    )
    assert container.exec("touch", "/tmp/x", user=RABBITMQ).code != 0
    with container.connect("app", "secret") as connection:
        assert connection._impl.params.channel_max == 77
        connection.channel().queue_declare("q", durable=True)

    def ran(line):
        return container.exec("/bin/bash", "-c", line, user=RABBITMQ)

    reached = "[[ \"true\" == \"$(rabbitmqctl eval 'rabbit_nodes:reached_target_cluster_size().')\" ]]"
    for line in (
        reached,
        "rabbitmq-diagnostics -q check_running",
        "rabbitmqctl enable_feature_flag all",
        "rabbitmq-queues rebalance all",
        "rabbitmq-upgrade await_online_quorum_plus_one -t 60 && rabbitmq-upgrade drain -t 60",
        "rabbitmqctl -q list_queues name | grep -q '^q$'",
    ):
        done = ran(line)
        assert done.code == 0, (line, done)
    # Several of them would be several brokers, so that it is said.
    assert "rabbitmq_peer_discovery_k8s has no counterpart here: nodes do not find each other" in container.out
    assert container.stop()[0] == 0


def test_a_charts_pod(image, tmp_path):
    """All of /etc/rabbitmq from a map, one volume for data, the cookie from a step before; a hook that stops the app."""
    etc = placed(
        tmp_path / "etc",
        {
            "rabbitmq.conf": "loopback_users.guest = false\nlisteners.tcp.default = 5672\n"
            "management.tcp.port = 15672\nprometheus.tcp.port = 15692\ncluster_name = jobs\n"
            "vm_memory_high_watermark.relative = 0.4\nlog.console = true\nlog.console.level = info\nlog.file = false\n"
            "definitions.import_backend = local_filesystem\ndefinitions.local.path = /etc/rabbitmq-definitions/defs.json\n",
            "advanced.config": "[{rabbit, [{consumer_timeout, 36000000}]}].",
            "enabled_plugins": "[rabbitmq_management,rabbitmq_prometheus].",
        },
    )
    definitions = {
        "users": [{"name": "app", "password": "secret", "tags": ["administrator"]}],
        "vhosts": [{"name": "/"}],
        "permissions": [{"user": "app", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
    }
    data = placed(tmp_path / "data", {".erlang.cookie": "SECRET"})
    (data / ".erlang.cookie").chmod(0o600)
    os.chown(data / ".erlang.cookie", RABBITMQ, RABBITMQ)
    container = image.start(
        user=RABBITMQ,
        read_only=True,
        hostname="jobs-0",
        environment={
            "RABBITMQ_DEFAULT_USER": "ignored",
            "RABBITMQ_DEFAULT_PASS": "ignored",
            "RABBITMQ_ERLANG_COOKIE": "SECRET",
            "RABBITMQ_USE_LONGNAME": "true",
            "RABBITMQ_NODENAME": "rabbit@jobs-0.jobs-headless.work.svc.cluster.local",
        },
        mounts=[
            (etc, ETC, "ro"),
            (data, DATA, ""),
            ("tmpfs", "/var/log/rabbitmq", "mode=0777"),
            (placed(tmp_path / "definitions", {"defs.json": json.dumps(definitions)}), "/etc/rabbitmq-definitions", "ro"),
        ],
    )
    container.connect("app", "secret").close()
    assert "[warning]" not in container.log
    for line in (
        "rabbitmq-diagnostics -q check_running",
        "rabbitmqctl node_health_check",
        "for vhost in $(rabbitmqctl list_vhosts -s); do rabbitmq-queues rebalance all -p $vhost || exit 1; done",
        "rabbitmq-diagnostics check_if_new_quorum_queue_replicas_have_finished_initial_sync",
        "rabbitmq-diagnostics -q check_if_node_is_quorum_critical",
        "rabbitmqctl cluster_status && rabbitmqctl stop_app",
    ):
        done = container.exec("/bin/bash", "-ec", line, user=RABBITMQ)
        assert done.code == 0, (line, done)
    assert container.stop()[0] == 0


def test_a_read_only_root_with_one_volume_has_health_checks(image, volume):
    volume.chmod(0o777)
    for user in (0, RABBITMQ):
        container = image.start(read_only=True, user=user, mounts=[(volume, DATA, "")], hostname="mq")
        container.ok("rabbitmq-diagnostics", "-q", "ping", user=user)
        assert container.exec("rabbitmq-diagnostics", "-q", "ping", user=4711).code == 69
        container.stop()
        image.remove_containers()


# What is not there is said, and never in the way.


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("rabbitmq_mqtt", "MQTT clients are not served"),
        ("rabbitmq_web_stomp", "STOMP clients in browsers are not served"),
        ("rabbitmq_stream", "clients of the stream protocol are not served"),
        ("rabbitmq_amqp1_0", "AMQP 1.0 clients are not served"),
        ("rabbitmq_shovel", "shovels are kept as parameters and move nothing"),
        ("rabbitmq_federation", "upstreams are kept as parameters and nothing is fetched"),
        ("rabbitmq_message_deduplication", "there is no plugin rabbitmq_message_deduplication"),
    ],
)
def test_a_plugin_that_is_not_there_is_a_warning_at_every_start(image, tmp_path, plugin, words):
    listed = write(tmp_path / "plugins", f"[rabbitmq_management,{plugin}].")
    container = image.start(mounts=[(listed, PLUGINS, "ro")])
    [line] = [line for line in container.out.splitlines() if words in line]
    assert "[warning]" in line and plugin in line
    assert container.api("overview").status == 200


def test_enabling_a_plugin_that_is_not_there_warns_beside_what_scripts_read(container):
    ran = container.exec("rabbitmq-plugins", "enable", "rabbitmq_mqtt")
    assert ran.code == 0
    assert "The following plugins have been enabled:" in ran.out and "WARNING" not in ran.out
    assert ran.err == "WARNING - rabbitmq_mqtt has no counterpart here: MQTT clients are not served\n"
    assert container.ok("rabbitmq-plugins", "disable", "rabbitmq_mqtt")


def test_nodes_that_are_to_find_each_other_are_a_warning(image, tmp_path):
    """Each of them is a broker of its own, which nobody notices before messages are missed."""
    conf = write(
        tmp_path / "conf",
        "cluster_formation.peer_discovery_backend = classic_config\n"
        "cluster_formation.classic_config.nodes.1 = rabbit@mq1\n"
        "cluster_formation.classic_config.nodes.2 = rabbit@mq2\n",
    )
    container = image.start(mounts=[(conf, MAIN, "ro")], hostname="mq1")
    [line] = [line for line in container.out.splitlines() if "[warning]" in line]
    assert "nodes do not find each other: each is a broker of its own" in line
    container.connect().close()


def test_a_second_node_is_refused_and_the_first_one_serves_on(image):
    """Scripts that make a cluster fail at this line, and not later."""
    container = image.start(hostname="mq2", environment={"RABBITMQ_ERLANG_COOKIE": "SHARED"})
    container.ok("rabbitmqctl", "stop_app")
    ran = container.exec("rabbitmqctl", "join_cluster", "rabbit@mq1")
    assert ran.code == 69 and ran.err, ran
    container.ok("rabbitmqctl", "start_app")
    container.connect().close()


def test_variables_of_another_image_are_told(image):
    container = image.start(environment={"RABBITMQ_USERNAME": "app", "RABBITMQ_PLUGINS": "rabbitmq_mqtt"})
    for name in ("RABBITMQ_USERNAME", "RABBITMQ_PLUGINS"):
        [line] = [line for line in container.out.splitlines() if name in line]
        assert "[warning]" in line and "Bitnami" in line


# The modules of Testcontainers and what frameworks start by themselves.


def admin(container, *words):
    return container.ok("rabbitmqadmin", *words)


def test_commands_of_javas_module_and_of_quarkus(image):
    """`rabbitmqadmin` in the grammar of its first generation, by the image's user, with the defaults of both."""
    container = image.start(environment={"RABBITMQ_DEFAULT_USER": "guest", "RABBITMQ_DEFAULT_PASS": "guest"})
    container.ok("rabbitmq-plugins", "enable", "rabbitmq_shovel", "rabbitmq_random_exchange")
    admin(container, "declare", "vhost", "name=work")
    admin(container, "declare", "vhost", "name=traced", "tracing=true")
    admin(container, "declare", "vhost_limit", "vhost=work", "name=max-connections", "value=3")
    admin(container, "declare", "exchange", "name=direct", "type=direct")
    admin(
        container, "--vhost=work", "declare", "exchange", "name=topic", "type=topic", "auto_delete=false",
        "internal=false", "durable=true", "arguments={}",
    )  # fmt: skip
    admin(container, "declare", "queue", "name=plain")
    admin(
        container, "--vhost=work", "declare", "queue", "name=jobs", "auto_delete=true", "durable=false",
        'arguments={"x-message-ttl":1000}',
    )  # fmt: skip
    admin(container, "declare", "binding", "source=direct", "destination=plain")
    admin(
        container, "--vhost=work", "declare", "binding", "source=topic", "destination=jobs", "routing_key=a.#",
        "destination_type=queue", "arguments={}",
    )  # fmt: skip
    admin(container, "declare", "user", "name=one", "password=1", "tags=")
    admin(container, "declare", "user", "name=two", "password=2", "tags=administrator,monitoring")
    admin(container, "declare", "permission", "vhost=work", "user=one", "configure=.*", "write=.*", "read=.*")
    admin(container, "declare", "policy", "name=short", "pattern=^dog", 'definition={"max-length":1}', "priority=1",
          "apply-to=queues")  # fmt: skip
    admin(container, "declare", "policy", "--vhost=work", "name=mirrored", "pattern=.*", 'definition={"ha-mode":"all"}')
    admin(container, "declare", "operator_policy", "name=limits", "pattern=^plain", 'definition={"message-ttl":1000}',
          "priority=1", "apply-to=queues")  # fmt: skip
    upstream = json.dumps({"uri": "amqp://elsewhere"})
    admin(container, "declare", "parameter", "component=federation-upstream", "name=up", f"value={upstream}")

    listed = container.ok("rabbitmqadmin", "list", "queues")
    assert "plain" in listed and "jobs" in listed
    assert {each["name"] for each in container.api("users").json} == {"guest", "one", "two"}
    assert container.api("vhosts/traced").json["tracing"] is True
    bindings = container.api("exchanges/work/topic/bindings/source").json
    assert [(each["destination"], each["routing_key"]) for each in bindings] == [("jobs", "a.#")]
    assert container.api("queues/work/jobs").json["arguments"]["x-message-ttl"] == 1000
    assert container.api("queues/%2F/plain").json["effective_policy_definition"]["message-ttl"] == 1000
    container.connect("one", "1", "work").close()
    for plugin in ("rabbitmq_shovel", "rabbitmq_random_exchange"):
        assert f"{plugin} is enabled" in container.ok("rabbitmq-plugins", "is_enabled", plugin)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rabbitmq-custom.conf", "log.console.level = debug"),
        ("rabbitmq-custom.config", "[\n{rabbit,\n  [{log, [{console, [{level, debug}]}]}]}\n].\n"),
    ],
)
def test_files_of_javas_module(image, tmp_path, name, text):
    conf = write(tmp_path / "conf", text)
    container = image.start(
        environment={"RABBITMQ_CONFIG_FILE": f"{ETC}/{name}"}, mounts=[(conf, f"{ETC}/{name}", "ro")]
    )
    container.connect().close()
    container.wait_for("[debug]")


def test_the_file_of_gos_module_has_no_end_of_line(image, tmp_path):
    conf = tmp_path / "conf"
    conf.write_text("# made by a template\ndefault_user = admin\ndefault_pass = s3cret")
    path = f"{ETC}/rabbitmq-testcontainers.conf"
    container = image.start(
        mounts=[(conf, path, "ro")],
        environment={
            "RABBITMQ_CONFIG_FILE": path,
            "RABBITMQ_DEFAULT_USER": "admin",
            "RABBITMQ_DEFAULT_PASS": "s3cret",
        },
    )
    container.connect("admin", "s3cret").close()
    assert f"config file(s) : {path}" in container.out


@pytest.mark.parametrize(
    ("port", "user", "vhost"), [(5672, "guest", "/"), (5673, "guest", "/"), (5672, "tester", "/"), (5672, "guest", "v")]
)
def test_variables_of_pythons_and_elixirs_modules(image, port, user, vhost):
    """All four are set, whatever their values; Elixir's starts it by a shell and asks `check_running` until it is so."""
    container = image.run(
        command=["sh", "-c", f"chmod 400 {COOKIE}; rabbitmq-server"],
        environment={
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DEFAULT_USER": user,
            "RABBITMQ_DEFAULT_PASS": user,
            "RABBITMQ_DEFAULT_VHOST": vhost,
        },
    )
    deadline = time.monotonic() + 20
    while container.exec("rabbitmq-diagnostics", "check_running").code != 0 and time.monotonic() < deadline:
        time.sleep(0.05)
    container.connect(user, user, vhost, port=port).close()


def test_aspires_volume_and_name(image, volume):
    options = dict(
        mounts=[(volume, DATA, "")],
        environment={
            "RABBITMQ_DEFAULT_USER": "guest",
            "RABBITMQ_DEFAULT_PASS": "AbCdEf0123456789",
            "RABBITMQ_NODENAME": "messaging@localhost",
        },
    )
    container = image.start(**options, hostname="one")
    with container.connect(password="AbCdEf0123456789") as connection:
        connection.channel().queue_declare("kept", durable=True)
    assert container.stop()[0] == 0
    container = image.start(**options, hostname="two")
    with container.connect(password="AbCdEf0123456789") as connection:
        connection.channel().queue_declare("kept", passive=True)
