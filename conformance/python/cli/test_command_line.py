"""RabbitMQ's programs on the command line: the same arguments, outputs and exit codes, whichever broker they belong to.

What stands here was seen on RabbitMQ 4.3. `{node}` in an expected text is the node's name, `{v}` a vhost of the test's
own, `{u}` a user of its own. The order of rows of a list is nobody's promise, so that rows are sorted before they are
compared.
"""

import contextlib
import json
import pathlib
import re
import threading
import uuid

import pika
import pytest

CTL = "rabbitmqctl"
DIAGNOSTICS = "rabbitmq-diagnostics"
PLUGINS = "rabbitmq-plugins"

GRANT_HINT = (
    "Done. Don't forget to grant the user permissions to some virtual hosts! "
    "See 'rabbitmqctl help set_permissions' to learn more.\n"
)


class Shell:
    """Runs programs, with names of the test's own put in."""

    def __init__(self, broker):
        self.broker = broker
        own = uuid.uuid4().hex[:8]
        self.names = {"v": f"cli-v-{own}", "u": f"cli-u-{own}"}
        self.names["node"] = self.run(CTL, "eval", "node().")[1].strip().strip("'")

    def fill(self, text):
        # Not `format`: definitions are full of braces.
        for name, value in self.names.items():
            text = text.replace("{" + name + "}", value)
        return text

    def run(self, program, *arguments, stdin=""):
        return self.broker.tool(program, *(self.fill(each) for each in arguments), stdin=stdin)

    def ok(self, program, *arguments, stdin=""):
        code, out, err = self.run(program, *arguments, stdin=stdin)
        assert code == 0, (arguments, code, out, err)
        return out

    def expect(self, line, code=0, out="", err=""):
        """One command, all it prints and how it ends."""
        program, *arguments = line if isinstance(line, list) else line.split(" ")
        got = self.run(program, *arguments)
        assert got == (code, self.fill(out), self.fill(err)), line


@pytest.fixture
def shell(broker):
    if not broker.is_controlled:
        pytest.skip("nobody says how to run programs beside that broker")
    shell = Shell(broker)
    yield shell
    shell.run(CTL, "disable_vhost_deletion_protection", "{v}")
    shell.run(CTL, "delete_vhost", "{v}")
    shell.run(CTL, "delete_user", "{u}")


def rows(text):
    """The cells of a table, without its header, sorted."""
    return sorted(line.split("\t") for line in text.splitlines()[1:])


def connect(shell):
    """A connection into the vhost of the test."""
    shell.ok(CTL, "add_vhost", "{v}")
    shell.ok(CTL, "set_permissions", "-p", "{v}", shell.broker.user, ".*", ".*", ".*")
    parameters = pika.URLParameters(shell.broker.url)
    parameters.virtual_host = shell.names["v"]
    return pika.BlockingConnection(parameters)


