"""docker/Dockerfile without a container engine: its last stage, step by step, in a directory.

    image.py base-key, packages-key   what the first layers depend on
    image.py base DIR                 makes the first, the base image
    image.py packages BASE DIR        and from it the next: what the Dockerfile does up to its first RUN

The base image comes from Debian's archive instead of a registry, and the steps that an engine needs for its cache alone
are not there. Everything else is read from the Dockerfile, so that whoever changes it changes what is tested.
"""

import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "docker" / "Dockerfile"
# What debian:12-slim has; an engine's slim variant lacks documentation on top of that.
RELEASES = {"debian:12-slim": "bookworm"}
MIRROR = "http://deb.debian.org/debian"


def stages(text):
    """The instructions of each stage, as pairs of a word in capitals and the rest of its line."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", " ", text)
    found = []
    for line in text.splitlines():
        if line.strip():
            word, rest = line.split(None, 1)
            if word == "FROM":
                found.append([])
            found[-1].append((word, rest.strip()))
    return found


def last_stage():
    return stages(DOCKERFILE.read_text(encoding="utf-8"))[-1]


def first_layers(steps):
    """Up to the first RUN, which needs the network."""
    end = next(at for at, (word, _) in enumerate(steps) if word == "RUN") + 1
    return steps[:end], steps[end:]


def of(steps, word):
    return [rest for each, rest in steps if each == word]


def packages_key():
    steps, _ = first_layers(last_stage())
    digest = hashlib.sha256(json.dumps(steps).encode())
    for step in of(steps, "COPY"):
        digest.update((ROOT / step.split()[0]).read_bytes())
    return digest.hexdigest()


def carry_out(steps, root, binary=None):
    """The steps that make files."""
    for word, rest in steps:
        if word == "FROM":
            debootstrap = ["debootstrap", "--variant=minbase", RELEASES[rest], root, MIRROR]
            subprocess.run(debootstrap, check=True, stdout=subprocess.DEVNULL)
        elif word == "COPY":
            source, target = [each for each in rest.split() if not each.startswith("--")]
            if "--from=build" in rest:
                # What the stages before this one build: the program under test.
                assert source == "/out/leveret", source
                put(binary, pathlib.Path(f"{root}{target}"))
            elif (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, f"{root}{target}", dirs_exist_ok=True)
            else:
                put(ROOT / source, pathlib.Path(f"{root}{target}"))
        elif word == "RUN":
            inside = ["chroot", root, "/bin/sh", "-c", rest]
            subprocess.run(inside, check=True, env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


def put(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


class Settings:
    """What the Dockerfile says of how the image is run."""

    def __init__(self, steps):
        self.environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        for line in of(steps, "ENV"):
            for word in shlex.split(line):
                name, value = word.split("=", 1)
                self.environment[name] = value.replace("$PATH", self.environment["PATH"])
        self.entry_point = json.loads(of(steps, "ENTRYPOINT")[-1])
        self.command = json.loads(of(steps, "CMD")[-1])
        self.volumes = [each for line in of(steps, "VOLUME") for each in line.split()]
        self.ports = [int(each) for line in of(steps, "EXPOSE") for each in line.split()]
        self.user = of(steps, "USER")[-1]
        self.stop_signal = of(steps, "STOPSIGNAL")[-1]
        options, _, test = of(steps, "HEALTHCHECK")[-1].partition("CMD ")
        self.health_test = json.loads(test)
        self.health_options = dict(each.removeprefix("--").split("=") for each in options.split())


if __name__ == "__main__":
    first, _ = first_layers(last_stage())
    match sys.argv[1:]:
        case ["base-key"]:
            print(first[0])
        case ["packages-key"]:
            print(packages_key())
        case ["base", target]:
            carry_out(first[:1], target)
        case ["packages", base, target]:
            subprocess.run(["cp", "-a", f"{base}/.", target], check=True)
            # The resolver of the machine, as an engine has it in a container that builds.
            shutil.copy(os.path.realpath("/etc/resolv.conf"), f"{target}/etc/resolv.conf")
            carry_out(first[1:], target)
        case _:
            sys.exit(__doc__)
