"""A session on the command line, from the first look to cleaning up, with everything it prints and how each command ends.

What stands here was seen on RabbitMQ 4.3, command by command, in this order. `{node}`, `{v}` and `{u}` are filled in as in
`test_command_line.py`. Rows of lists have no order, and other tests' objects may be among them.
"""

import pika
import pytest

from cli.test_command_line import GRANT_HINT, rows, shell  # noqa: F401

BEFORE = [
    ("rabbitmq-diagnostics -q check_running", 0, "RabbitMQ on node {node} is fully booted and running\n", ""),
    ("rabbitmqctl version", 0, "4.3.6\n", ""),
    ("rabbitmqctl await_startup", 0, "", ""),
    (
        "rabbitmqctl node_health_check",
        0,
        "This command is DEPRECATED and is a no-op. It will be removed in a future version. \n"
        "Use one of the options covered in https://www.rabbitmq.com/monitoring.html#health-checks instead.\n",
        "",
    ),
    ("rabbitmqctl add_user {u} secret", 0, 'Adding user "{u}" ...\n' + GRANT_HINT, ""),
    ("rabbitmqctl add_user {u} secret", 70, 'Adding user "{u}" ...\n', 'Error:\nUser "{u}" already exists\n'),
    ("rabbitmqctl set_user_tags {u} administrator", 0, 'Setting tags for user "{u}" to [administrator] ...\n', ""),
    ("rabbitmqctl change_password {u} new", 0, 'Changing password for user "{u}" ...\n', ""),
    ("rabbitmqctl authenticate_user {u} new", 0, 'Authenticating user "{u}" ...\nSuccess\n', ""),
    ("rabbitmqctl add_vhost {v}", 0, 'Adding vhost "{v}" ...\n', ""),
    ("rabbitmqctl add_vhost {v}", 0, 'Adding vhost "{v}" ...\n', ""),
    (
        "rabbitmqctl set_permissions -p {v} {u} .* .* .*",
        0,
        'Setting permissions for user "{u}" in vhost "{v}" ...\n',
        "",
    ),
    (
        "rabbitmqctl list_permissions -p {v}",
        0,
        'Listing permissions for vhost "{v}" ...\nuser\tconfigure\twrite\tread\n{u}\t.*\t.*\t.*\n',
        "",
    ),
    ("rabbitmqctl list_consumers -p {v}", 0, "Listing consumers in vhost {v} ...\n", ""),
]

WITH_A_QUEUE = [
    (
        "rabbitmqctl list_queues -p {v}",
        0,
        "Timeout: 60.0 seconds ...\nListing queues for vhost {v} ...\nname\tmessages\njobs\t3\n",
        "",
    ),
    (
        "rabbitmqctl -q list_queues -p {v} name messages_ready messages_unacknowledged",
        0,
        "name\tmessages_ready\tmessages_unacknowledged\njobs\t3\t0\n",
        "",
    ),
    ("rabbitmqctl -s list_queues -p {v} name messages", 0, "jobs\t3\n", ""),
    (
        "rabbitmqctl list_queues -p {v} --formatter json name messages",
        0,
        '[\n{"messages":3,"name":"jobs"}\n]\n',
        "",
    ),
    (
        "rabbitmqctl list_bindings -p {v}",
        0,
        "Listing bindings for vhost {v}...\n"
        "source_name\tsource_kind\tdestination_name\tdestination_kind\trouting_key\targuments\n"
        "\texchange\tjobs\tqueue\tjobs\t[]\n",
        "",
    ),
    (
        "rabbitmqctl list_exchanges -p {v}",
        0,
        "Listing exchanges for vhost {v} ...\nname\ttype\n\tdirect\namq.direct\tdirect\namq.fanout\tfanout\n"
        "amq.headers\theaders\namq.match\theaders\namq.rabbitmq.trace\ttopic\namq.topic\ttopic\n",
        "",
    ),
    ("rabbitmqctl purge_queue -p {v} jobs", 0, "Purging queue 'jobs' in vhost '{v}' ...\n", ""),
    (
        "rabbitmqctl delete_queue -p {v} jobs",
        0,
        "Deleting queue 'jobs' on vhost '{v}' ...\nQueue was successfully deleted with 0 ready messages\n",
        "",
    ),
    (
        "rabbitmqctl delete_queue -p {v} jobs",
        64,
        "Deleting queue 'jobs' on vhost '{v}' ...\n",
        "Error:\nNo such queue was found\n",
    ),
    ("rabbitmqctl delete_vhost {v}", 0, 'Deleting vhost "{v}" ...\n', ""),
    ("rabbitmqctl delete_vhost {v}", 65, 'Deleting vhost "{v}" ...\n', "Virtual host '{v}' does not exist\n"),
    ("rabbitmqctl delete_user {u}", 0, 'Deleting user "{u}" ...\n', ""),
    ("rabbitmqctl delete_user {u}", 0, 'Deleting user "{u}" ...\n', ""),
]


def play(shell, session):  # noqa: F811
    for line, code, out, err in session:
        got = shell.run(*line.split(" "))
        wanted = (code, shell.fill(out), shell.fill(err))
        assert (got[0], sorted(got[1].splitlines()), got[2]) == (wanted[0], sorted(wanted[1].splitlines()), wanted[2]), line


# RabbitMQ takes one to two seconds for each of these commands.
@pytest.mark.timeout(240)
def test_a_whole_session_prints_what_it_prints_on_rabbitmq(shell):  # noqa: F811
    play(shell, BEFORE)
    listed = rows(shell.ok("rabbitmqctl", "list_users").split("\n", 1)[1])
    assert [shell.names["u"], "[administrator]"] in listed
    listed = rows(shell.ok("rabbitmqctl", "-q", "list_vhosts", "name", "tracing"))
    assert [shell.names["v"], "false"] in listed
    parameters = pika.ConnectionParameters(
        shell.broker.host, shell.broker.port, shell.names["v"], pika.PlainCredentials(shell.names["u"], "new")
    )
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.queue_declare("jobs", durable=True)
        channel.confirm_delivery()
        for _ in range(3):
            channel.basic_publish("", "jobs", b"job")
    play(shell, WITH_A_QUEUE)
