"""A machine of its own for each page: network, processes, the clone and /tmp.

A page names ports (9093), folders (data/n1) and files in /tmp. In Linux namespaces each run has all of them for itself,
so its commands run exactly as printed, two pages can run at once, and nothing is left afterwards:

* network: only a loopback device, so every port is free, and nothing can be fetched;
* processes: when the first one ends, the kernel kills all others;
* files: /tmp is empty, and the clone is an overlay: a command sees all its files, and what it writes is in memory and
  gone at the end.

This needs root, or a system that lets users create user namespaces, as `pykraft chaos` does for full disks.

Source: namespaces(7), network_namespaces(7), pid_namespaces(7), netdevice(7); overlayfs.rst of Linux.
"""

import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.tidy.repository import ROOT

SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1
TMP = Path("/tmp")  # noqa: S108  the folder that pages name
LAYERS = Path("/mnt")
OUTSIDE = LAYERS / "outside"
"""Where the former /tmp is, for what a stage of CI prepared there."""
NAMES_FILES_IN_TMP = ("SPARK_SUBMIT_OPTS",)


def inside(command: Sequence[str]) -> list[str]:
    """The command that runs ``command`` in new namespaces; it is killed with everything in them when this one is."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return ["unshare", *user, *namespaces, *command]


def prepare() -> None:
    """Set the namespaces up. Called once, by the first process in them."""
    with socket.socket() as any_socket:
        request = struct.pack("16sh", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, request)
    _mount("-t", "tmpfs", "layers", str(LAYERS))
    upper, work, clone = (LAYERS / name for name in ("upper", "work", "clone"))
    for folder in (upper, work, clone, OUTSIDE):
        folder.mkdir()
    options = f"lowerdir={ROOT},upperdir={upper},workdir={work},userxattr"
    _mount("-t", "overlay", "clone", "-o", options, str(clone))
    _mount("--rbind", str(TMP), str(OUTSIDE))
    _mount("-t", "tmpfs", "tmp", str(TMP))
    ROOT.mkdir(parents=True, exist_ok=True)  # the clone may be in /tmp
    _mount("--bind", str(clone), str(ROOT))
    os.chdir(ROOT)  # the working directory was below what is mounted now
    for name in NAMES_FILES_IN_TMP:
        if name in os.environ:
            os.environ[name] = os.environ[name].replace(f"={TMP}/", f"={OUTSIDE}/")


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
