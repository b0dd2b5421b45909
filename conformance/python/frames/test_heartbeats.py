"""Heartbeats. Each test waits for real time, so several connections wait at once."""

import time

import pytest

from .client import Connection, Dropped
from .wire import HEARTBEAT, Frame

pytestmark = [pytest.mark.connection, pytest.mark.slow]

HEARTBEAT_FRAME = Frame(HEARTBEAT, 0, b"")


def _frames_within(connection: Connection, seconds: float) -> list[Frame]:
    """What arrives in that time; ends early when the socket does."""
    end, frames = time.monotonic() + seconds, []
    while (left := end - time.monotonic()) > 0:
        try:
            frames.append(connection.read_frame(timeout=left))
        except AssertionError:
            break
    return frames


def test_an_idle_broker_sends_a_heartbeat_every_half_interval(connect):
    connection = connect(heartbeat=2)
    # Three are due after 1, 2 and 3 seconds, before the silence of the client is noticed.
    frames = [connection.read_frame(timeout=5) for _ in range(3)]
    assert frames == [HEARTBEAT_FRAME] * 3


def test_a_silent_client_is_dropped_without_a_close_and_others_are_not(connect):
    cases = {
        "silent": connect(heartbeat=1),
        "heartbeats": connect(heartbeat=1),
        "other frames": connect(heartbeat=1),
        "single bytes": connect(heartbeat=1),
        "no heartbeats agreed": connect(heartbeat=0),
    }
    channel = cases["other frames"].channel()
    slow_frame = Frame(HEARTBEAT, 0, b"").encode()
    for step in range(7):
        cases["heartbeats"].write(HEARTBEAT_FRAME.encode())
        channel.send("channel.flow", active=True)
        cases["single bytes"].write(slow_frame[step : step + 1])
        _frames_within(cases["heartbeats"], 0.7)
    assert cases["silent"].outcome(timeout=5) == Dropped()
    cases["single bytes"].write(slow_frame[7:])
    for _ in range(7):
        channel.expect("channel.flow-ok")
    assert all(connection.is_healthy() for case, connection in cases.items() if case != "silent")


def test_a_silent_client_is_not_dropped_within_two_intervals(connect):
    connection, start = connect(heartbeat=2), time.monotonic()
    assert connection.outcome(timeout=12) == Dropped()
    assert time.monotonic() - start >= 4


def test_no_heartbeats_come_when_none_are_agreed(connect):
    connection = connect(heartbeat=0)
    assert _frames_within(connection, 2.5) == []
    assert connection.is_healthy()


def test_a_closed_socket_does_not_wait_for_ever(connect):
    by_client, by_broker = connect(heartbeat=1), connect(heartbeat=1)
    by_client.send(0, "connection.close", reply_code=200)
    by_client.await_close_ok()
    by_broker.send(0, "channel.open")
    assert by_broker.expect("connection.close").reply_code == 504
    # Neither the end of the socket nor close-ok comes; the heartbeat interval bounds the patience.
    for connection in (by_client, by_broker):
        connection.expect_end()


@pytest.mark.parametrize("heartbeat", [0, 60])
def test_without_a_short_interval_a_closed_socket_waits_half_a_minute(connect, heartbeat):
    by_client, by_broker = connect(heartbeat=heartbeat), connect(heartbeat=heartbeat)
    start = time.monotonic()
    by_client.send(0, "connection.close", reply_code=200)
    by_client.await_close_ok()
    by_broker.send(0, "channel.open")
    assert by_broker.expect("connection.close").reply_code == 504
    for connection in (by_client, by_broker):
        connection.expect_end(timeout=40)
        assert time.monotonic() - start >= 29