def test_health_checks_answer_as_container_health_checks_expect(shell):
    shell.expect("rabbitmq-diagnostics -q ping", out="Ping succeeded\n")
    shell.expect(
        "rabbitmq-diagnostics ping",
        out="Will ping {node}. This only checks if the OS process is running and registered with epmd. "
        "Timeout: 60000 ms.\nPing succeeded\n",
    )
    shell.expect(
        "rabbitmq-diagnostics check_running",
        out="Checking if RabbitMQ is running on node {node} ...\n"
        "RabbitMQ on node {node} is fully booted and running\n",
    )
    shell.expect(
        "rabbitmq-diagnostics -q is_running", out="RabbitMQ on node {node} is fully booted and running\n"
    )
    shell.expect(
        "rabbitmq-diagnostics -q check_virtual_hosts", out="Node {node} reported all vhosts as running\n"
    )
    shell.expect(
        "rabbitmq-diagnostics check_local_alarms",
        out="This command is DEPRECATED and is a no-op. It will be removed in a future version.\n"
        "Node {node} reported no local alarms\n",
    )
    shell.expect(
        "rabbitmq-diagnostics check_protocol_listener amqp",
        out="Asking node {node} if there's an active listener for protocol amqp ...\n"
        "A listener for protocol amqp is running on node {node}.\n",
    )
    port = shell.broker.port
    shell.expect(
        f"rabbitmq-diagnostics check_port_listener {port}",
        out=f"Asking node {{node}} if there's an active listener on port {port} ...\n"
        f"A listener for port {port} is running on node {{node}}.\n",
    )
    code, out, err = shell.run(DIAGNOSTICS, "-q", "check_port_listener", "9")
    assert (code, out) == (69, "")
    assert err.startswith(shell.fill("No listener for port 9 is active on node {node}. Found listeners"))
    out = shell.ok(DIAGNOSTICS, "check_port_connectivity")
    assert f":{port}\n" in out and "Successfully connected to ports" in out
    shell.expect("rabbitmqctl version", out="4.3.6\n")
    assert "RabbitMQ version: 4.3.6" in shell.ok(CTL, "status")
    status = json.loads(shell.ok(CTL, "status", "--formatter", "json"))
    assert status["rabbitmq_version"] == "4.3.6"
    assert {"pid", "listeners", "alarms", "memory", "totals", "disk_free"} <= status.keys()


def test_31_users_vhosts_and_permissions_with_their_outputs_and_exit_codes(shell):
    """add_user, set_user_tags, set_permissions, add_vhost, delete_user, change_password, authenticate_user with the
    outputs and exit codes; add_vhost existing is 0, add_user existing is 70."""
    shell.expect("rabbitmqctl add_user {u} secret", out='Adding user "{u}" ...\n' + GRANT_HINT)
    shell.expect(
        "rabbitmqctl add_user {u} secret",
        code=70,
        out='Adding user "{u}" ...\n',
        err='Error:\nUser "{u}" already exists\n',
    )
    shell.expect(
        "rabbitmqctl set_user_tags {u} administrator", out='Setting tags for user "{u}" to [administrator] ...\n'
    )
    assert [shell.names["u"], "[administrator]"] in rows(shell.ok(CTL, "-q", "list_users"))
    shell.expect("rabbitmqctl change_password {u} new", out='Changing password for user "{u}" ...\n')
    shell.expect(
        "rabbitmqctl authenticate_user {u} new", out='Authenticating user "{u}" ...\nSuccess\n'
    )
    shell.expect(
        "rabbitmqctl authenticate_user {u} bad",
        code=65,
        out='Authenticating user "{u}" ...\n',
        err="Error:\nError: failed to authenticate user \"{u}\"\nuser '{u}' - invalid credentials\n",
    )
    for _ in range(2):
        shell.expect("rabbitmqctl add_vhost {v}", out='Adding vhost "{v}" ...\n')
    shell.expect(
        "rabbitmqctl set_permissions -p {v} {u} a b c",
        out='Setting permissions for user "{u}" in vhost "{v}" ...\n',
    )
    shell.expect(
        "rabbitmqctl set_permissions -p nowhere {u} a b c",
        code=69,
        out='Setting permissions for user "{u}" in vhost "nowhere" ...\n',
        err="Error:\nVirtual host nowhere does not exist\n",
    )
    shell.expect(
        "rabbitmqctl set_permissions -p {v} nobody a b c",
        code=67,
        out='Setting permissions for user "nobody" in vhost "{v}" ...\n',
        err="Error:\nUser nobody does not exist\n",
    )
    shell.expect(
        "rabbitmqctl set_topic_permissions -p {v} {u} nowhere a b",
        code=69,
        out='Setting topic permissions on "nowhere" for user "{u}" in vhost "{v}" ...\n',
        err="Error:\nExchange nowhere does not exist\n",
    )
    shell.expect(
        "rabbitmqctl list_permissions -p {v}",
        out='Listing permissions for vhost "{v}" ...\nuser\tconfigure\twrite\tread\n{u}\ta\tb\tc\n',
    )
    shell.expect(
        "rabbitmqctl list_user_permissions {u}",
        out='Listing permissions for user "{u}" ...\nvhost\tconfigure\twrite\tread\n{v}\ta\tb\tc\n',
    )
    shell.expect("rabbitmqctl clear_permissions -p {v} {u}", out='Clearing permissions for user "{u}" in vhost "{v}" ...\n')
    shell.expect("rabbitmqctl -q list_user_permissions {u}", out="\n")
    for _ in range(2):
        shell.expect("rabbitmqctl delete_user {u}", out='Deleting user "{u}" ...\n')
    shell.expect(
        "rabbitmqctl change_password {u} new",
        code=67,
        out='Changing password for user "{u}" ...\n',
        err='Error:\nUser "{u}" does not exist\n',
    )
    shell.expect("rabbitmqctl delete_vhost {v}", out='Deleting vhost "{v}" ...\n')
    shell.expect(
        "rabbitmqctl delete_vhost {v}",
        code=65,
        out='Deleting vhost "{v}" ...\n',
        err="Virtual host '{v}' does not exist\n",
    )


