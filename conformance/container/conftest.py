"""What the tests share: the image under test, and directories to mount.

    image       the `Image` under test (see container.py); its containers are gone after the test
    container   a container of the image as it comes, started; the same for all tests that only look
    volume      an empty directory that a container may have as its data
"""

import os
import pathlib
import subprocess
import sys

import pytest

import container as containers
import image as dockerfile

OUTCOMES = pytest.StashKey[dict]()


def pytest_configure(config):
    config.stash[OUTCOMES] = {}


@pytest.fixture(scope="session")
def layers(tmp_path_factory):
    """The layers of the image, highest first."""
    upper = tmp_path_factory.mktemp("image")
    apart = ["unshare", "--mount", "--propagation", "private"]
    here = pathlib.Path(__file__).resolve().parent / "layer.py"
    base = os.environ["IMAGE_BASE"]
    subprocess.run([*apart, sys.executable, here, base, upper, os.environ["LEVERET_BIN"]], check=True)
    return [str(upper / "upper"), base]


@pytest.fixture(scope="session")
def whole_image(layers):
    return containers.Image(layers, dockerfile.Settings(dockerfile.last_stage()))


@pytest.fixture
def image(whole_image):
    own = containers.Image(whole_image.layers, whole_image.settings)
    yield own
    own.remove_containers()


@pytest.fixture(scope="module")
def container(whole_image):
    own = containers.Image(whole_image.layers, whole_image.settings)
    yield own.start()
    own.remove_containers()


@pytest.fixture
def volume(tmp_path):
    path = tmp_path / "volume"
    path.mkdir()
    return path


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    outcomes = item.config.stash[OUTCOMES]
    if report.failed:
        outcomes[report.nodeid] = "failed"
    elif report.skipped:
        outcomes.setdefault(report.nodeid, "skipped")
    elif report.when == "call":
        outcomes.setdefault(report.nodeid, "passed")
    return report


def pytest_sessionfinish(session, exitstatus):
    """The suite's summary, for `conformance/run` to print."""
    summary = os.environ.get("SUMMARY_FILE")
    if not summary:
        return
    outcomes = list(session.config.stash[OUTCOMES].values())
    passed, failed, skipped = (outcomes.count(word) for word in ("passed", "failed", "skipped"))
    failed += session.testsfailed and not failed
    text = f"{passed} passed, {failed} failed, {skipped} skipped\n"
    pathlib.Path(summary).write_text(text, encoding="utf-8")
