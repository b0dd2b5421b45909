"""Queues that hold messages back which came back, longer each time, and not for ever."""

import time

import pytest

pytestmark = [pytest.mark.settling, pytest.mark.beyond]


def _queue(channel, name, **arguments) -> str:
    queue = name()
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.declare_queue(queue, durable=True, arguments={"x-retry-jitter": 0, **named})
    return queue


def _return(channel, queue, how) -> None:
    tag = channel.get(queue).delivery_tag
    if how == "nack":
        channel.nack(tag)
    else:
        channel.reject(tag)


@pytest.mark.parametrize("how", ["nack", "reject"])
def test_a_returned_message_is_not_ready_for_a_while_and_comes_back_to_its_place(channel, name, how):
    queue = _queue(channel, name, x_retry_min=400)
    channel.publish_all("", queue, ["one", "two"])
    began = time.monotonic()
    _return(channel, queue, how)
    assert channel.depth(queue) == 1
    two = channel.get(queue)
    assert (two.body, channel.get(queue)) == (b"two", None)
    channel.nack(two.delivery_tag)
    channel.expect_depth(queue, 2)
    assert time.monotonic() - began >= 0.4
    message = channel.get(queue)
    assert (message.body, message.redelivered) == (b"one", True)


def test_waits_grow(channel, name):
    queue = _queue(channel, name, x_retry_delays="1ms, 200ms, 400ms")
    channel.publish("", queue, "m")
    began = time.monotonic()
    for _ in range(3):
        channel.reject(channel.await_message(queue, no_ack=False).delivery_tag)
    assert channel.await_message(queue).redelivered and time.monotonic() - began >= 0.6


def test_after_its_last_attempt_a_message_is_dead(channel, name):
    dead = channel.exclusive_queue()
    queue = _queue(channel, name, x_retry_min=1, x_retry_limit=3, x_dead_letter_exchange="",
                   x_dead_letter_routing_key=dead)
    channel.publish("", queue, "m")
    for _ in range(3):
        channel.expect_nothing(dead)
        channel.nack(channel.await_message(queue, no_ack=False).delivery_tag)
    death = channel.await_message(dead).headers.plain()["x-death"][0]
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)


@pytest.mark.parametrize("on, held", [("failed", [False, True, True]), ("returned", [True, False, False])])
def test_what_counts_as_failed(connect, name, on, held):
    channel = connect().channel()
    queue = _queue(channel, name, x_retry_min=60000, x_retry_on=on)

    def lose(tag):
        nonlocal channel
        channel.close()
        channel = channel.connection.channel()

    for end, is_held in zip([lambda tag: channel.nack(tag), lambda tag: channel.reject(tag), lose], held):
        channel.publish("", queue, "m")
        channel.expect_depth(queue, 1)
        end(channel.get(queue).delivery_tag)
        channel.expect_depth(queue, 0 if is_held else 1)
        channel.call("queue.purge", queue=queue)


@pytest.mark.parametrize(
    "arguments, detail",
    [
        ({"x-retry-backoff": "often"}, "invalid_backoff"),
        ({"x-retry-min": "soon"}, "\"not a time: 'soon'\""),
        ({"x-retry-max": -1}, "\"not a time: '-1'\""),
        ({"x-retry-factor": 0}, "\"not a number: '0'\""),
        ({"x-retry-jitter": 2}, "\"not a number: '2'\""),
        ({"x-retry-delays": "1s,"}, "\"not times: '1s,'\""),
        ({"x-retry-limit": 0}, "{value_zero,0}"),
        ({"x-retry-on": "never"}, "invalid_occasion"),
    ],
)
def test_an_argument_out_of_range_is_refused_by_name(channel, name, arguments, detail):
    queue = name()
    channel.send("queue.declare", queue=queue, durable=True, arguments=arguments)
    [key] = arguments
    text = f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{queue}' in vhost '/': {detail}"
    channel.expect_close(406, text, "queue.declare")


@pytest.mark.parametrize("end", ["restart", "kill"])
def test_what_is_held_back_survives(restartable_broker, connect, name, end):
    channel = connect().channel()
    queue = _queue(channel, name, x_retry_min=8000)
    channel.select_confirms()
    for body in ("held", "ready"):
        channel.publish("", queue, body, {"delivery_mode": 2})
    channel.confirms(1, 2)
    began = time.monotonic()
    channel.reject(channel.get(queue).delivery_tag)
    channel.expect_depth(queue, 1)
    # Acks and returns are on disk 200 ms later at the latest; a synced publish takes them along.
    channel.publish("", queue, "later", {"delivery_mode": 2})
    channel.confirms(3, 3)
    channel.connection.close()
    getattr(restartable_broker, end)()
    channel = connect().channel()
    came = {}
    for _ in range(3):
        message = channel.await_message(queue)
        came[message.body] = (message.redelivered, time.monotonic() - began)
    assert list(came) in ([b"ready", b"later", b"held"], [b"held", b"ready", b"later"])
    redelivered, seconds = came[b"held"]
    assert redelivered and seconds >= 7.9