def test_a_wrong_command_line_is_64_with_how_it_should_be(shell):
    shell.expect(
        "rabbitmqctl add_user",
        code=64,
        err="Error (argument validation): not enough arguments.\nArguments given:\n\tadd_user\n\nUsage\n\n"
        "rabbitmqctl [--node <node>] [--longnames] [--quiet] add_user <username> [<password>] "
        "[<password_hash> --pre-hashed-password]\n",
    )
    shell.expect(
        "rabbitmqctl list_queues -p / bogus_column",
        code=64,
        err="Error (argument validation): Info key(s) bogus_column are not supported\nArguments given:\n"
        "\tlist_queues -p / bogus_column\n\nUsage\n\n"
        "rabbitmqctl [--node <node>] [--longnames] [--quiet] list_queues [--vhost <vhost>] [--online] [--offline] "
        "[--local] [--no-table-headers] [<column>, ...] [--timeout <timeout>]\n",
    )
    code, out, err = shell.run(CTL, "nosuch_command")
    assert (code, out) == (64, "")
    assert err.startswith("\nCommand 'nosuch_command' not found. \n\nUsage\n\nrabbitmqctl [--node <node>]")


def test_32_lists_with_columns_quiet_silent_and_as_json(shell):
    """list_queues name messages, -q, -s, -p, --formatter json, TAB output, header rules."""
    connection = connect(shell)
    channel = connection.channel()
    channel.queue_declare("jobs", durable=True, arguments={"x-max-length": 10})
    channel.queue_declare("empty", durable=True)
    channel.confirm_delivery()
    for _ in range(3):
        channel.basic_publish("", "jobs", b"job", pika.BasicProperties(delivery_mode=2))
    code, out, err = shell.run(CTL, "list_queues", "-p", "{v}")
    lines = out.splitlines()
    assert lines[:3] == shell.fill("Timeout: 60.0 seconds ...\nListing queues for vhost {v} ...\nname\tmessages").split("\n")
    assert sorted(lines[3:]) == ["empty\t0", "jobs\t3"]
    out = shell.ok(CTL, "-q", "list_queues", "-p", "{v}", "name", "messages_ready", "messages_unacknowledged", "consumers")
    assert rows(out) == [["empty", "0", "0", "0"], ["jobs", "3", "0", "0"]]
    out = shell.ok(CTL, "-s", "list_queues", "-p", "{v}", "name", "messages")
    assert sorted(out.splitlines()) == ["empty\t0", "jobs\t3"]
    out = shell.ok(CTL, "list_queues", "-p", "{v}", "--formatter", "json", "name", "messages")
    assert out.startswith('[\n{"messages":') and out.endswith("}\n]\n")
    assert {(row["name"], row["messages"]) for row in json.loads(out)} == {("jobs", 3), ("empty", 0)}
    out = shell.ok(CTL, "-q", "list_queues", "-p", "{v}", "name", "arguments", "durable", "policy", "type")
    assert [
        "jobs",
        '[{"x-max-length",10},{"x-queue-type","classic"}]',
        "true",
        "",
        "classic",
    ] in rows(out)
    out = json.loads(shell.ok(CTL, "list_queues", "-p", "{v}", "--formatter", "json", "name", "arguments"))
    assert ["x-max-length", "signedint", 10] in next(row for row in out if row["name"] == "jobs")["arguments"]
    out = shell.ok(CTL, "list_bindings", "-p", "{v}")
    assert out.startswith(
        shell.fill("Listing bindings for vhost {v}...\n")
        + "source_name\tsource_kind\tdestination_name\tdestination_kind\trouting_key\targuments\n"
    )
    assert ["", "exchange", "jobs", "queue", "jobs", "[]"] in rows(out)
    out = shell.ok(CTL, "-q", "list_exchanges", "-p", "{v}")
    assert ["", "direct"] in rows(out) and ["amq.topic", "topic"] in rows(out)
    shell.expect("rabbitmqctl -q list_queues -p nowhere", out="")
    shell.expect("rabbitmqctl list_consumers -p {v}", out="Listing consumers in vhost {v} ...\n")
    channel.basic_consume("empty", lambda *_: None, consumer_tag="tag", arguments={"x-priority": 5})
    out = shell.ok(CTL, "-q", "list_consumers", "-p", "{v}")
    [[queue, pid, *rest]] = rows(out)
    assert queue == "empty" and re.fullmatch(r"<[^ ]+\.\d+\.\d+\.\d+>", pid)
    assert rest == ["tag", "true", "0", "true", '[{"x-priority",5}]']
    shell.expect("rabbitmqctl purge_queue -p {v} jobs", out="Purging queue 'jobs' in vhost '{v}' ...\n")
    shell.expect(
        "rabbitmqctl delete_queue -p {v} jobs",
        out="Deleting queue 'jobs' on vhost '{v}' ...\nQueue was successfully deleted with 0 ready messages\n",
    )
    shell.expect(
        "rabbitmqctl delete_queue -p {v} jobs",
        code=64,
        out="Deleting queue 'jobs' on vhost '{v}' ...\n",
        err="Error:\nNo such queue was found\n",
    )
    connection.close()


