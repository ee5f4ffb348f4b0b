"""Plans a query over a directory as large as wanted: ``python -m tests.spark.large_plan [--segments 10240]``.

The segments of the directory are sparse files of 1 GiB with the headers of two batches each, so that 10 TiB take 80 MiB
of disk. A plan reads nothing else of them. Prints the number of tasks, the time and this process's largest memory; exit
status 1 if the plan takes 10 s or more, or 512 MiB or more.
"""

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.os_fs import OsFs
from pykraft.log.paths import LOG, OFFSET_INDEX, segment_file
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.spark.data_source.file_plan import find_replicas, plan_batch, split_size_bytes
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.splits import Split
from pykraft.types import Offset
from tests.spark.logs import batch

GIB = 1024**3
RECORDS_PER_BATCH = 1_000
TIME_S_MAX, MEMORY_MIB_MAX = 10, 512


def write_sparse(partition: Path, segments: int, *, size_bytes: int = GIB) -> None:
    """A partition directory with so many segments of this size, and a small newest one; all but that one are synced."""
    partition.mkdir(parents=True)
    half = size_bytes // 2
    offset = 0
    for _ in range(segments):
        with (partition / segment_file(Offset(offset), LOG)).open("wb") as file:
            file.truncate(2 * half)
            for position in (0, half):
                file.seek(position)
                file.write(header(offset + (RECORDS_PER_BATCH if position else 0), half))
        index = partition / segment_file(Offset(offset), OFFSET_INDEX)
        index.write_bytes(OFFSET_ENTRY.pack(2 * RECORDS_PER_BATCH - 1, half))
        offset += 2 * RECORDS_PER_BATCH
    (partition / segment_file(Offset(offset), LOG)).write_bytes(batch([b"a"], base_offset=offset))
    RecoveryPoint.create(OsFs(), partition, Offset(offset)).close()


def header(base_offset: int, size_bytes: int) -> bytes:
    """The header of a batch of this size whose records are not there; nobody computes its CRC."""
    data = bytearray(batch([b"a"], base_offset=base_offset)[:HEADER_SIZE_BYTES])
    data[8:12] = (size_bytes - 12).to_bytes(4, "big")
    data[23:27] = (RECORDS_PER_BATCH - 1).to_bytes(4, "big")
    data[57:61] = RECORDS_PER_BATCH.to_bytes(4, "big")
    return bytes(data)


def plan(partition: Path, **options: str) -> list[Split]:
    """The tasks of a query over the directory."""
    parsed = parse_options({"path": str(partition)} | options)
    replicas = find_replicas(parsed.patterns)
    size_bytes = split_size_bytes(replicas, parsed)
    return [split for each in replicas for split in plan_batch(each, parsed, size_bytes=size_bytes).splits]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=10_240)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pykraft-plan-") as name:
        partition = Path(name) / "p-0"
        write_sparse(partition, options.segments)
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        splits = plan(partition)
        time_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    memory_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    largest_mib = max(each.end_position - each.position for each in splits) // 1024**2
    print(f"{options.segments / 1024:.1f} TiB: {len(splits)} tasks of up to {largest_mib} MiB")
    print(f"planned in {time_s:.1f} s ({cpu_s:.1f} s of processor time) with {memory_mib} MiB")
    return 1 if time_s >= TIME_S_MAX or memory_mib >= MEMORY_MIB_MAX else 0


if __name__ == "__main__":
    sys.exit(main())
