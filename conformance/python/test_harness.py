"""conformance/run itself: what it says, and that it cannot succeed by testing nothing."""

import pathlib
import shutil
import socket
import subprocess

import pytest

RUN = pathlib.Path(__file__).resolve().parent.parent / "run"
LIMIT_SECS = 50


def run(*arguments):
    return subprocess.run(
        [RUN, "--suite", "python", *arguments], capture_output=True, text=True, timeout=LIMIT_SECS, check=False
    )


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_a_run_names_the_broker_it_tested_and_ends_with_one_line_for_the_suite(broker):
    done = run("--broker", broker.url, "the_broker_says_what_it_is")

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"broker under test: {broker}" in done.stdout.splitlines()
    assert last_line(done) == "python: 1 passed, 0 failed, 0 skipped (beyond: 0, not yet: 0)"


def test_tests_that_cannot_restart_the_broker_are_skipped_by_name(broker):
    done = run("--broker", broker.url, "survive_a_restart and SIGKILL")

    assert done.returncode == 0, done.stdout + done.stderr
    [skip] = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert "test_queue_and_persistent_tasks_survive_a_restart" in skip
    assert "needs to restart the broker" in skip
    assert last_line(done) == "python: 0 passed, 0 failed, 1 skipped (beyond: 0, not yet: 0)"


@pytest.fixture
def deaf_port():
    """A port at which nobody answers, and which nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_run_without_a_broker_fails(deaf_port):
    done = run("--broker", f"amqp://guest:guest@127.0.0.1:{deaf_port}")

    assert done.returncode == 1, done.stdout + done.stderr
    assert last_line(done).startswith("python: no result")


def test_a_filter_that_matches_nothing_is_a_failure(broker):
    done = run("--broker", broker.url, "no_test_has_this_name")

    assert done.returncode == 1, done.stdout + done.stderr
    assert last_line(done) == "python: 0 passed, 0 failed, 0 skipped (beyond: 0, not yet: 0)"


def test_a_suite_whose_language_is_missing_says_so_by_name(tmp_path):
    """On a machine that has a shell and little else."""
    for tool in ("env", "bash", "dirname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    summary = tmp_path / "summary"
    for suite, lacks in (("node", "node"), ("go", "go"), ("java", "java"), ("lapin", "cargo"), ("ruby", "ruby")):
        done = subprocess.run(
            [RUN.parent / suite / "run"],
            env={"PATH": str(tmp_path), "HOME": str(tmp_path), "SUMMARY_FILE": str(summary)},
            capture_output=True,
            text=True,
            timeout=LIMIT_SECS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert summary.read_text() == f"not run, no {lacks} on this machine; scripts/setup test installs it\n"
