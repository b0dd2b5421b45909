"""The first eight bytes."""

import pytest

from .client import Connection, Dropped
from .wire import PROTOCOL_HEADER

pytestmark = pytest.mark.connection

OURS = PROTOCOL_HEADER
AMQP_1_SASL = b"AMQP\x03\x01\x00\x00"


def test_the_header_of_0_9_1_is_answered_by_connection_start(dial):
    start = dial().greet()
    assert (start.version_major, start.version_minor) == (0, 9)


def test_the_header_of_0_9_is_taken_as_0_9_1(dial):
    connection = dial()
    connection.write(b"AMQP\x01\x01\x00\x09")
    connection.start = connection.expect("connection.start")
    connection.send_start_ok()
    connection.tune = connection.expect("connection.tune")
    connection.send_tune_ok()
    connection.send(0, "connection.open", virtual_host=connection.vhost)
    connection.expect("connection.open-ok")
    assert (connection.start.version_major, connection.start.version_minor) == (0, 9)


@pytest.mark.parametrize(
    "header",
    [b"AMQP\x00\x00\x09\x00", b"AMQP\x00\x00\x09\x02", b"AMQP\x00\x00\x0a\x00", b"AMQP\x00\x00\xff\xff"],
    ids=["0-9-0", "0-9-2", "0-10-0", "0-255-255"],
)
def test_another_version_of_0_9_gets_the_right_header_and_the_end(dial, header):
    connection = dial()
    connection.write(header)
    assert connection.read_to_end() == OURS


@pytest.mark.parametrize(
    "header",
    [
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x02\x01\x00\x00",
        b"AMQP\x00\x00\x08\x00",
        b"AMQP\x01\x01\x08\x00",
        b"AMQP\x01\x01\x00\x0a",
        b"amqp\x00\x00\x09\x01",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 8,
        b"\xff" * 8,
    ],
    ids=["1.0", "1.0-tls", "0-8", "old 0-8", "old 0-10", "lower case", "http", "tls", "zeros", "ones"],
)
def test_any_other_header_gets_a_right_one_and_the_end(dial, header):
    connection = dial()
    connection.write(header)
    # RabbitMQ names AMQP 1.0 here; a broker without it names what it speaks.
    assert connection.read_to_end() in (AMQP_1_SASL, OURS)


def test_the_header_of_1_0_gets_1_0_or_the_right_header_and_the_end(dial):
    connection = dial()
    connection.write(AMQP_1_SASL)
    if connection.read_bytes(8) != AMQP_1_SASL:
        connection.expect_end()


def test_the_header_may_come_byte_by_byte(dial):
    connection = dial()
    for octet in PROTOCOL_HEADER:
        connection.write(bytes([octet]))
    connection.expect("connection.start")


def test_a_refused_header_is_refused_whatever_follows_it(dial):
    connection = dial()
    connection.write(b"AMQP\x00\x00\x09\x00" + PROTOCOL_HEADER + b"x" * 100)
    assert connection.read_to_end() == OURS


@pytest.mark.slow
def test_a_handshake_that_stands_still_is_dropped_without_a_word(dial):
    def at_start(connection: Connection) -> None:
        connection.greet()

    def at_tune(connection: Connection) -> None:
        connection.greet()
        connection.send_start_ok()
        connection.tune = connection.expect("connection.tune")

    def at_open(connection: Connection) -> None:
        at_tune(connection)
        connection.send_tune_ok()

    stages = {
        "nothing sent": lambda connection: None,
        "half a header": lambda connection: connection.write(PROTOCOL_HEADER[:7]),
        "no start-ok": at_start,
        "no tune-ok": at_tune,
        "no open": at_open,
    }
    waiting = {}
    for stage, go_there in stages.items():
        waiting[stage] = dial()
        go_there(waiting[stage])
    outcomes = {stage: connection.outcome(timeout=20) for stage, connection in waiting.items()}
    assert outcomes == dict.fromkeys(stages, Dropped())


def test_sockets_that_end_early_do_no_harm(dial, connect):
    for sent in (b"", PROTOCOL_HEADER[:3], PROTOCOL_HEADER, PROTOCOL_HEADER + b"\x01"):
        early = dial()
        early.write(sent)
        early.abort()
    assert connect().is_healthy()
