"""connection.tune, tune-ok, open."""

import pytest

from .client import SILENT_DROP, Close, Connection, Dropped, SocketEnded
from .wire import METHOD, encode_method

pytestmark = pytest.mark.connection


def _tuned(connection: Connection, **tune_ok: int) -> Connection:
    """Up to and including tune-ok."""
    connection.greet()
    connection.send_start_ok()
    connection.tune = connection.expect("connection.tune")
    connection.send_tune_ok(**tune_ok)
    return connection


def test_the_offer_is_that_of_the_default_configuration(connect):
    assert connect().tune.arguments == {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60}


@pytest.mark.parametrize(
    "tune_ok",
    [
        {"frame_max": 8192},
        {"frame_max": 131071},
        {"channel_max": 1},
        {"channel_max": 2046},
        {"heartbeat": 1},
        {"heartbeat": 61},
        {"heartbeat": 65535},
        {"heartbeat": 0},
    ],
    ids=lambda tune_ok: " ".join(f"{key}={value}" for key, value in tune_ok.items()),
)
def test_a_client_may_ask_for_less_and_for_any_heartbeat(connect, tune_ok):
    assert connect(**tune_ok).is_healthy()


@pytest.mark.slow
def test_a_tuning_that_cannot_be_served_ends_the_connection(dial):
    out_of_range = [
        {"frame_max": 0},
        {"frame_max": 1},
        {"frame_max": 4095},
        {"frame_max": 131073},
        {"frame_max": 2**32 - 1},
        {"channel_max": 0},
        {"channel_max": 2048},
        {"channel_max": 65535},
    ]
    out_of_order = [
        (0, "connection.open"),
        (0, "connection.close"),
        (0, "connection.start-ok"),
        (1, "channel.open"),
    ]
    # Silence and a drop are RabbitMQ's way; a close that says why is kinder.
    waiting: list[tuple[Connection, list[Close]]] = []
    for case in out_of_range:
        connection = _tuned(dial(), **case)
        connection.send(0, "connection.open", virtual_host=connection.vhost)
        waiting.append((connection, [Close(530, None, "connection.tune-ok")]))
    for channel, method in out_of_order:
        connection = dial()
        connection.greet()
        connection.send_start_ok()
        connection.expect("connection.tune")
        connection.send(channel, method)
        waiting.append((connection, [Close(503), Close(504), Close(505)]))
    for connection, better in waiting:
        connection.expect_outcome(Dropped(), better, timeout=SILENT_DROP)


@pytest.mark.slow
def test_a_frame_max_of_old_clients_is_refused_or_served(dial):
    # 4096 was the minimum before 4.3; to serve it is harmless.
    connection = _tuned(dial(), frame_max=4096)
    connection.send(0, "connection.open", virtual_host=connection.vhost)
    try:
        connection.expect("connection.open-ok", timeout=SILENT_DROP)
    except SocketEnded:
        pass


# --- open


@pytest.mark.parametrize("vhost", ["there-is-no-such-vhost", "", "%2F", "%2f", "//", " "], ids=repr)
def test_a_vhost_must_be_named_exactly(dial, vhost):
    connection = _tuned(dial())
    connection.send(0, "connection.open", virtual_host=vhost)
    connection.expect_close(530, f"NOT_ALLOWED - vhost {vhost} not found", "connection.open")
    connection.expect_end(timeout=2)


@pytest.mark.parametrize("arguments", [{"virtual_host": b"\xff"}, {"virtual_host": "/", "capabilities": b"\xff"}])
def test_a_malformed_string_of_open_is_a_frame_error_of_open(dial, arguments):
    connection = _tuned(dial())
    connection.send(0, "connection.open", **arguments)
    connection.expect_close(501, "FRAME_ERROR - Malformed UTF-8 in shortstr", "connection.open")


def test_the_other_fields_of_open_do_not_matter(dial):
    connection = _tuned(dial())
    connection.send(0, "connection.open", virtual_host=connection.vhost, capabilities="anything", insist=True)
    connection.expect("connection.open-ok")


def test_close_instead_of_open_is_a_state_violation(dial):
    connection = _tuned(dial())
    connection.send(0, "connection.close", reply_code=200, reply_text="", class_id=0, method_id=0)
    text = "CHANNEL_ERROR - unexpected method in connection state opening"
    connection.expect_close(504, text, "connection.close")


@pytest.mark.parametrize("method", ["connection.tune-ok", "connection.start-ok", "connection.close-ok", "channel.open"])
def test_another_method_instead_of_open_is_a_state_violation(dial, method):
    connection = _tuned(dial())
    connection.send(0, method)
    connection.expect_close(504, "CHANNEL_ERROR - unexpected method in connection state opening", method)


def test_a_channel_method_before_open_is_an_unexpected_frame(dial):
    connection = _tuned(dial())
    connection.send(1, "channel.open")
    connection.expect_close(505, "UNEXPECTED_FRAME - type 1, all octets = <<0,20,0,10,0>>", (0, 0))


def test_open_may_be_followed_by_work_at_once(dial):
    connection = _tuned(dial())
    connection.send(0, "connection.open", virtual_host=connection.vhost)
    connection.send(7, "channel.open")
    connection.send_frame(METHOD, 7, encode_method("channel.flow", active=True))
    connection.expect("connection.open-ok")
    assert [connection.next(7).name for _ in range(2)] == ["channel.open-ok", "channel.flow-ok"]


def test_behind_tune_ok_a_frame_may_be_as_large_as_agreed(dial):
    connection = _tuned(dial())
    connection.send_frame(METHOD, 1, b"\0" * 8193)
    octets = ",".join("0" * 16)
    text = f"UNEXPECTED_FRAME - type 1, first 16 octets = <<{octets}>>"
    connection.expect_close(505, text, (0, 0))


def test_behind_tune_ok_a_frame_above_what_was_agreed_is_fatal(dial):
    connection = _tuned(dial(), frame_max=8192)
    connection.send_frame(METHOD, 1, b"\0" * 8193)
    text = "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,8193,8184}"
    connection.expect_close(501, text, (0, 0))
