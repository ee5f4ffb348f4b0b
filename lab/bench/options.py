"""The options of a benchmark, checked before anything starts. Source of the record sizes: `pykraft.server.workload`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError
from pykraft.server.workload import Load
from pykraft.text.words import about, counted

START_S: Final = 5.0
"""What it takes to start and stop the nodes of a run, roughly."""
SEARCH_TRIES: Final = 5
"""Runs of a search for the highest rate, usually."""
NODES_MAX: Final = 9
RUNS_MAX: Final = 100
SECONDS_MAX: Final = 3_600.0
LINGER_MS_MAX: Final = 60_000
RATE_MAX: Final = 100_000_000
FREE_SHARE: Final = 0.6
"""Share of a folder's free space that a run may take."""
RUN_SIZE_BYTES_MIN: Final = 256 * 1024 * 1024
RUN_SIZE_BYTES_MAX: Final = 6 * 1024 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """See `pykraft bench raft --help`; ``records_per_s`` None means unthrottled. Errors: UsageError."""

    nodes: int = 3
    record_sizes_bytes: tuple[int, ...] = (100, 256, 1024)
    records_per_s: int | None = None
    seconds: float = 10.0
    warm_up_s: float = 8.0
    runs: int = 3
    linger_ms: int = 25
    folders: tuple[Path, ...]

    def __post_init__(self) -> None:
        require("--nodes", self.nodes, 1, NODES_MAX)
        require("--runs", self.runs, 1, RUNS_MAX)
        require("--linger-ms", self.linger_ms, 0, LINGER_MS_MAX)
        require("--seconds", self.seconds, 0.5, SECONDS_MAX)
        require("--warm-up", self.warm_up_s, 0, SECONDS_MAX)
        if self.records_per_s is not None:
            require("--throughput", self.records_per_s, 1, RATE_MAX)
        if not self.record_sizes_bytes:
            raise UsageError("--record-size: give at least one size")
        for size_bytes in self.record_sizes_bytes:
            Load(record_size_bytes=size_bytes)
        for folder in self.folders:
            require_folder(folder)

    def plan(self, *, contenders: int, searched: Sequence[str]) -> str:
        """How many runs there will be, and how long they take; the highest rates of ``searched`` are found first."""
        turns = len(self.folders) * len(self.record_sizes_bytes)
        runs, run_s = turns * self.runs * contenders, self.warm_up_s + self.seconds + START_S
        told = f"{counted(runs, 'run')} of about {run_s:.0f} s: {about(runs * run_s)}"
        if not searched or self.records_per_s is not None:
            return told
        tries = counted(turns * len(searched) * SEARCH_TRIES, "run")
        return f"{told}; before them about {tries} to find the highest rate of {' and '.join(searched)}"


def run_size_bytes(folder: Path) -> int:
    """How many bytes the logs of one run may take there. Errors: UsageError if the folder is too full."""
    status = os.statvfs(folder)
    allowed = int(status.f_bavail * status.f_frsize * FREE_SHARE)
    if allowed < RUN_SIZE_BYTES_MIN:
        free_mib, needed_mib = status.f_bavail * status.f_frsize >> 20, int(RUN_SIZE_BYTES_MIN / FREE_SHARE) >> 20
        raise UsageError(f"--dir {folder}: only {free_mib} MiB are free, and a run needs {needed_mib} MiB")
    return min(allowed, RUN_SIZE_BYTES_MAX)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Parse ``100,256,1024``. Errors: UsageError."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) <= 9 for word in words):
        raise UsageError(f"--record-size {text}: give whole numbers of bytes with commas between them: 100,256,1024")
    return tuple(dict.fromkeys(map(int, words)))


def parse_throughput(text: str) -> int | None:
    """Parse ``max`` or records per second. Errors: UsageError."""
    if text == "max":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 12):
        raise UsageError(f"--throughput {text}: give a number of records a second, or max")
    return int(text)


def require(name: str, value: float, least: float, most: float) -> None:
    """Errors: UsageError outside of these bounds."""
    if not least <= value <= most:
        raise UsageError(f"{name} {value:.12g}: give {least:.12g} to {most:.12g}")


def require_folder(folder: Path) -> None:
    """Errors: UsageError if a run cannot write its files there."""
    if not folder.is_dir():
        raise UsageError(f"--dir {folder}: there is no such folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--dir {folder}: this user may not write there")
    run_size_bytes(folder)
