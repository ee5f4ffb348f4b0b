"""Reads the processor time and memory of a process from Linux's ``/proc``.

Source: Linux man-pages ``proc(5)``.
"""

from __future__ import annotations

import os
from pathlib import Path

from lab.bench.contender import Usage
from pykraft.errors import LocalQuorumError, UsageError

PROC = Path("/proc")


def require_proc(proc: Path = PROC) -> None:
    """Errors: UsageError on a system without ``/proc``."""
    if not (proc / "self" / "status").exists():
        raise UsageError(f"there is no {proc}: CPU and memory can only be measured on Linux")


def usage_of(pid: int, name: str, proc: Path = PROC) -> Usage:
    """User and system time of all threads, and peak resident memory. Errors: LocalQuorumError if it has ended."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
        status = (proc / str(pid) / "status").read_text()
    except OSError as error:
        raise LocalQuorumError(f"{name} has ended") from error
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    if not peak:
        raise LocalQuorumError(f"{name} has ended")  # a zombie has no memory
    return Usage(cpu_s=ticks / os.sysconf("SC_CLK_TCK"), memory_mib=int(peak[0]) / 1024)