def test_33_waiting_for_the_broker(shell):
    """await_startup (silent, 0), wait <pidfile>, wait --pid N, --timeout ends with 75."""
    shell.expect("rabbitmqctl await_startup", out="")
    shell.expect(
        "rabbitmqctl wait /tmp/no-such-pid-file --timeout 1",
        code=75,
        out="Waiting for pid file '/tmp/no-such-pid-file' to appear\n",
        err="Error: operation wait on node {node} timed out. Timeout value used: 1000\n",
    )
    pid = shell.broker.control_status()
    shell.expect(
        f"rabbitmqctl wait --pid {pid} --timeout 30",
        out=f"Waiting for erlang distribution on node '{{node}}' while OS process '{pid}' is running\n"
        "Waiting for applications 'rabbit_and_plugins' to start on node '{node}'\n"
        "Applications 'rabbit_and_plugins' are running on node '{node}'\n",
    )


def test_36_definitions_round_trip(shell):
    """import_definitions, export_definitions (file, -, stdin) round-trip."""
    shell.ok(CTL, "add_vhost", "{v}")
    shell.ok(CTL, "set_policy", "-p", "{v}", "kept", "^x", '{"max-length":1}')
    before = json.loads(shell.ok(CTL, "export_definitions", "-"))
    shell.ok(CTL, "delete_vhost", "{v}")
    out = shell.run(CTL, "import_definitions", stdin=json.dumps(before))
    assert out == (
        0,
        "Importing definitions in JSON from standard input ...\nSuccessfully started definition import. This process "
        "is asynchronous and can take some time. Watch target node logs for completion.\n",
        "",
    )
    after = json.loads(shell.ok(CTL, "export_definitions", "-"))
    for kind in ("vhosts", "users", "permissions", "policies", "queues", "exchanges", "bindings"):
        by_text = {json.dumps(each, sort_keys=True) for each in before[kind]}
        assert by_text == {json.dumps(each, sort_keys=True) for each in after[kind]}, kind
    assert shell.run(CTL, "import_definitions", "/no/such/file")[0] == 65


