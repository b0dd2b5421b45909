"""x-expires: a queue that goes when nobody uses it."""

import pytest

from .test_ttl import wait

pytestmark = pytest.mark.expiry


def _probe(channel, queue) -> bool:
    """Whether the queue exists, found out without using it: by what a publish to it meets."""
    channel.publish("", queue, "probe", mandatory=True)
    channel.send("channel.flow", active=True)
    answer = channel.next()
    if answer.name == "basic.return":
        channel.expect("channel.flow-ok")
    return answer.name == "channel.flow-ok"


def _queue(channel, name, milliseconds, kind="classic", **flags) -> str:
    queue = name()
    arguments = {"x-expires": milliseconds, "x-queue-type": kind}
    channel.declare_queue(queue, arguments=arguments, **(flags or {"durable": True}))
    return queue


@pytest.mark.parametrize(
    "kind, flags",
    [
        ("classic", {"durable": True}),
        ("classic", {"exclusive": True}),
        ("classic", {"durable": True, "auto_delete": True}),
        # RabbitMQ looks after these only every few seconds.
        pytest.param("quorum", {"durable": True}, marks=pytest.mark.slow),
    ],
    ids=["classic", "exclusive", "auto-delete", "quorum"],
)
def test_an_unused_queue_is_deleted_although_messages_arrive(channel, name, kind, flags):
    queue = _queue(channel, name, 200, kind, **flags)
    channel.eventually(lambda: not _probe(channel, queue))


def test_its_messages_are_not_dead_lettered(channel, name):
    dead, queue = channel.exclusive_queue(), name()
    arguments = {"x-expires": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.declare_queue(queue, durable=True, arguments=arguments)
    channel.publish("", queue, "body")
    channel.eventually(lambda: not _probe(channel, queue))
    channel.expect_nothing(dead)
    assert channel.depth(dead) == 0


def test_a_consumer_keeps_it_alive(channel, name):
    queue = _queue(channel, name, 100)
    channel.consume(queue, "t", no_ack=True)
    wait(channel, 300)
    channel.publish("", queue, "still here", mandatory=True)
    assert channel.bodies(1) == ["still here"]
    channel.call("basic.cancel", consumer_tag="t")
    # And now the countdown starts.
    channel.eventually(lambda: not _probe(channel, queue))


@pytest.mark.parametrize("use", ["passive declare", "declare", "get"])
def test_use_starts_the_countdown_anew(channel, name, use):
    queue = _queue(channel, name, 400)
    for _ in range(4):
        wait(channel, 150)
        if use == "get":
            assert channel.get(queue) is None
        elif use == "declare":
            channel.declare_queue(queue, durable=True, arguments={"x-expires": 400})
        else:
            channel.declare_queue(queue, passive=True)
    assert _probe(channel, queue)
    channel.eventually(lambda: not _probe(channel, queue))


def test_a_queue_without_the_argument_stays(channel, name):
    queue = name()
    channel.declare_queue(queue, durable=True)
    wait(channel, 300)
    assert _probe(channel, queue)
