"""Programs that are not part of any test environment: RabbitMQ's own command line tools, from Debian's packages.

They are taken out of the packages into the cache, once per machine, and never become part of this project. A machine that
has no apt, or does not reach Debian's archive, has none of them.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CACHE = pathlib.Path(os.environ.get("LEVERET_CACHE") or pathlib.Path.home() / ".cache" / "leveret")
LIMIT_SECS = 240
MIRROR = "http://deb.debian.org/debian"


class NotThere(Exception):
    """Why a tool cannot be had here."""


def rabbitmqadmin_v1():
    """The script of the first generation, as RabbitMQ's management plugin carried it until 4.2."""
    # Bookworm's package has it whatever this machine runs; it needs nothing but Python.
    [script] = unpacked("rabbitmqadmin-v1", "bookworm", ["rabbitmq-server"], "**/priv/www/cli/rabbitmqadmin")
    return [sys.executable, str(script)], {}


def rabbitmqadmin_v2():
    """The binary of the second generation, with the one library that it needs beside the C library."""
    packages = ["rabbitmqadmin-ng", "libmimalloc3"]
    [binary] = unpacked("rabbitmqadmin-v2", "forky", packages, "usr/bin/rabbitmqadmin")
    libraries = {str(path.parent) for path in binary.parents[2].rglob("libmimalloc.so.*")}
    return [str(binary)], {"LD_LIBRARY_PATH": ":".join(libraries)}


def unpacked(name, release, packages, wanted):
    """The files `wanted` in these packages of a release of Debian's."""
    place = CACHE / name
    if not place.exists():
        for program in ("apt-get", "dpkg"):
            if shutil.which(program) is None:
                raise NotThere(f"no {program} on this machine, which takes {' and '.join(packages)} from Debian's archive")
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            scratch = pathlib.Path(scratch)
            download(scratch, release, packages)
            root = scratch / "root"
            for package in scratch.glob("*.deb"):
                run("dpkg", "--extract", package, root)
            if not list(root.glob(wanted)):
                raise NotThere(f"{' and '.join(packages)} of Debian {release} have no {wanted}")
            try:
                root.rename(place)
            except OSError:
                # Somebody else was faster.
                if not place.exists():
                    raise
    return sorted(place.glob(wanted))


def download(scratch, release, packages):
    """With lists of their own, so that the machine's packages stay what they are."""
    for directory in ("lists/partial", "cache/archives/partial", "none"):
        (scratch / directory).mkdir(parents=True)
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    signed = f"[signed-by={keys}]" if pathlib.Path(keys).exists() else ""
    (scratch / "sources.list").write_text(f"deb {signed} {MIRROR} {release} main\n", encoding="utf-8")
    options = {
        "Dir::Etc::SourceList": scratch / "sources.list",
        "Dir::Etc::SourceParts": scratch / "none",
        "Dir::State::Lists": scratch / "lists",
        "Dir::Cache": scratch / "cache",
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    told = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run("apt-get", *told, "--quiet", "update", cwd=scratch)
    run("apt-get", *told, "--quiet", "download", *packages, cwd=scratch)


def run(*command, cwd=None):
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT_SECS, check=False)
    except subprocess.TimeoutExpired as late:
        raise NotThere(f"{command[0]} took longer than {LIMIT_SECS} s") from late
    if done.returncode != 0:
        raise NotThere(f"{command[0]} failed: {done.stderr.strip().splitlines()[-1:]}")