def test_37_policies_limits_and_parameters(shell):
    """set_policy with --apply-to/--priority; set_vhost_limits; set_parameter JSON."""
    shell.ok(CTL, "add_vhost", "{v}")
    shell.expect(
        ["rabbitmqctl", "set_policy", "-p", "{v}", "ttl", "^tmp", '{"message-ttl":1000}', "--apply-to", "queues", "--priority", "1"],
        out='Setting policy "ttl" for pattern "^tmp" to "{"message-ttl":1000}" with priority "1" for vhost "{v}" ...\n',
    )
    shell.expect(
        "rabbitmqctl list_policies -p {v}",
        out='Listing policies for vhost "{v}" ...\nvhost\tname\tpattern\tapply-to\tdefinition\tpriority\n'
        '{v}\tttl\t^tmp\tqueues\t{"message-ttl":1000}\t1\n',
    )
    shell.expect("rabbitmqctl clear_policy -p {v} ttl", out='Clearing policy "ttl" on vhost "{v}" ...\n')
    shell.expect(
        "rabbitmqctl clear_policy -p {v} ttl",
        code=69,
        out='Clearing policy "ttl" on vhost "{v}" ...\n',
        err="Error:\nParameter does not exist\n",
    )
    shell.expect(
        ["rabbitmqctl", "set_policy", "-p", "{v}", "p", "^x", "{nojson"],
        code=69,
        out='Setting policy "p" for pattern "^x" to "{nojson" with priority "0" for vhost "{v}" ...\n',
        err='Error:\nCould not parse JSON document: {error,{failed_to_decode_json,<<"{nojson">>}}\n',
    )
    shell.expect(
        ["rabbitmqctl", "set_vhost_limits", "-p", "{v}", '{"max-queues":5}'],
        out='Setting vhost limits to "{"max-queues":5}" for vhost "{v}" ...\n',
    )
    shell.expect(
        "rabbitmqctl list_vhost_limits -p {v}", out='Listing limits for vhost "{v}" ...\n{"max-queues":5}\n'
    )
    shell.expect("rabbitmqctl clear_vhost_limits -p {v}", out='Clearing vhost "{v}" limits ...\n')
    shell.expect(
        ["rabbitmqctl", "set_parameter", "-p", "{v}", "nothing", "x", "{}"],
        code=69,
        out='Setting runtime parameter "x" for component "nothing" to "{}" in vhost "{v}" ...\n',
        err="Error:\nValidation failed\n\ncomponent nothing not found\n\n",
    )


