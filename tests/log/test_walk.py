"""After a bad batch or sector the walk continues with the next batch, whatever is wrong with the length.

Source: ours (ADR 026), after Kafka's ``DumpLogSegments``.
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.errors import ReadError
from pykraft.log.fs import File
from pykraft.log.log import Log
from pykraft.log.os_fs import OsFs
from pykraft.log.scan import scan_file, scan_headers
from pykraft.log.scrub import Scrub, find_damage
from pykraft.log.walk import SEARCH_SIZE_BYTES, SECTOR_SIZE_BYTES, BadBytes, walk
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.data_directory import batch_size, flip, segments, verified
from tests.log.logs import DIRECTORY, ONE, batch, bytes_of, content, fill, open_log, run_of


def test_damage_of_a_length_does_not_hide_what_follows(node: Path) -> None:
    path = segments(node)[0]
    size = batch_size(path)
    for bit in (1, 4, 64):
        whole = path.read_bytes()
        flip(path, size + 10, bit)  # the length of the second batch is off by 256 and more
        flip(path, 5 * size + 80)
        found = verified(node).findings.damage
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


COUNT = 10
SIZE_BYTES = len(batch(0)[1])
NAME = f"{0:020d}.log"


def log_on(fs: ScriptedDisk) -> Log:
    log, _ = open_log(fs, ONE)
    fill(log, run_of(0, COUNT))
    return log


def lose(fs: ScriptedDisk, offset: int, *, at: int = 70) -> None:
    """One byte of the batch at this offset is on a lost sector."""
    position = offset * SIZE_BYTES + at
    fs.lost[NAME] = range(position, position + 1)


@pytest.mark.parametrize("at", [0, 30, SIZE_BYTES - 1])
@pytest.mark.parametrize("has_point", [True, False])
@pytest.mark.parametrize("offset", [0, 4, COUNT - 1])
def test_a_start_finds_it_and_takes_it_for_no_torn_tail(offset: int, at: int, *, has_point: bool) -> None:
    fs = ScriptedDisk()
    log_on(fs).close()
    if not has_point:
        fs.remove(DIRECTORY / "recovery-point")
    before = bytes(fs.read(DIRECTORY / NAME)) if offset else b""
    lose(fs, offset, at=at)
    log, recovery = open_log(fs, ONE)
    (damage,) = recovery.corrupt
    assert (damage.start_offset, damage.end_offset) == (offset, COUNT if has_point else None)
    assert damage.found == "Input/output error"
    assert content(log) == bytes_of(run_of(0, offset))
    log.truncate_to(Offset(offset))
    fs.lost.clear()
    assert fs.read(DIRECTORY / NAME) == before[: offset * SIZE_BYTES]
    fill(log, run_of(offset, COUNT, fill=3))
    log.close()
    assert open_log(fs, ONE)[1].corrupt == ()


@pytest.mark.parametrize("offset", [1, 4, COUNT - 1])
def test_what_lies_before_it_is_read(offset: int) -> None:
    fs = ScriptedDisk()
    log = log_on(fs)
    lose(fs, offset)
    for at in range(offset):
        assert bytes(log.read(Offset(at), 10**6)).startswith(batch(at)[1])
    with pytest.raises(ReadError):
        log.read(Offset(offset), 1)
    with pytest.raises(ReadError):
        log.read(Offset(offset), 10**6)


@pytest.mark.parametrize("offset", [0, 4, COUNT - 1])
def test_a_scrub_and_a_closer_look_find_the_batch(offset: int) -> None:
    fs = ScriptedDisk()
    log = log_on(fs)
    lose(fs, offset)
    pieces = [Scrub(log).step(10**6, Offset(COUNT))]
    assert pieces[0].damage is not None
    assert pieces[0].damage.start_offset == offset
    found = find_damage(log, Offset(COUNT - 1))
    assert found is not None
    assert (found.start_offset, found.position) == (offset, offset * SIZE_BYTES)


@pytest.mark.parametrize("offset", [0, 4, COUNT - 1])
@pytest.mark.parametrize("scan", [scan_file, scan_headers])
def test_a_walk_yields_all_before_it(offset: int, scan: object) -> None:
    assert callable(scan)
    fs = ScriptedDisk()
    log_on(fs).close()
    lose(fs, offset, at=5)
    kept: list[int] = []
    walk = scan(DIRECTORY / NAME, fs.open(DIRECTORY / NAME), 0, COUNT * SIZE_BYTES)
    with pytest.raises(ReadError):
        kept.extend(header.base_offset for _, header in walk)
    assert kept == list(range(offset))
