"""Data of other releases."""

import shutil
import tarfile

from broker import Broker
from client import Client, drain
from faults import HERE, scenario
from history import History

KEPT = HERE / "kept"
"""One data directory of each format, as `faults.py` of that time left it: a killed broker with 50 messages in `jobs`."""


@scenario("FM37")
def every_format_since_the_first_is_read(case):
    archives = sorted(KEPT.glob("format-*.tar.gz"))
    assert archives, f"nothing is kept in {KEPT}"
    for archive in archives:
        place = case.scratch / archive.name.removesuffix(".tar.gz")
        with tarfile.open(archive) as kept:
            kept.extractall(place, filter="data")
        broker = case.keep(Broker(place / "data")).start()
        client = Client(broker.port)
        assert client.ask("queue.declare", "queue.declare-ok", queue="jobs", passive=True).message_count == 50
        client.ask("queue.bind", "queue.bind-ok", queue="jobs", exchange="kept-exchange", routing_key="another")
        history = History()
        history.attempts[1] = 50
        assert drain(broker.port, history, "jobs") == 50
        history.check()
        broker.stop()


@scenario("FM37")
def a_newer_format_is_refused_and_left_alone(case):
    broker = case.broker().start()
    broker.stop()
    (broker.directory / "format").write_text("leveret data, format 1000\n")
    before = sorted(path.name for path in broker.directory.rglob("*"))
    line = broker.refuses()
    assert "format 1000" in line and "newer release" in line, line
    assert sorted(path.name for path in broker.directory.rglob("*")) == before
    shutil.rmtree(broker.directory)
