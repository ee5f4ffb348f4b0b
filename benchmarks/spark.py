"""Records per second through ``format("pykraft")`` over files, on local Spark: every column decoded, CRC checked.

    python benchmarks/spark.py [--records N] [--record-size N] [--batch N] [--cores N] [--runs N] [--dir DIR]

Writes a log of this many records, with a fixed number per batch, then reads it: to nowhere (every column of every row
reaches Spark), batches instead of records, and into Parquet. Prints one line per case: minimum, median and maximum of
the runs, after one that is not counted. Also prints the memory of Spark's Python processes: of the executors, which
read, the largest and all together (exit status 1 unless that is below 512 MiB), and of those that the driver plans
with.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.records import encode_batch
from pykraft.spark.session.local import local_session
from pykraft.types import Epoch, Offset

MEGA = 1_000_000
SEGMENT_SIZE_BYTES = 1 << 30
MIB = 1 << 20
POLL_S = 2.0
LIMIT_MIB = 512
SPARKS, READER = b"-m\0pyspark.", b"-m\0pyspark.daemon\0pyspark.worker\0"
"""In the command lines of Spark's Python processes, and of those that run tasks."""


def write_log(folder: Path, records: int, size_bytes: int, per_batch: int) -> int:
    """Write a partition directory with these records; returns its size in bytes."""
    pool = os.urandom(MIB) + bytes(size_bytes)
    written = 0
    segment = None
    for base_offset in range(0, records, per_batch):
        if segment is None or segment.tell() > SEGMENT_SIZE_BYTES:
            if segment is not None:
                segment.close()
            segment = (folder / segment_file(Offset(base_offset), LOG)).open("wb")
        count = min(per_batch, records - base_offset)
        starts = ((base_offset + index) * 64 % MIB for index in range(count))
        values = [pool[start : start + size_bytes] for start in starts]
        data = encode_batch(values, base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=base_offset).data
        written += segment.write(data)
    if segment is not None:
        segment.close()
    return written


class PythonMemory:
    """Watches Spark's Python processes below this one; keeps the largest memory at any time, in MiB.

    Forked processes share pages; in the total each page counts once (proportional set size).
    """

    def __init__(self) -> None:
        self.largest_reader_mib = 0
        self.readers_mib = 0
        self.planners_mib = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching; the figures are final."""
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(POLL_S):
            readers, planners = python_below(os.getpid())
            largest_mib = max((memory_mib(pid, "status", "VmHWM") for pid in readers), default=0)
            self.largest_reader_mib = max(self.largest_reader_mib, largest_mib)
            self.readers_mib = max(self.readers_mib, together_mib(readers))
            self.planners_mib = max(self.planners_mib, together_mib(planners))


def python_below(pid: int) -> tuple[list[int], list[int]]:
    """Spark's Python processes that descend from this one: the executors', and the driver's, which plan."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    readers: list[int] = []
    planners: list[int] = []
    level = {pid}
    while level := {child for child, parent in parents.items() if parent in level}:
        for each in level:
            command = content(each, "cmdline")
            if READER in command:
                readers.append(each)
            elif SPARKS in command:
                planners.append(each)
    return readers, planners


def content(pid: int, name: str) -> bytes:
    """The content of a process's file; empty when the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def memory_mib(pid: int, file: str, name: str) -> int:
    """One of the kernel's figures for a process, in MiB."""
    found = re.search(rf"^{name}:\s+(\d+) kB", content(pid, file).decode(), re.MULTILINE)
    return int(found[1]) // 1024 if found else 0


def together_mib(pids: list[int]) -> int:
    """What these processes use together now."""
    return sum(memory_mib(pid, "smaps_rollup", "Pss") for pid in pids)


def timed(name: str, records: int, size_bytes: int, runs: int, act: Callable[[], object]) -> None:
    """Run it once for warmth, then this many times."""
    act()
    took_s = []
    for _ in range(runs):
        begun = time.monotonic()
        act()
        took_s.append(time.monotonic() - begun)
    rates = sorted(records / each / MEGA for each in took_s)
    rate = size_bytes / statistics.median(took_s) / MEGA
    middle = statistics.median(rates)
    print(f"{name:10} {rates[0]:6.2f} / {middle:6.2f} / {rates[-1]:6.2f} M records/s, {rate:5.0f} MB/s", flush=True)


def measure(spark: SparkSession, folder: Path, size_bytes: int, options: argparse.Namespace) -> None:
    """Run all cases."""
    log, table = str(folder / "log"), str(folder / "table")

    def read(**given: str) -> DataFrame:
        return spark.read.format("pykraft").options(**given).load(log)

    def to_nowhere(**given: str) -> None:
        read(**given).write.format("noop").mode("overwrite").save()

    cases: dict[str, Callable[[], object]] = {
        "records": to_nowhere,
        "batches": lambda: to_nowhere(rows="batches"),
        "parquet": lambda: read().write.mode("overwrite").parquet(table),
    }
    for name, act in cases.items():
        timed(name, options.records, size_bytes, options.runs, act)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--record-size", type=int, default=100)
    parser.add_argument("--batch", type=int, default=500, help="records a batch")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--dir", help="folder for the log")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pykraft-bench-", dir=options.dir) as name:
        folder = Path(name)
        (folder / "log").mkdir()
        size_bytes = write_log(folder / "log", options.records, options.record_size, options.batch)
        memory = PythonMemory()
        spark = local_session("pykraft bench", cores=options.cores)
        try:
            measure(spark, folder, size_bytes, options)
        finally:
            spark.stop()
        memory.stop()
        readers = f"the largest took {memory.largest_reader_mib} MiB, all together {memory.readers_mib} MiB at one time"
        print(f"executors' Python: {readers}; the limit is {LIMIT_MIB} MiB")
        print(f"driver's Python, which plans: {memory.planners_mib} MiB")
    return 1 if max(memory.largest_reader_mib, memory.readers_mib) >= LIMIT_MIB else 0


if __name__ == "__main__":
    sys.exit(main())