def test_38_plugins_at_run_time(shell):
    """rabbitmq-plugins list/enable/disable/is_enabled at run time, exit 0, phrase `<name> is enabled`."""
    shell.expect(
        "rabbitmq-plugins is_enabled rabbitmq_management",
        out="Asking node {node} if plugin rabbitmq_management is enabled...\n"
        "Plugin rabbitmq_management is enabled on node {node}\n",
    )
    code, out, err = shell.run(PLUGINS, "is_enabled", "rabbitmq_web_mqtt")
    assert (code, out) == (69, shell.fill("Asking node {node} if plugin rabbitmq_web_mqtt is enabled...\n"))
    assert err.startswith(
        shell.fill("Error:\nPlugin rabbitmq_web_mqtt is not enabled on node {node}. Enabled plugins and dependencies: ")
    )
    before = shell.ok(PLUGINS, "-q", "list", "-E", "-m").split()
    out = shell.ok(PLUGINS, "enable", "rabbitmq_top")
    assert out.startswith(shell.fill("Enabling plugins on node {node}:\nrabbitmq_top\n"))
    assert out.endswith(
        shell.fill("Applying plugin configuration to {node}...\n")
        + "The following plugins have been enabled:\n  rabbitmq_top\n\nstarted 1 plugins.\n"
    )
    assert set(shell.ok(PLUGINS, "-q", "list", "-E", "-m").split()) == {*before, "rabbitmq_top"}
    assert shell.ok(PLUGINS, "enable", "rabbitmq_top").endswith("Plugin configuration unchanged.\n")
    out = shell.ok(PLUGINS, "disable", "rabbitmq_top")
    assert out.endswith("The following plugins have been disabled:\n  rabbitmq_top\n\nstopped 1 plugins.\n")


def test_39_stop_app_reset_and_start_app(restartable_broker, shell):
    """stop_app, reset, start_app in sequence: listeners close, data wiped, defaults seeded again, listeners reopen."""
    connection = connect(shell)
    connection.channel().queue_declare("kept", durable=True)
    shell.expect("rabbitmqctl stop_app", out="Stopping rabbit application on node {node} ...\n")
    with pytest.raises(pika.exceptions.AMQPError):
        connection.process_data_events(0)
        connection.channel()
    shell.expect("rabbitmq-diagnostics -q ping", out="Ping succeeded\n")
    assert shell.run(DIAGNOSTICS, "check_running")[0] == 69
    assert shell.run(CTL, "list_queues")[0] == 64
    with pytest.raises(pika.exceptions.AMQPError):
        shell.broker.connect()
    shell.expect("rabbitmqctl reset", out="Resetting node {node} ...\n")
    shell.expect("rabbitmqctl start_app", out="Starting node {node} ...\n")
    shell.broker.connect().close()
    assert rows(shell.ok(CTL, "-q", "list_vhosts")) == [["/"]]
    code, out, err = shell.run(CTL, "reset")
    assert (code, out) == (64, "")
    assert err.startswith("Error: this command requires the 'rabbit' app to be stopped on the target node.")


def test_40_the_node_is_found_by_its_name(shell):
    """CLI finds its node by -n or RABBITMQ_NODENAME."""
    assert shell.ok(DIAGNOSTICS, "-q", "-n", "{node}", "ping") == "Ping succeeded\n"
    code, out, err = shell.run(DIAGNOSTICS, "-q", "-n", "nosuch@localhost", "ping")
    assert (code, out) == (69, "")
    assert err == "Error:\nFailed to connect and authenticate to nosuch@localhost in 60000 ms\n"
    code, out, err = shell.run(CTL, "-n", "nosuch@localhost", "list_queues")
    assert (code, out) == (69, "")
    assert err.startswith("Error: unable to perform an operation on node 'nosuch@localhost'.")


def test_41_eval_of_a_small_table_and_unknown_commands(shell):
    """eval small table (node(), alarm pair, constants)."""
    shell.expect(["rabbitmqctl", "eval", "rabbit_nodes:reached_target_cluster_size()."], out="true\n")
    shell.expect(
        ["rabbitmqctl", "eval", "lists:keymember(rabbit, 1, application:which_applications())."], out="true\n"
    )
    shell.expect(
        ["rabbitmqctl", "eval", "rabbit_alarm:set_alarm({{resource_limit, memory, node()}, []})."], out="ok\n"
    )
    shell.expect(
        "rabbitmq-diagnostics -q check_alarms", code=69, err="Memory alarm on node {node}\n"
    )
    shell.expect(
        ["rabbitmqctl", "eval", "rabbit_alarm:clear_alarm({resource_limit, memory, node()})."], out="ok\n"
    )
    shell.expect(
        "rabbitmq-diagnostics -q check_alarms", out="Node {node} reported no alarms, local or clusterwide\n"
    )


