"""Programs as processes whose output a test reads, and conditions that a test waits for."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time

import pytest

# How long a condition may take to come true. A machine that does nothing else needs a tenth.
LIMIT_SECS = 20
POLL_SECS = 0.02


def eventually(condition, wanted, shown, limit_secs=LIMIT_SECS):
    """Returns when `condition()` is true; if it never is, fails with what was wanted and how `shown` looks then."""
    deadline = time.monotonic() + limit_secs
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not so after {limit_secs} s: {wanted}\n{shown}", pytrace=False)
        time.sleep(POLL_SECS)


class Program:
    """A running program: its output line by line, its input, its end.

    It leads a process group of its own, so that `kill` ends it with all its children.
    """

    def __init__(self, name, command, environment, directory=None):
        self.name = name
        self.lines = []
        self._process = subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._is_killed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    def __str__(self):
        return f"{self.name} (pid {self._process.pid}):\n" + "\n".join(self.lines)

    @property
    def is_running(self):
        return self._process.poll() is None

    def printed(self, pattern):
        """The matches of all lines that contain the pattern, in order."""
        found = [re.search(pattern, line) for line in list(self.lines)]
        return [match for match in found if match]

    def wait_for(self, pattern, count=1, limit_secs=LIMIT_SECS):
        """Returns the first `count` matches, as soon as there are so many."""
        eventually(
            lambda: len(self.printed(pattern)) >= count or not self._reader.is_alive(),
            f"{count} lines with {pattern!r}",
            shown=self,
            limit_secs=limit_secs,
        )
        found = self.printed(pattern)
        assert len(found) >= count, f"ended without {count} lines with {pattern!r}: {self}"
        return found[:count]

    def say(self, line=""):
        """One line on its input."""
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def send_signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        """SIGKILL for the program and its children, which also ends those that are frozen."""
        if not self._is_killed:
            self._is_killed = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(LIMIT_SECS)
        self._reader.join(LIMIT_SECS)
        self._process.stdin.close()
        self._process.stdout.close()
