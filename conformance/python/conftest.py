"""What every test of this suite shares: the broker under test, and a queue of one's own.

    broker              the `Broker` under test (see broker.py): url, host, port, user, password, vhost, connect(), ...
    restartable_broker  the same, for tests that stop and start it; skips by name where nobody may do that
    channel             an open pika channel
    queue_name          a name nobody else uses; the queue, if the test declared it, is deleted afterwards
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import uuid

import pytest

import broker as broker_under_test

LOG_TAIL_LINES = 40
BROKER = pytest.StashKey[broker_under_test.Broker]()
OWN_BROKER_DIR = pytest.StashKey[pathlib.Path]()
OUTCOMES = pytest.StashKey[dict]()
LOG_OFFSET = pytest.StashKey[int]()

LEVERET = pathlib.Path(__file__).resolve().parent.parent / "leveret"


def pytest_configure(config):
    config.stash[OUTCOMES] = {}
    # The harness ends a suite that takes too long. Like Ctrl-C: fixtures clean up and the summary says how far it came.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_sessionstart(session):
    """Before collection, because what gets skipped depends on which broker it is."""
    if session.config.option.collectonly:
        return
    try:
        found = broker_under_test.broker_from_environment() or start_private_leveret(session.config)
    except broker_under_test.BrokerUnavailable as reason:
        pytest.exit(f"no broker to test: {reason}", returncode=3)
    session.config.stash[BROKER] = found
    # For helpers that know nothing of pytest.
    os.environ["BROKER_URL"] = found.url


def start_private_leveret(config):
    """For a bare `pytest`; `conformance/run` starts the broker itself and puts its address into the environment."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="leveret-conformance-"))
    config.stash[OWN_BROKER_DIR] = directory
    os.environ["LEVERET_DIR"] = str(directory)
    started = subprocess.run(
        [LEVERET, "start"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=broker_under_test.CONTROL_LIMIT_SECS,
        check=False,
    )
    if started.returncode != 0:
        raise broker_under_test.BrokerUnavailable("conformance/leveret start failed")
    return broker_under_test.Broker(started.stdout.strip(), control=str(LEVERET))


def pytest_unconfigure(config):
    directory = config.stash.get(OWN_BROKER_DIR, None)
    if directory is not None:
        subprocess.run([LEVERET, "stop"], timeout=broker_under_test.CONTROL_LIMIT_SECS, check=False)
        shutil.rmtree(directory)


def pytest_report_header(config):
    found = config.stash.get(BROKER, None)
    return f"broker under test: {found}" if found else None


def pytest_collection_modifyitems(config, items):
    found = config.stash.get(BROKER, None)
    if found is None or not found.is_rabbitmq:
        return
    for item in items:
        if item.get_closest_marker("beyond"):
            item.add_marker(pytest.mark.skip(reason="beyond: RabbitMQ does not have this"))


@pytest.fixture(scope="session")
def broker(pytestconfig):
    return pytestconfig.stash[BROKER]


@pytest.fixture
def restartable_broker(broker):
    if not broker.is_controlled:
        address = f"{broker.host}:{broker.port}"
        pytest.skip(f"not run: needs to restart the broker, and nothing says how to restart the one at {address}")
    return broker


@pytest.fixture
def channel(broker):
    connection = broker.connect()
    yield connection.channel()
    if connection.is_open:
        connection.close()


@pytest.fixture
def queue_name(broker):
    name = f"conformance-{uuid.uuid4()}"
    yield name
    delete_queue(broker, name)


def delete_queue(broker, name):
    """Also if it does not exist: to delete a missing queue is no error."""
    with broker.connect() as connection:
        connection.channel().queue_delete(queue=name)


@pytest.fixture(autouse=True)
def broker_stays_up(request, broker):
    """A test during which the broker crashes or panics has failed, whatever the client saw of it."""
    offset_bytes = broker.log_size_bytes()
    request.node.stash[LOG_OFFSET] = offset_bytes
    yield
    down = broker.why_down()
    if down is not None:
        # For the tests that follow; this one is lost.
        broker.start()
        pytest.fail(f"the broker went down during this test: {down}", pytrace=False)
    panics = [line for line in broker.log_since(offset_bytes).splitlines() if "panicked at" in line]
    if panics:
        pytest.fail("the broker panicked during this test:\n" + "\n".join(panics), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    count_outcome(item.config.stash[OUTCOMES], report)
    found = item.config.stash.get(BROKER, None)
    if report.failed and found is not None:
        tail = found.log_since(item.stash.get(LOG_OFFSET, 0)).splitlines()[-LOG_TAIL_LINES:]
        if tail:
            report.sections.append((f"broker log during this test, last {len(tail)} lines", "\n".join(tail)))
    return report


def count_outcome(outcomes, report):
    """One outcome per test, although setup, call and teardown each report; the worst of them counts."""
    if report.failed:
        outcomes[report.nodeid] = "failed"
    elif report.skipped:
        is_beyond = "beyond" in report.keywords and "beyond: " in str(report.longrepr)
        outcomes.setdefault(report.nodeid, "beyond" if is_beyond else "skipped")
    elif report.when == "call":
        outcomes.setdefault(report.nodeid, "passed")


def pytest_sessionfinish(session, exitstatus):
    """The suite's summary, for `conformance/run` to print."""
    summary = os.environ.get("SUMMARY_FILE")
    if not summary:
        return
    outcomes = list(session.config.stash[OUTCOMES].values())
    passed, failed, skipped, beyond = (outcomes.count(word) for word in ("passed", "failed", "skipped", "beyond"))
    # A test file that cannot be read is no report of a test, but must not be silent either.
    failed += session.testsfailed and not failed
    pathlib.Path(summary).write_text(
        f"{passed} passed, {failed} failed, {skipped + beyond} skipped (beyond: {beyond})\n", encoding="utf-8"
    )