def test_30_a_watermark_blocks_publishers_at_once(shell):
    """rabbitmqctl set_vm_memory_high_watermark 0.000000001, publish, wait for blocked, then 0.4."""
    blocked, unblocked = threading.Event(), threading.Event()
    connection = connect(shell)
    connection.add_on_connection_blocked_callback(lambda *_: blocked.set())
    connection.add_on_connection_unblocked_callback(lambda *_: unblocked.set())
    try:
        shell.expect(
            "rabbitmqctl set_vm_memory_high_watermark 0.000000001",
            out="Setting memory threshold on {node} to 0.000000001 ...\n",
        )
        connection.channel().basic_publish("", "nowhere", b"")
        wait_for(connection, blocked)
    finally:
        shell.expect(
            "rabbitmqctl set_vm_memory_high_watermark 0.4", out="Setting memory threshold on {node} to 0.4 ...\n"
        )
    wait_for(connection, unblocked)
    connection.close()


def test_while_publishers_wait_the_first_message_of_an_alarm_does_too(shell):
    with alarm_by_hand(shell, "memory") as end_of_alarm:
        connection = connect(shell)
        channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        delivered, blocked = threading.Event(), threading.Event()
        connection.add_on_connection_blocked_callback(lambda *_: blocked.set())
        channel.basic_consume(queue, lambda *_: delivered.set(), auto_ack=True)
        channel.basic_publish("", queue, b"body")
        wait_for(connection, blocked)
        # Deliveries go on for who consumes elsewhere, so that the message would be here by now.
        other = connect(shell)
        other_channel = other.channel()
        assert other_channel.queue_declare("", exclusive=True).method.message_count == 0
        other.close()
        assert not delivered.is_set()
        end_of_alarm()
        wait_for(connection, delivered)
        connection.close()


@contextlib.contextmanager
def alarm_by_hand(shell, source):
    def end():
        shell.ok("rabbitmqctl", "eval", f"rabbit_alarm:clear_alarm({{resource_limit, {source}, node()}}).")

    shell.ok("rabbitmqctl", "eval", f"rabbit_alarm:set_alarm({{{{resource_limit, {source}, node()}}, []}}).")
    try:
        yield end
    finally:
        end()


def wait_for(connection, event):
    for _ in range(200):
        if event.is_set():
            return
        connection.process_data_events(0.1)
    assert event.is_set()


def test_41a_connections_are_listed_and_closed_by_pid(shell):
    """list_connections -q pid peer_port, close_connection <pid> 'text', close_all_connections 'text': the client sees
    320 with the text."""
    connection = connect(shell)
    port = connection._impl._transport._sock.getsockname()[1]
    found = {row[1]: row[0] for row in rows(shell.ok(CTL, "list_connections", "-q", "pid", "peer_port"))}
    pid = found[str(port)]
    assert re.fullmatch(r"<[^ ]+\.\d+\.\d+\.\d+>", pid)
    shell.expect(
        ["rabbitmqctl", "close_connection", pid, "go away"], out=f"Closing connection {pid}, reason: go away...\n"
    )
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(5)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - go away")
    connection = connect(shell)
    shell.expect(
        ["rabbitmqctl", "close_all_connections", "-p", "{v}", "bye"],
        out="Closing all connections in vhost {v}, reason: bye...\nClosed 1 connections\n",
    )
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        while True:
            connection.process_data_events(5)
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - bye")


def test_the_newest_lines_of_the_log_are_shown(shell):
    code, out, _ = shell.run(DIAGNOSTICS, "-q", "log_tail", "-N", "3")
    assert code == 0
    assert 1 <= len(out.splitlines()) <= 3
    # Written a moment ago, by whoever asked.
    connect(shell).close()
    lines = shell.ok(DIAGNOSTICS, "-q", "log_tail", "--number", "50")
    assert f"vhost '{shell.names['v']}'" in lines
    assert shell.ok(DIAGNOSTICS, "log_tail").startswith(shell.fill("Last 50 log lines on node {node} ...\n"))
    out = shell.ok(DIAGNOSTICS, "log_tail_stream", "--duration", "1")
    assert out.startswith(shell.fill("Streaming logs from node {node} "))


