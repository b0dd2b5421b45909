"""Connections, channels and names that clean up after themselves."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator

import pytest

from .client import Channel, Connection, ConnectionClosed, Endpoint, SocketEnded

MARKS = {
    "slow": "waits for time to pass",
    "beyond": "a feature or guarantee that RabbitMQ does not have",
    "connection": "protocol header, handshake, channel 0, heartbeats",
    "framing": "frames, their order, wire types, properties",
    "channels": "channel lifecycle",
    "exchanges": "exchange.* and bindings",
    "extra_exchanges": "exchange types beyond those of AMQP",
    "routing": "which queue gets a message",
    "queues": "queue.*",
    "publishing": "basic.publish, returns, confirms",
    "consuming": "qos, consume, get, cancel",
    "settling": "ack, nack, reject, recover, order of redelivery",
    "transactions": "tx.*",
    "expiry": "message TTL, queue expiry, length limits",
    "dead_lettering": "dead-letter exchanges, x-death, delivery limit",
    "quorum": "what only quorum queues do",
    "streams": "what only streams do",
}


def pytest_configure(config: pytest.Config) -> None:
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


@pytest.fixture(scope="session")
def endpoint(broker) -> Endpoint:
    return Endpoint(broker.host, broker.port, broker.user, broker.password, broker.vhost)


@pytest.fixture(scope="session")
def janitor(endpoint: Endpoint) -> Iterator[Callable[[list[str]], None]]:
    """Deletes queues and exchanges, over one connection for the whole run."""
    kept: list[Channel] = []

    def clean(names: list[str]) -> None:
        # What is not there is deleted with success, so every name is tried as both. A queue is refused only when it is
        # exclusive, and then about to go with its connection.
        if not kept:
            kept.append(Connection(endpoint).login().channel())
        for each in names:
            kept[0].attempt("exchange.delete", exchange=each)
            kept[0].attempt("queue.delete", queue=each)

    def clean_also_after_a_restart(names: list[str]) -> None:
        try:
            clean(names)
        except (SocketEnded, ConnectionClosed):
            kept.clear()
            clean(names)

    yield clean_also_after_a_restart
    for channel in kept:
        channel.connection.hang_up()


@pytest.fixture
def made_names(janitor: Callable[[list[str]], None]) -> Iterator[list[str]]:
    """Queues and exchanges of these names are deleted when all connections of the test are gone."""
    made: list[str] = []
    yield made
    if made:
        janitor(made)


@pytest.fixture
def name(request: pytest.FixtureRequest, made_names: list[str]) -> Callable[..., str]:
    """Makes names that are nobody else's."""
    test = re.sub(r"\W+", "-", request.node.originalname.removeprefix("test_"))[:60]

    def name(suffix: str = "") -> str:
        made_names.append(f"{test}.{uuid.uuid4().hex[:8]}{suffix}")
        return made_names[-1]

    return name


@pytest.fixture
def dial(endpoint: Endpoint, made_names: list[str]) -> Iterator[Callable[[], Connection]]:
    """Opens sockets that have said nothing yet."""
    opened: list[Connection] = []

    def dial() -> Connection:
        opened.append(Connection(endpoint))
        return opened[-1]

    yield dial
    for connection in opened:
        connection.hang_up()


@pytest.fixture
def connect(dial: Callable[[], Connection]) -> Callable[..., Connection]:
    """Opens connections; keywords are those of [`Connection.login`]."""
    return lambda **options: dial().login(**options)


@pytest.fixture
def connection(connect: Callable[..., Connection]) -> Connection:
    return connect()


@pytest.fixture
def channel(connection: Connection) -> Channel:
    return connection.channel()
