"""What every test of this suite shares: the broker under test, and a queue of one's own.

    broker              the `Broker` under test (see broker.py): url, host, port, user, password, vhost, connect(), ...
    restartable_broker  the same, for tests that stop and start it; skips by name where nobody may do that
    channel             an open pika channel
    api                 the HTTP API of the broker under test (see http_api.py); skips by name where nobody says where it is
    vhost               a vhost of one's own, in which the administrator may do everything
    queue_name          a name nobody else uses; the queue, if the test declared it, is deleted afterwards
    exchange_name       the same for an exchange
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
import http_api

LOG_TAIL_LINES = 40
BROKER = pytest.StashKey[broker_under_test.Broker]()
OWN_BROKER_DIR = pytest.StashKey[pathlib.Path]()
OUTCOMES = pytest.StashKey[dict]()
LOG_OFFSET = pytest.StashKey[int]()

NOT_YET = pathlib.Path(__file__).resolve().parent / "not_yet.txt"
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
    if found is None:
        return
    not_yet = [] if found.is_rabbitmq else features_not_yet_there()
    unused = dict(not_yet)
    for item in items:
        if found.is_rabbitmq and item.get_closest_marker("beyond"):
            item.add_marker(pytest.mark.skip(reason="beyond: RabbitMQ does not have this"))
        for part, feature in not_yet:
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"not yet: {feature}"))
                unused.pop(part, None)
                break
    is_whole_suite = not config.option.keyword and config.args_source is not config.ArgsSource.ARGS
    if unused and is_whole_suite:
        raise pytest.UsageError(f"{NOT_YET.name} names tests that do not exist: {', '.join(unused)}")


def features_not_yet_there():
    """Parts of test ids, each with the feature that is missing; the file tells the rest."""
    lines = [line.strip() for line in NOT_YET.read_text(encoding="utf-8").splitlines()]
    pairs = [line.split(": ", 1) for line in lines if line and not line.startswith("#")]
    return [(part, feature) for feature, part in pairs]


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
def api(broker):
    if broker.http_url is None:
        pytest.skip("not run: needs the HTTP API, and neither BROKER_HTTP_URL nor a control command says where it is")
    return http_api.Api(broker.http_url)


@pytest.fixture
def vhost(api):
    name = f"conformance-{uuid.uuid4()}"
    api.put(f"vhosts/{name}")
    yield name
    api.delete(f"vhosts/{name}")


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


@pytest.fixture
def exchange_name(broker):
    name = f"conformance-{uuid.uuid4()}"
    yield name
    with broker.connect() as connection:
        connection.channel().exchange_delete(exchange=name)


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
        reason = str(report.longrepr)
        kind = "not yet" if "not yet: " in reason else "beyond" if "beyond: " in reason else "skipped"
        outcomes.setdefault(report.nodeid, kind)
    elif report.when == "call":
        outcomes.setdefault(report.nodeid, "passed")


def pytest_sessionfinish(session, exitstatus):
    """The suite's summary, for `conformance/run` to print."""
    summary = os.environ.get("SUMMARY_FILE")
    if not summary:
        return
    outcomes = list(session.config.stash[OUTCOMES].values())
    passed, failed, beyond, not_yet = (outcomes.count(word) for word in ("passed", "failed", "beyond", "not yet"))
    skipped = outcomes.count("skipped") + beyond + not_yet
    # A test file that cannot be read is no report of a test, but must not be silent either.
    failed += session.testsfailed and not failed
    pathlib.Path(summary).write_text(
        f"{passed} passed, {failed} failed, {skipped} skipped (beyond: {beyond}, not yet: {not_yet})\n", encoding="utf-8"
    )
