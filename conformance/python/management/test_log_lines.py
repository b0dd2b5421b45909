"""Lines of the log that people and programs look for."""

import pathlib
import re
import uuid

import pika
import pytest

from program import eventually

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\+00:00 \[(debug|info|notice|warning|error)\] <\d+\.\d+\.\d+> (.*)")


class Log:
    """What is logged from now on."""

    def __init__(self, path):
        self._path = pathlib.Path(path)
        self._from = self._path.stat().st_size

    def lines(self):
        with self._path.open("rb") as log:
            log.seek(self._from)
            text = log.read().decode()
        # Colours, where a console is meant.
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        found = (LINE.match(line) for line in text.splitlines())
        return [(match[1], match[2]) for match in found if match]

    def has(self, level, *parts):
        def is_there():
            return any(said == level and all(part in text for part in parts) for said, text in self.lines())

        eventually(is_there, f"a line [{level}] with {parts}", self.lines())


@pytest.fixture
def log(broker):
    if not broker.is_controlled:
        pytest.skip("nobody says where the log of that broker is")
    return Log(broker.log)


def test_a_connection_is_logged_from_its_start_to_its_end(log, broker, vhost):
    name = f"client-{uuid.uuid4()}"
    parameters = pika.ConnectionParameters(broker.host, broker.port, vhost, client_properties={"connection_name": name})
    with pika.BlockingConnection(parameters) as connection:
        own = "%s:%d" % connection._impl._transport._sock.getsockname()[:2]
    ends = f"{own} -> {broker.host}:{broker.port}"
    log.has("info", f"accepting AMQP connection {ends}")
    log.has("info", f"connection {ends} has a client-provided name: {name}")
    log.has("info", f"connection {ends} - {name}: user 'guest' authenticated and granted access to vhost '{vhost}'")
    log.has("info", f"closing AMQP connection ({ends} - {name}, vhost: '{vhost}', user: 'guest', duration: '")


def test_a_client_that_vanishes_is_a_warning(log, broker, vhost):
    connection = pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, vhost))
    own = "%s:%d" % connection._impl._transport._sock.getsockname()[:2]
    connection._impl._transport._sock.close()
    log.has("warning", "closing AMQP connection ", f"({own} -> ", f"vhost: '{vhost}'")


def test_a_refused_login_is_an_error_with_the_name_and_no_password(log, broker):
    secret = f"secret-{uuid.uuid4()}"
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        credentials = pika.PlainCredentials("nobody-here", secret)
        pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, "/", credentials))
    log.has("error", "Error on AMQP connection")
    everything = "\n".join(text for _, text in log.lines())
    assert secret not in everything
    assert "user 'nobody-here'" in everything


def test_the_level_is_set_while_the_broker_runs(log, broker):
    def tool(*arguments):
        code, out, err = broker.tool("rabbitmqctl", *arguments)
        assert code == 0, (arguments, code, out, err)

    def connect():
        name = f"client-{uuid.uuid4()}"
        properties = {"connection_name": name}
        pika.BlockingConnection(
            pika.ConnectionParameters(broker.host, broker.port, client_properties=properties)
        ).close()
        return name

    tool("set_log_level", "warning")
    try:
        quiet = connect()
    finally:
        tool("set_log_level", "info")
    log.has("info", f"has a client-provided name: {connect()}")
    assert quiet not in "\n".join(text for _, text in log.lines())