def test_64_programs_of_clusters_are_content_with_one_node(shell):
    """rabbitmq-upgrade await_online_quorum_plus_one, rabbitmq-queues rebalance all, enable_feature_flag all."""
    assert shell.run("rabbitmq-upgrade", "await_online_quorum_plus_one", "-t", "5")[0] == 0
    assert shell.run("rabbitmq-queues", "rebalance", "all")[0] == 0
    shell.expect("rabbitmqctl enable_feature_flag all", out="Enabling all feature flags ...\n")
    shell.expect(
        "rabbitmq-queues check_if_node_is_quorum_critical",
        out="Checking if node {node} is critical for quorum of any queues/streams ...\n"
        "Node {node} seems to be the only one in a single node cluster, the check does not apply\n",
    )


def test_34_rabbitmqadmin_speaks_both_grammars(broker, shell):
    """rabbitmqadmin accepts both grammars: v1 `declare queue name=q durable=true`, v2 `declare queue --name q`; v1
    messages and `*** ...` errors with exit 1."""
    if broker.is_rabbitmq:
        pytest.skip("Debian's package of RabbitMQ has no rabbitmqadmin")
    shell.ok(CTL, "add_vhost", "{v}")
    shell.ok(CTL, "set_permissions", "-p", "{v}", broker.user, ".*", ".*", ".*")
    port = broker.http_url.rsplit(":", 1)[1]

    def admin(*arguments):
        return shell.run("rabbitmqadmin", "-P", port, "-u", broker.user, "-p", broker.password, "-V", "{v}", *arguments)

    assert admin("declare", "queue", "name=one", "durable=true", 'arguments={"x-max-length":5}') == (0, "queue declared\n", "")
    assert admin("publish", "routing_key=one", "payload=hi") == (0, "Message published\n", "")
    assert admin("publish", "routing_key=nowhere", "payload=hi") == (0, "Message published but NOT routed\n", "")
    assert admin("list", "queues", "name", "messages") == (
        0,
        "+------+----------+\n| name | messages |\n+------+----------+\n| one  | 1        |\n+------+----------+\n",
        "",
    )
    assert admin("-f", "tsv", "list", "queues", "name", "durable") == (0, "name\tdurable\none\tTrue\n", "")
    code, out, err = admin("get", "queue=one", "ackmode=ack_requeue_false")
    assert code == 0 and "| hi " in out
    assert admin("purge", "queue", "name=one") == (0, "queue purged\n", "")
    assert admin("delete", "queue", "name=one") == (0, "queue deleted\n", "")
    path = shell.fill("/api/queues/{v}/one")
    assert admin("delete", "queue", "name=one") == (1, "", f"*** Not found: {path}\n")
    assert admin("-p", "wrong", "list", "queues")[::2] == (1, shell.fill("*** Access refused: /api/queues/{v}\n"))

    assert admin("declare", "queue", "--name", "two", "--type", "quorum", "--durable", "true") == (0, "", "")
    assert admin("publish", "message", "--routing-key", "two", "--payload", "hi") == (
        0,
        "Message published and routed successfully\n",
        "",
    )
    assert admin("health_check", "local_alarms") == (0, "health check passed\n", "")
    assert admin("delete", "queue", "--name", "two") == (0, "", "")
    assert admin("delete", "queue", "--name", "two") == (65, "", "API responded with a 404 Not Found\n")
    assert admin("delete", "queue", "--name", "two", "--idempotently") == (0, "", "")
    assert admin("declare", "queue", "--type", "quorum")[0] == 2
