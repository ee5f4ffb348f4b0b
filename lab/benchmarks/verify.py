"""How fast recovery and `pykraft verify` read a log of 1 GiB, compared with a loop that reads it and computes the CRC.

    python lab/benchmarks/verify.py FOLDER [RECORD_SIZE] [RECORDS]

writes the log to an empty FOLDER (once; later calls use it again) and times all three times, in turn. Batches have 64
records of 256 bytes unless told otherwise; `186 1` makes batches of 256 bytes, in a log of 256 MiB. Each line has the
time by the clock and the processor time, which a busy machine changes less.
"""

import resource
import struct
import sys
import time
from dataclasses import replace
from pathlib import Path

from crc32c import crc32c

from pykraft.config import LogSettings
from pykraft.log.log import Log
from pykraft.log.offline.verify import verify
from pykraft.log.os_fs import OsFs
from pykraft.log.scan import CHUNK_SIZE_BYTES
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.records import encode_batch
from pykraft.types import Election, Epoch, NodeId, Offset, Uuid

SIZE_BYTES = 1024**3
SMALL_BATCHES_SIZE_BYTES = 256 * 1024**2
"""Size of a log whose batches are small, since each takes microseconds to write."""
LARGE_SIZE_BYTES_MIN = 4096
GROUP_SIZE_BYTES = 1024 * 1024
BASE_OFFSET = struct.Struct(">q")
RECORD_SIZE_BYTES = 256
RECORDS = 64
TOPIC_ID = Uuid(bytes(15) + b"\2")
RUNS = 3


def write_log(directory: Path, records: list[bytes], size_bytes_min: int | None = None) -> None:
    """Write batches of these records, until the log has this size; tell how far it is every second."""
    log, _ = Log.open(OsFs(), directory, config=LogSettings(), topic_id=TOPIC_ID)
    # The CRC does not cover the base offset, so all batches are copies of one.
    header, data = encode_batch(records, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1_000)
    rest = data[BASE_OFFSET.size :]
    if size_bytes_min is None:
        size_bytes_min = SIZE_BYTES if len(data) >= LARGE_SIZE_BYTES_MIN else SMALL_BATCHES_SIZE_BYTES
    group = max(1, GROUP_SIZE_BYTES // len(data))
    told_s = time.monotonic()
    while log.size_bytes < size_bytes_min:
        offsets = range(log.end_offset, log.end_offset + group * header.records_count, header.records_count)
        log.append([(replace(header, base_offset=Offset(at)), BASE_OFFSET.pack(at) + rest) for at in offsets])
        log.flush()
        if time.monotonic() - told_s > 1:
            told_s = time.monotonic()
            print(f"writing the log: {log.size_bytes * 100 // size_bytes_min} %", file=sys.stderr, flush=True)
    log.close()


def read_only(directory: Path) -> None:
    """The minimum that any check has to do."""
    for path in directory.glob("*.log"):
        file = OsFs().open(path)
        for position in range(0, file.size(), CHUNK_SIZE_BYTES):
            crc32c(file.pread(CHUNK_SIZE_BYTES, position))
        file.close()


def check(directory: Path) -> None:
    if not (directory / QUORUM_STATE).exists():
        # Without it verify reports damage, and reads the log once more to find out what to advise.
        ElectionStore(OsFs(), directory).write(Election(epoch=Epoch(1)), voters=(NodeId(1),), kraft_version=0)
    report = verify(OsFs(), directory, on_progress=lambda _: None)
    assert report.partitions[0].log.end_offset > Offset(0)
    assert not report.findings.damage, report.findings.damage


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
            start, start_cpu = time.perf_counter(), time.process_time()
            work(directory)
            seconds, cpu_s = time.perf_counter() - start, time.process_time() - start_cpu
            rate, cpu_rate = size_bytes / seconds / 1e6, size_bytes / cpu_s / 1e6
            print(
                f"{work.__name__:<10} {seconds:6.2f} s {rate:8.0f} MB/s   cpu {cpu_s:6.2f} s {cpu_rate:8.0f} MB/s",
                flush=True,
            )
    print(f"memory     {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:6.0f} MiB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:4]))
