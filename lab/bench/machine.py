"""Describes the machine and the time of a measurement; figures mean nothing without them.

Source: Linux man-pages ``proc(5)``.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pykraft import __version__
from pykraft.process.hot_modules import kind_of_modules

CPUINFO = Path("/proc/cpuinfo")


def machine() -> dict[str, str | int]:
    """Date (UTC), cores, processor, memory (MiB), kernel, Python, pykraft, event loop, compiled or plain modules."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "processor": _processor(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": sys.version.split()[0],
        "pykraft": __version__,
        "loop": _loop(),
        "modules": kind_of_modules(),
    }


def _processor() -> str:
    try:
        lines = CPUINFO.read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _loop() -> str:
    try:
        return f"uvloop {version('uvloop')}"
    except PackageNotFoundError:
        return "asyncio"
