"""Batches and logs for the tests of this package."""

from collections.abc import Iterable
from pathlib import Path
from random import Random

from pykraft.config import LogSettings
from pykraft.log.fs import Fs
from pykraft.log.log import Log
from pykraft.log.recovery import Recovery
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, EpochStart, Offset, Uuid
from tests.disks import ScriptedDisk

DIRECTORY = Path("/data/topic-0")
TOPIC_ID = Uuid(bytes(15) + b"\2")


class AnySize(LogSettings):
    """Log settings without bounds: a segment may be as small as one batch."""

    def __post_init__(self) -> None:
        pass


SMALL = LogSettings(segment_size_bytes=2000, index_interval_bytes=200, index_size_bytes_max=480)
"""Segments of a few batches, indexes of many entries."""
ONE = LogSettings(index_size_bytes_max=480)
"""All in one segment, and small index files."""

EPOCH_1 = (EpochStart(epoch=Epoch(1), start_offset=Offset(0)),)
"""All of a log is of epoch 1."""

Batch = tuple[BatchHeader, bytes]


def batch(
    base_offset: int, *, count: int = 1, epoch: int = 1, size_bytes: int = 10, fill: int = 0, time: int = 0
) -> Batch:
    """One batch of ``count`` records of this size, each filled with one byte; ``time`` in ms."""
    return encode_batch(
        [bytes([fill % 256]) * size_bytes] * count,
        base_offset=Offset(base_offset),
        epoch=Epoch(epoch),
        timestamp_ms=1_000_000 + time,
    )


def run_of(base_offset: int, count: int, *, epoch: int = 1, size_bytes: int = 10, fill: int = 0) -> list[Batch]:
    """Batches of one record each, one after the other."""
    return [batch(base_offset + at, epoch=epoch, size_bytes=size_bytes, fill=fill) for at in range(count)]


def random_run(random: Random, base_offset: int, *, epoch: int = 1) -> list[Batch]:
    """One to five batches of random sizes and contents."""
    batches: list[Batch] = []
    for _ in range(random.randint(1, 5)):
        count, size_bytes = random.randint(1, 4), random.choice([1, 20, 300, 900])
        batches.append(batch(base_offset, count=count, epoch=epoch, size_bytes=size_bytes, fill=random.randrange(256)))
        base_offset += count
    return batches


def disk() -> ScriptedDisk:
    """A disk with the directory of the log, which is empty."""
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    return fs


def open_log(fs: Fs, config: LogSettings = SMALL, directory: Path = DIRECTORY) -> tuple[Log, Recovery]:
    """Open the log of the tests."""
    return Log.open(fs, directory, config=config, topic_id=TOPIC_ID)


def fill(log: Log, batches: Iterable[Batch]) -> None:
    """Append one batch at a time and flush at the end."""
    for one in batches:
        log.append([one])
    log.flush()


def content(log: Log, *, size_bytes_max: int = 1) -> list[bytes]:
    """All batches of a log, through its reader."""
    batches: list[bytes] = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = bytes(log.read(offset, size_bytes_max))
        for position, header in scan(data):
            assert header.base_offset <= offset < header.end_offset
            batches.append(data[position : position + header.size_bytes])
            offset = header.end_offset
    return batches


def bytes_of(batches: Iterable[Batch]) -> list[bytes]:
    """The encoded batches alone."""
    return [data for _, data in batches]
