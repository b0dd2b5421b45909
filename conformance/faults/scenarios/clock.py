"""The system's clock is set while the broker runs."""

import shutil
import subprocess
import time

from client import Client, Consumer, Publisher, drain, publish_bytes
from faults import HERE, Skip, scenario
from history import History

from scenarios.clients import wait_for
from scenarios.kills import declare

DAY, HOUR = 86400, 3600


def settable_clock(case):
    """An environment for brokers, and a function that sets their clock off by so many seconds."""
    compiler = shutil.which("cc")
    if not compiler:
        raise Skip("needs a C compiler for a clock that can be set")
    library, offset = case.scratch / "clock_offset.so", case.scratch / "offset"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, HERE / "clock_offset.c", "-ldl"], check=True)
    offset.write_text("0")

    def set_off(seconds):
        # In one piece, since it may be read at any moment.
        fresh = offset.with_suffix(".new")
        fresh.write_text(str(seconds))
        fresh.replace(offset)

    return {"LD_PRELOAD": str(library), "CLOCK_OFFSET_FILE": str(offset)}, set_off


def logged_days(broker):
    """The dates of its log lines, which tell that its clock was set indeed."""
    return {line[:10] for line in broker.since_start().splitlines() if line[:2] == "20"}


@scenario("FM31")
def a_clock_that_is_set_moves_no_timeout_and_ends_no_message(case):
    environment, set_off = settable_clock(case)
    broker, history = case.broker(env=environment).start(), History()
    client = Client(broker.port)
    client.declare("hour", **{"x-message-ttl": HOUR * 1000})
    client.declare("second", **{"x-message-ttl": 1000})
    client.declare("held")
    Publisher(broker.port, history, "hour").publish_all(100)
    held = History()
    Publisher(broker.port, held, "held").publish_all(10)
    # An ack is late after half an hour, and a heartbeat after two seconds.
    holder = Consumer(broker.port, held, "held", acks=False, heartbeat=1)
    holder.pump_until(lambda: len(holder.deliveries) == 10, what="all deliveries")

    def second_passes():
        """A message lives a second, not less and not an hour."""
        client.write(publish_bytes(b"short", routing_key="second"))
        wait_for(lambda: client.count("second") == 1, 5, "the message is there")
        began = time.monotonic()

        def is_over():
            holder.pump(0.01)
            return client.count("second") == 0

        wait_for(is_over, 10, "the message is over after its second")
        took = time.monotonic() - began
        assert took > 0.5, f"over after {took:.1f} s"

    days = set()
    for seconds in (DAY, -HOUR, 0):
        set_off(seconds)
        # Long enough for two heartbeats.
        for _ in range(3):
            second_passes()
        # A line with a date.
        Client(broker.port).close()
        days |= logged_days(broker)
        assert client.count("hour") == 100, f"messages are over with a clock that is {seconds} s off"
        # A heartbeat may come, an end of its channel would raise.
        holder.pump(0)
        assert len(holder.deliveries) == 10, "somebody was handed something"
    assert len(days) > 1, f"the broker's clock was not set: {days}"
    # Also the one who holds them is as well as before.
    holder.ack_all()
    holder.close()
    set_off(DAY)
    broker.stop()
    # A start believes the clock that it finds: an hour has passed since they came.
    broker.start()
    client = Client(broker.port)
    wait_for(lambda: client.count("hour") == 0, 10, "what is over by the clock of the start is gone")
    declare(broker, "jobs")
    rest = History()
    Publisher(broker.port, rest, "jobs").publish_all(100)
    broker.stop()
    # Before what it has written itself.
    set_off(-HOUR)
    broker.start()
    drain(broker.port, rest, "jobs")
    rest.check()
    assert "panicked" not in broker.log.read_text(), broker.tail()
    broker.stop()
