"""Brokers as processes, and the ground they stand on: directories, images of disks, small file systems."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import urllib.request

from client import hang_up_all
from http_api import Api

BIN = os.environ.get("LEVERET_BIN", "")
START_LIMIT_SECS = 5.0
"""A start takes less than this, whatever happened before (DP9)."""
END_LIMIT_SECS = 30.0
WITH_API = ("--http-listen", "127.0.0.1:0")


class Broker:
    """One broker on one data directory, over any number of lives."""

    def __init__(self, directory, *arguments, wrapper=(), env=None):
        self.directory = pathlib.Path(directory)
        self.arguments, self.wrapper, self.env = list(arguments), list(wrapper), env
        self.process = None
        self.port = None
        self.http_port = self.metrics_port = None
        self.starts = 0
        self.slowest_start = 0.0
        self.log = self.directory.parent / (self.directory.name + ".log")
        self.ports_file = self.directory.parent / (self.directory.name + ".ports")

    def launch(self):
        """Starts the process and waits for nothing."""
        self.ports_file.unlink(missing_ok=True)
        command = [
            *self.wrapper,
            BIN,
            "--data-dir",
            str(self.directory),
            "--listen",
            "127.0.0.1:0",
            "--ports-file",
            str(self.ports_file),
            *self.arguments,
        ]
        self._log_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **(self.env or {})}
            )
        self.starts += 1
        return self

    def start(self, limit=START_LIMIT_SECS):
        began = time.monotonic()
        self.launch()
        while not self.ports_file.exists():
            if self.process.poll() is not None:
                raise AssertionError(f"the broker ended with {self.process.returncode} instead of starting:\n{self.tail()}")
            if time.monotonic() - began > limit + 25:
                raise AssertionError(f"the broker is not up after {limit + 25} s: {self.threads()}\n{self.tail()}")
            time.sleep(0.005)
        took = time.monotonic() - began
        self.slowest_start = max(self.slowest_start, took)
        assert took < limit, f"the start took {took:.1f} s:\n{self.tail()}"
        ports = json.loads(self.ports_file.read_text())
        self.port = ports["amqp"][0]
        self.http_port, self.metrics_port = (ports.get(name, [None])[0] for name in ("http", "metrics"))
        return self

    def api(self):
        """Its HTTP API; there is one where [`WITH_API`] is among its arguments."""
        return Api(f"http://guest:guest@127.0.0.1:{self.http_port}")

    def metrics(self):
        """What Prometheus is told; with `--metrics-listen` among its arguments."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def refuses(self):
        """Launches; the broker must end by itself with exit code 1. Its last line."""
        self.launch()
        code = self.process.wait(END_LIMIT_SECS)
        assert code == 1, f"exit code {code}:\n{self.tail()}"
        return self.since_start().strip().splitlines()[-1]

    @property
    def pid(self):
        """The broker's own, also below a wrapper."""
        if not self.wrapper:
            return self.process.pid
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def signal(self, number):
        os.kill(self.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.process.wait(END_LIMIT_SECS)

    def freeze(self):
        self.signal(signal.SIGSTOP)

    def stop(self):
        """An orderly end, without clients."""
        hang_up_all()
        self.signal(signal.SIGTERM)
        code = self.process.wait(END_LIMIT_SECS)
        assert code == 0, f"SIGTERM ended the broker with exit code {code}:\n{self.tail()}"

    def ended(self, limit=END_LIMIT_SECS):
        """Its exit code; it ends by itself."""
        return self.process.wait(limit)

    def is_up(self):
        return self.process is not None and self.process.poll() is None

    def end_quietly(self):
        """Whatever its state; for the end of a scenario."""
        if self.is_up():
            try:
                self.signal(signal.SIGKILL)
            except (OSError, IndexError):
                self.process.kill()
            self.process.wait(END_LIMIT_SECS)

    def rss(self):
        """Resident bytes of its own: not the pages of the program, which come when its functions are called for the first time."""
        _size, resident, shared = pathlib.Path(f"/proc/{self.pid}/statm").read_text().split()[:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")

    def written_to_logs(self):
        """Bytes its committer has written, whatever became of the files."""
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == "committer":
                counts = dict(line.split(": ") for line in (task / "io").read_text().splitlines())
                return int(counts["wchar"])
        raise AssertionError("the broker has no committer")

    def threads(self):
        """What each of its threads does; to find out why nothing happens."""
        found = []
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
            found.append(f"{(task / 'comm').read_text().strip()} {state} {(task / 'wchan').read_text()}")
        return ", ".join(found)

    def repair(self):
        """Runs `leveret repair` on its directory; what that printed."""
        return run(BIN, "repair", self.directory)

    def stat(self):
        return run(BIN, "storage", "stat", self.directory)

    def since_start(self):
        """What it logged in this life."""
        with self.log.open("rb") as log:
            log.seek(self._log_before)
            return log.read().decode(errors="replace")

    def tail(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])

    def newest_log(self):
        """The file that commits are being written to."""
        return max((self.directory / "rocksdb").glob("*.log"), key=lambda path: int(path.stem))

    def tables(self):
        return sorted((self.directory / "rocksdb").glob("*.sst"))

    def blobs(self):
        return sorted((self.directory / "rocksdb").glob("*.blob"))

    def copy_to(self, directory, *arguments):
        """Another broker on a copy of the directory as it is."""
        shutil.copytree(self.directory, directory)
        (pathlib.Path(directory) / "lock").unlink(missing_ok=True)
        return Broker(directory, *arguments)


def may_mount():
    """Whether images can be mounted here."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4"):
        return False
    return pathlib.Path("/dev/loop-control").exists()


class Image:
    """A small disk in a file, mounted. What was not synced is not in the file, which is what a power cut leaves."""

    def __init__(self, scratch, megabytes=512):
        self.scratch = pathlib.Path(scratch)
        self.file = self.scratch / "disk.img"
        self.place = self.scratch / "disk"
        with self.file.open("wb") as image:
            image.truncate(megabytes << 20)
        run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard", "-m", "0", self.file)
        self.mount()

    def mount(self):
        self.place.mkdir(exist_ok=True)
        run("mount", "-o", "loop", self.file, self.place)

    def unmount(self):
        run("umount", self.place)

    def cut_power(self, broker):
        """The broker and everything that was not synced are gone; the disk comes back as the file was."""
        broker.freeze()
        copy = self.scratch / "copy.img"
        run("cp", "--sparse=always", self.file, copy)
        broker.kill()
        self.unmount()
        copy.replace(self.file)
        self.mount()


def unmount_below(scratch):
    """Whatever a scenario left mounted."""
    mounts = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    places = [line.split()[1] for line in mounts]
    for place in sorted((place for place in places if place.startswith(f"{scratch}/")), reverse=True):
        subprocess.run(["fsfreeze", "--unfreeze", place], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["umount", "--lazy", place], check=False)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(str(part) for part in command)}: {done.stderr.strip()}"
    return done.stdout
