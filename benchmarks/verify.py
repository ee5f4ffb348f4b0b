"""How fast recovery and `pykraft verify` read a log of 1 GiB, compared with a loop that reads it and computes the CRC.

    python benchmarks/verify.py FOLDER [RECORD_SIZE] [RECORDS]

writes the log to an empty FOLDER (once; later calls use it again) and times all three times, in turn. Batches have 64
records of 256 bytes unless told otherwise; `186 1` makes batches of 256 bytes.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

from crc32c import crc32c

from pykraft.config import LogSettings
from pykraft.log.log import Log
from pykraft.log.offline.verify import verify
from pykraft.log.os_fs import OsFs
from pykraft.log.scan import CHUNK_SIZE_BYTES
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset, Uuid

SIZE_BYTES = 1024**3
RECORD_SIZE_BYTES = 256
RECORDS = 64
TOPIC_ID = Uuid(bytes(15) + b"\2")
RUNS = 3


def write_log(directory: Path, records: list[bytes], size_bytes_min: int = SIZE_BYTES) -> None:
    """Write batches of these records, until the log has this size."""
    log, _ = Log.open(OsFs(), directory, config=LogSettings(), topic_id=TOPIC_ID)
    size_bytes = 0
    while size_bytes < size_bytes_min:
        batch = encode_batch(records, base_offset=log.end_offset, epoch=Epoch(1), timestamp_ms=1_000)
        log.append([batch])
        size_bytes += len(batch.data)
    log.flush()
    log.close()


def read_only(directory: Path) -> None:
    """The minimum that any check has to do."""
    for path in directory.glob("*.log"):
        file = OsFs().open(path)
        for position in range(0, file.size(), CHUNK_SIZE_BYTES):
            crc32c(file.pread(CHUNK_SIZE_BYTES, position))
        file.close()


def check(directory: Path) -> None:
    """The whole check; the log has no quorum-state, which is reported and costs nothing."""
    seen: list[int] = []
    report = verify(OsFs(), directory, on_progress=seen.append)
    assert report.partitions[0].log.end_offset > Offset(0)


def recovery(directory: Path) -> None:
    """What a start reads of a log whose recovery point is at its end."""
    log, found = Log.open(OsFs(), directory, config=LogSettings(), topic_id=TOPIC_ID)
    assert not found.corrupt
    log.close()


def main(folder: Path, record_size_bytes: int = RECORD_SIZE_BYTES, records: int = RECORDS) -> None:
    """Write the log if it is not there, then time."""
    directory = folder / "__raft_performance_test-0"
    if not directory.exists():
        write_log(directory, [bytes(record_size_bytes)] * records)
    size_bytes = sum(path.stat().st_size for path in directory.glob("*.log"))
    for _ in range(RUNS):
        for work in (read_only, recovery, check):
            start = time.perf_counter()
            work(directory)
            seconds = time.perf_counter() - start
            print(f"{work.__name__:<10} {seconds:6.2f} s {size_bytes / seconds / 1e6:8.0f} MB/s")
    print(f"memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:6.0f} MiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:4]))
