"""Damages as a disk, an operator or a bug makes them, planted in a copy of one replica; each knows where it is.

``first`` and ``last`` bound the byte that an audit may name: the damaged one, or the beginning of the batch, entry or
line that holds it.
"""

import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from pykraft.protocol.batch import BatchHeader, crc_of, scan

ENTRY_SIZES = {".index": 8, ".timeindex": 12}
_CRC_AT, _EPOCH_AT = 17, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A damage: the audited directories, one of them with damage in this file."""

    kind: str
    directories: list[Path]
    replica: Path
    path: Path
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.kind} in {self.path} at {self.first} to {self.last}"


Plant = Callable[[Random, Path], tuple[Path, int, int] | None]


def plant_all(sources: list[list[Path]], folder: Path, count: int, seed: int) -> Iterator[Planted]:
    """So many damages, of each kind in turn, each in a copy of one of these replicas."""
    random, kinds, number = Random(seed), sorted(PLANTS), 0
    while number < count:
        kind = kinds[number % len(kinds)]
        directories = random.choice(sources)
        at = random.randrange(len(directories))
        copy = folder / f"{number}" / directories[at].parent.name
        shutil.copytree(directories[at], copy)
        (partition,) = (path for path in copy.iterdir() if path.is_dir())
        found = PLANTS[kind](random, partition)
        if found is None:
            # This replica has no such file.
            shutil.rmtree(copy)
            continue
        number += 1
        audited = [*directories[:at], copy, *directories[at + 1 :]]
        path, first, last = found
        yield Planted(kind=kind, directories=audited, replica=copy, path=path, first=first, last=last)


def batches(path: Path) -> list[tuple[int, BatchHeader]]:
    """Position and header of all batches of a file."""
    return list(scan(path.read_bytes()))


def _flipped(random: Random, path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << random.randrange(8)
    path.write_bytes(data)


def _any(random: Random, partition: Path, pattern: str) -> Path | None:
    paths = sorted(path for path in partition.glob(pattern) if path.read_bytes().strip(b"\0"))
    return random.choice(paths) if paths else None


def _flip_in_batches(random: Random, partition: Path, pattern: str) -> tuple[Path, int, int] | None:
    path = _any(random, partition, pattern)
    if path is None:
        return None
    start, header = random.choice(batches(path))
    position = start + random.randrange(header.size_bytes)
    _flipped(random, path, position)
    return path, start, position


def data(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A bit of a batch."""
    return _flip_in_batches(random, partition, "*.log")


def snapshot(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A bit of a snapshot."""
    return _flip_in_batches(random, partition, "*.checkpoint")


def index(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A bit of an entry of an index."""
    path = _any(random, partition, "*index")
    if path is None:
        return None
    size = ENTRY_SIZES[path.suffix]
    used = len(path.read_bytes().rstrip(b"\0"))
    position = random.randrange(used)
    _flipped(random, path, position)
    # An entry that is too large shows itself, or the next one does, which is then not above it.
    return path, position - position % size, position - position % size + 2 * size - 1


def epochs(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A bit of the epoch checkpoint; where the log was cleaned, not of the first entry, which nothing contradicts."""
    path = partition / "leader-epoch-checkpoint"
    content = path.read_bytes()
    lines = content.split(b"\n")
    is_whole = any(name.name.startswith("0" * 20 + ".log") for name in partition.iterdir())
    choices = [at for at in range(len(lines) - 1) if is_whole or at != 2]
    line = random.choice(choices)
    start = sum(len(each) + 1 for each in lines[:line])
    position = start + random.randrange(len(lines[line]) + 1)
    _flipped(random, path, position)
    return path, max(0, start - 2), position + len(lines[line]) + 2


def swapped(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """Two neighbors change places."""
    return _moved(random, partition, lambda one, two: two + one)


def doubled(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A batch is there twice."""
    return _moved(random, partition, lambda one, two: one + one + two)


def missing(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A batch is gone."""
    return _moved(random, partition, lambda _, two: two)


def _moved(random: Random, partition: Path, change: Callable[[bytes, bytes], bytes]) -> tuple[Path, int, int] | None:
    path = _any(random, partition, "*.log")
    assert path is not None
    found = batches(path)
    if len(found) < 2:
        return None
    at = random.randrange(len(found) - 1)
    (start, one), (middle, two) = found[at : at + 2]
    end = middle + two.size_bytes
    content = path.read_bytes()
    path.write_bytes(content[:start] + change(content[start:middle], content[middle:end]) + content[end:])
    return path, start, start + one.size_bytes + two.size_bytes


def epoch(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """The epoch of a batch is rewritten, which no CRC covers; not of the last, which may be a new leader's."""
    path = min(partition.glob("*.log"))
    start, header = random.choice(batches(path)[:-1])
    content = bytearray(path.read_bytes())
    content[start + _EPOCH_AT : start + _CRC_AT - 1] = struct.pack(">i", header.epoch + random.choice([-1, 1, 40]))
    path.write_bytes(content)
    return path, start, start + _CRC_AT


def record(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """A record has another content, with the right CRC: only another replica can tell."""
    path = _any(random, partition, "*.log")
    assert path is not None
    start, header = random.choice(batches(path))
    content = bytearray(path.read_bytes())
    content[start + header.size_bytes - 2] ^= 1
    batch = bytes(content[start : start + header.size_bytes])
    content[start + _CRC_AT : start + _CRC_AT + 4] = struct.pack(">I", crc_of(batch, 0, header))
    path.write_bytes(content)
    return path, start, start + _CRC_AT + 4


def truncated(random: Random, partition: Path) -> tuple[Path, int, int] | None:
    """The log ends too early, between two batches or within one."""
    path = max(partition.glob("*.log"))
    start, header = random.choice(batches(path))
    size = start + random.choice([0, random.randrange(header.size_bytes)])
    path.write_bytes(path.read_bytes()[:size])
    return path, start, size


PLANTS: dict[str, Plant] = {
    "data": data,
    "snapshot": snapshot,
    "index": index,
    "epoch checkpoint": epochs,
    "swapped": swapped,
    "doubled": doubled,
    "missing": missing,
    "epoch": epoch,
    "record": record,
    "truncated": truncated,
}
