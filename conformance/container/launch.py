"""The inside of a container, before its program: called by `unshare` as its child, as process 1.

    launch.py JSON    root (list of layers, highest first), mounts, hostname, uid, gid, environment, command, read_only
"""

import ctypes
import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys

SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCSIFADDR, SIOCSIFNETMASK = 0x8913, 0x8914, 0x8916, 0x891C
IFF_UP = 1


def bring_up(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sh14x", name, 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, asked))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", name, flags | IFF_UP))


def add_address(name, address):
    """An address besides 127.0.0.1: whoever comes from there is no local client."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for request, value in ((SIOCSIFADDR, address), (SIOCSIFNETMASK, "255.255.255.255")):
            packed = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(value))
            fcntl.ioctl(any_socket, request, packed)


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def make_mount_point(root, source, target):
    at = root / target.lstrip("/")
    if at.exists():
        return
    if source == "tmpfs" or pathlib.Path(source).is_dir():
        at.mkdir(parents=True)
    else:
        at.parent.mkdir(parents=True, exist_ok=True)
        at.touch()


def attach(root, source, target, options):
    at = str(root / target.lstrip("/"))
    if source == "tmpfs":
        mount("-t", "tmpfs", "-o", options or "mode=1777", "tmpfs", at)
        return
    mount("--bind", source, at)
    if options == "ro":
        mount("-o", "remount,bind,ro", at)


def main():
    told = json.loads(sys.argv[1])
    bring_up(b"lo")
    add_address(b"lo:0", told["address"])
    name = told["hostname"].encode()
    assert ctypes.CDLL(None).sethostname(name, len(name)) == 0

    place = pathlib.Path(told["place"])
    mount("-t", "tmpfs", "container", str(place))
    root, upper, work = place / "root", place / "upper", place / "work"
    for each in (root, upper, work):
        each.mkdir()
    layers = ":".join(told["layers"])
    mount("-t", "overlay", "-o", f"lowerdir={layers},upperdir={upper},workdir={work}", "container", str(root))
    (root / "etc/hostname").write_text(told["hostname"] + "\n")
    hosts = f"127.0.0.1 localhost\n::1 localhost\n{told['address']} {told['hostname']}\n"
    (root / "etc/hosts").write_text(hosts)
    if told["read_only"]:
        for source, target, _ in told["mounts"]:
            make_mount_point(root, source, target)
        # An overlay cannot be remounted as a bind; what is over it can.
        mount("--bind", str(root), str(root))
        mount("-o", "remount,bind,ro", str(root))
    mount("-t", "proc", "proc", str(root / "proc"))
    mount("--rbind", "/dev", str(root / "dev"))
    for source, target, options in told["mounts"]:
        # One may lie in another.
        make_mount_point(root, source, target)
        attach(root, source, target, options)

    os.chroot(root)
    os.chdir("/")
    os.setgroups([])
    os.setgid(told["gid"])
    os.setuid(told["uid"])
    os.execvpe(told["command"][0], told["command"], told["environment"])


main()
