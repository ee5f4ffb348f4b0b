"""A sector that the disk cannot read damages what it held and nothing else, wherever it is found.

Source: ours (ADR 026).
"""

from __future__ import annotations

import pytest

from pykraft.errors import ReadError
from pykraft.log.log import Log
from pykraft.log.scan import scan_file, scan_headers
from pykraft.log.scrub import Scrub, find_damage
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, ONE, batch, bytes_of, content, fill, open_log, run_of

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
