"""How fast the log is on this disk: groups appended and synced, recovery by scan, cold reads.

    python lab/benchmarks/log.py [--directory DIR] [--megabytes N] [--groups N]

Prints median and p99 of one lane pass by group size, and MB/s for recovery and reads by batch size. The directory
should be on the disk in question (not tmpfs); everything is removed again. The speed of cores and disks varies by a
factor of two within minutes: compare only results of one call.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pykraft.config import LogSettings
from pykraft.log.lane import AppendBytes, OrderedLane
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.proof_file import ProofFile
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.batch import BatchHeader, read_header
from pykraft.protocol.records import encode_batch
from pykraft.types import Buffer, Epoch, Io, Offset, Uuid

TOPIC_ID = Uuid(bytes(15) + b"\2")
MEGA = 1_000_000
Batch = tuple[BatchHeader, Buffer]


def batch_of(base_offset: int, size_bytes: int) -> Batch:
    """A batch of one record and about this many bytes."""
    value = bytes(max(size_bytes - 75, 1))
    return encode_batch([value], base_offset=Offset(base_offset), epoch=Epoch(1), timestamp_ms=1)


def batches_of(base_offset: int, count: int, size_bytes: int) -> list[Batch]:
    """Consecutive batches; the CRC does not cover the offset, so one encoding serves all."""
    _, data = batch_of(0, size_bytes)
    batches: list[Batch] = []
    for offset in range(base_offset, base_offset + count):
        moved = offset.to_bytes(8, "big") + data[8:]
        batches.append((read_header(moved), moved))
    return batches


def open_log(directory: Path) -> Log:
    log, _ = Log.open(OsFs(), directory, config=LogSettings(), topic_id=TOPIC_ID)
    return log


def bench_groups(directory: Path, group_bytes: int, groups: int, *, settles: bool) -> str:
    """One job per pass, each a batch of the group's size; with or without an idle moment between."""
    log = open_log(directory)
    notes = QuarantineFile(OsFs(), directory), ProofFile(OsFs(), directory)
    lane = OrderedLane(log, ElectionStore(OsFs(), directory), *notes)
    passes_ms: list[float] = []
    jobs = [AppendBytes(io=Io(at + 1), batches=[one]) for at, one in enumerate(batches_of(0, groups, group_bytes))]
    started = time.perf_counter()
    for job in jobs:
        before = time.perf_counter()
        lane.perform([job])
        passes_ms.append(1000 * (time.perf_counter() - before))
        if settles:
            lane.settle()
    rate = groups * group_bytes / MEGA / (time.perf_counter() - started)
    log.close()
    p50, p99 = statistics.median(passes_ms), statistics.quantiles(passes_ms, n=100)[98]
    return f"{rate:7.1f} MB/s  p50 {p50:6.2f} ms  p99 {p99:6.2f} ms"


def bench_whole_log(directory: Path, batch_bytes: int, megabytes: int) -> str:
    """Append without syncing, then open again, then read it all in pieces of 1 MiB."""
    count = megabytes * MEGA // batch_bytes
    batches = batches_of(0, count, batch_bytes)
    log = open_log(directory)
    append_s = timed(lambda: append_all(log, batches))
    log.close()
    open_s = timed(lambda: open_log(directory).close())
    log = open_log(directory)
    read_s = timed(lambda: read_all(log))
    size_bytes = log.size_bytes
    log.close()
    rates = (
        f"{what} {size_bytes / MEGA / took_s:7.0f} MB/s"
        for what, took_s in (("append, no sync", append_s), ("recovery", open_s), ("read", read_s))
    )
    return "  ".join(rates)


def append_all(log: Log, batches: list[Batch]) -> None:
    """Append in groups of 64."""
    for at in range(0, len(batches), 64):
        log.append(batches[at : at + 64])


def read_all(log: Log) -> None:
    """Read every batch, through the checked reader."""
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1024 * 1024)
        last_size_bytes = read_header(data).size_bytes
        offset = read_header(data, len(data) - last_size_bytes).end_offset


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, default=Path())
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--groups", type=int, default=300)
    arguments = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="bench-log-", dir=arguments.directory))
    try:
        for group_bytes in (4096, 65536, 1024 * 1024):
            for settles in (False, True):
                text = bench_groups(root / f"{group_bytes}-{settles}", group_bytes, arguments.groups, settles=settles)
                print(f"group of {group_bytes:8} bytes, {'idle between' if settles else 'back to back'}: {text}")
        for batch_bytes in (256, 1024, 16 * 1024, 256 * 1024):
            text = bench_whole_log(root / str(batch_bytes), batch_bytes, arguments.megabytes)
            print(f"batches of {batch_bytes:8} bytes: {text}")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
