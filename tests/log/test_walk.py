"""After a bad batch the walk continues with the next one, whatever is wrong with the length.

Source: ours, after Kafka's ``DumpLogSegments``.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from pykraft.errors import ReadError
from pykraft.log.fs import File
from pykraft.log.os_fs import OsFs
from pykraft.log.walk import SEARCH_SIZE_BYTES, SECTOR_SIZE_BYTES, BadBytes, walk
from tests.log.data_directory import batch_size, flip, look, segments
from tests.log.logs import run_of


def test_damage_of_a_length_does_not_hide_what_follows(node: Path) -> None:
    path = segments(node)[0]
    size = batch_size(path)
    for bit in (1, 4, 64):
        whole = path.read_bytes()
        flip(path, size + 10, bit)  # the length of the second batch is off by 256 and more
        flip(path, 5 * size + 80)
        found = look(node).findings.damage
        assert [one.position for one in found] == [size, 5 * size]
        path.write_bytes(whole)


def pieces(path: Path) -> list[tuple[int, int, bool]]:
    """Position, end, and whether it is a batch."""
    file = OsFs().open(path)
    found = []
    for place in walk(path, file, file.size()):
        if isinstance(place, BadBytes):
            found.append((place.position, place.end, False))
        else:
            found.append((place[0], place[0] + place[1].size_bytes, True))
    file.close()
    return found


def test_the_walk_covers_every_byte_of_any_garbage(tmp_path: Path) -> None:
    random = Random(5)
    path = tmp_path / "log"
    for _ in range(200):
        data = bytearray(b"".join(data for _, data in run_of(0, 8)))
        for _ in range(random.randrange(1, 6)):
            data[random.randrange(len(data))] = random.randrange(256)
        path.write_bytes(data[: random.randrange(len(data))])
        found = pieces(path)
        assert [start for start, _, _ in found] == [0, *(end for _, end, _ in found)][: len(found)]
        assert not found or found[-1][1] == path.stat().st_size


def test_the_next_batch_is_found_behind_megabytes_of_garbage(tmp_path: Path) -> None:
    path = tmp_path / "log"
    (_, first), (_, second) = run_of(0, 2)
    for size_bytes in (1, 15, 16, 17, SEARCH_SIZE_BYTES - 30, 2 * SEARCH_SIZE_BYTES + 5):
        garbage = bytes([0x3F]) * size_bytes
        path.write_bytes(first + garbage + second)
        end = len(first) + size_bytes
        assert pieces(path) == [(0, len(first), True), (len(first), end, False), (end, end + len(second), True)]


def test_the_next_batch_is_found_behind_a_sector_that_the_disk_lost(tmp_path: Path) -> None:
    path = tmp_path / "log"
    batches = [data for _, data in run_of(0, 600)]
    path.write_bytes(b"".join(batches))
    size, lost = len(batches[0]), SECTOR_SIZE_BYTES * 3
    file = LostSector(OsFs().open(path), lost, lost + SECTOR_SIZE_BYTES)
    (bad,) = [place for place in walk(path, file, file.size()) if isinstance(place, BadBytes)]
    assert (bad.position, bad.header) == (lost // size * size, None)
    assert isinstance(bad.problem, ReadError)
    assert lost + SECTOR_SIZE_BYTES <= bad.end < lost + SECTOR_SIZE_BYTES + size
    file.close()


class LostSector:
    """A file whose disk has lost some bytes."""

    def __init__(self, file: File, start: int, end: int) -> None:
        self._file = file
        self._start = start
        self._end = end

    def pread(self, size_bytes: int, position: int) -> bytes:
        if position < self._end and self._start < position + size_bytes:
            raise ReadError("log", position=position, expected=f"{size_bytes} bytes", found="Input/output error")
        return self._file.pread(size_bytes, position)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
