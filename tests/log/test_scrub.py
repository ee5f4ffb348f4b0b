"""Reading a log again: each batch once in a pass, damage with its exact position, no alarm because of a truncation.

Source: ZFS' scrub, TigerBeetle's grid scrubber; rules of ours.
"""

from dataclasses import replace

import pytest

from pykraft.errors import StorageError
from pykraft.log.log import Log
from pykraft.log.scrub import Scrub, Scrubbed, find_damage
from pykraft.types import Damage, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import batch, fill, open_log, run_of

COUNT = 60
BATCH_SIZE_BYTES = len(batch(0)[1])
ALL = Offset(COUNT)


def log_on(fs: ScriptedDisk, count: int = COUNT) -> Log:
    log, _ = open_log(fs)
    fill(log, run_of(0, count))
    assert len(log.views()) > 2
    return log


def passed(scrub: Scrub, size_bytes: int, end_offset: Offset = ALL) -> list[Scrubbed]:
    """The pieces of one pass."""
    pieces = [scrub.step(size_bytes, end_offset)]
    while not pieces[-1].is_whole_pass and pieces[-1].damage is None:
        pieces.append(scrub.step(size_bytes, end_offset))
    return pieces


def damage_at(fs: ScriptedDisk, log: Log, offset: int, at: int = 70) -> tuple[str, int]:
    """Change one byte of the batch at this offset; its file and position."""
    view = next(view for view in log.views() if view.base_offset <= offset < view.end_offset)
    position = (offset - view.base_offset) * BATCH_SIZE_BYTES
    content = bytearray(fs.read(view.path))
    content[position + at] ^= 1
    fs.write(view.path, bytes(content))
    return str(view.path), position


@pytest.mark.parametrize("size_bytes", [1, 100, 1_000, 10**6])
def test_a_pass_reads_every_byte_once_and_the_next_one_begins_again(size_bytes: int) -> None:
    log = log_on(ScriptedDisk())
    scrub = Scrub(log)
    for _ in range(2):
        pieces = passed(scrub, size_bytes)
        assert sum(piece.size_bytes for piece in pieces) == log.size_bytes
        assert all(piece.size_bytes < size_bytes + BATCH_SIZE_BYTES for piece in pieces)
        assert pieces[-1] == Scrubbed(size_bytes=0, is_whole_pass=True)


@pytest.mark.parametrize("at", [3, 10, 13, 16, 18, 30, 70])
@pytest.mark.parametrize("offset", [0, 1, 19, 31, COUNT - 1])
def test_damage_is_found_where_it_is_whatever_byte_it_hit(offset: int, at: int) -> None:
    fs = ScriptedDisk()
    log = log_on(fs)
    path, position = damage_at(fs, log, offset, at)
    found = passed(Scrub(log), 100)[-1].damage
    assert found is not None
    assert (found.path, found.position, found.start_offset, found.end_offset) == (path, position, offset, None)
    assert found.expected
    assert find_damage(log, Offset(offset)) == found


def test_the_first_damaged_batch_of_a_segment_is_the_one_that_is_found() -> None:
    fs = ScriptedDisk()
    log = log_on(fs)
    damage_at(fs, log, 5)
    damage_at(fs, log, 2)
    assert found_at(find_damage(log, Offset(7))) == 2
    assert found_at(passed(Scrub(log), 10**6)[-1].damage) == 2


def found_at(damage: Damage | None) -> int | None:
    return damage.start_offset if damage else None


def test_nothing_at_or_above_the_end_is_looked_at() -> None:
    fs = ScriptedDisk()
    log = log_on(fs)
    damage_at(fs, log, 30)
    pieces = passed(Scrub(log), 100, Offset(30))
    assert sum(piece.size_bytes for piece in pieces) == 30 * BATCH_SIZE_BYTES


def test_a_pass_ends_where_the_log_ended_when_it_began_however_fast_it_grows() -> None:
    log = log_on(ScriptedDisk())
    scrub = Scrub(log)
    read_bytes = 0
    for offset in range(COUNT, COUNT + 200):
        fill(log, run_of(offset, 1))
        piece = scrub.step(BATCH_SIZE_BYTES, log.end_offset)
        read_bytes += piece.size_bytes
        if piece.is_whole_pass:
            break
    assert read_bytes == (COUNT + 1) * BATCH_SIZE_BYTES


def test_a_sound_segment_and_an_offset_outside_of_the_log_are_no_damage() -> None:
    log = log_on(ScriptedDisk())
    assert find_damage(log, Offset(3)) is None
    assert find_damage(log, ALL) is None


def test_after_a_truncation_a_segment_is_read_again_from_its_beginning() -> None:
    log = log_on(ScriptedDisk())
    scrub = Scrub(log)
    scrub.step(BATCH_SIZE_BYTES * 8, ALL)
    log.truncate_to(Offset(4))
    fill(log, [batch(4, epoch=2, size_bytes=33), *run_of(5, 9, epoch=2)])
    pieces = passed(scrub, 10**6)
    assert [piece.damage for piece in pieces] == [None] * len(pieces)
    assert sum(piece.size_bytes for piece in pieces) == log.size_bytes


def test_what_was_read_while_the_log_was_cut_is_no_damage() -> None:
    fs = ScriptedDisk()
    log = log_on(fs)
    before = log.views()

    class CutMeanwhile:
        """Shows the segments as they were, and that the log was cut once they were looked at."""

        generation = 7

        def views(self) -> object:
            self.generation += 1
            return before

    damage_at(fs, log, 3)
    shown = CutMeanwhile()
    assert Scrub(shown).step(10**6, ALL) == Scrubbed(size_bytes=0)  # type: ignore[arg-type]
    assert find_damage(shown, Offset(3)) is None  # type: ignore[arg-type]


def test_a_disk_that_cannot_be_read_is_no_damage() -> None:
    log = log_on(ScriptedDisk())

    class Broken:
        def pread(self, size_bytes: int, position: int) -> bytes:
            raise StorageError("a file", f"cannot read {size_bytes} bytes at {position}")

    class Unreadable:
        generation = 0

        def views(self) -> object:
            return [replace(view, file=Broken()) for view in log.views()]  # type: ignore[arg-type]

    with pytest.raises(StorageError, match="cannot read 100 bytes"):
        Scrub(Unreadable()).step(100, ALL)  # type: ignore[arg-type]
    with pytest.raises(StorageError, match="cannot read"):
        find_damage(Unreadable(), Offset(1))  # type: ignore[arg-type]


def test_an_empty_log_is_one_short_pass() -> None:
    log, _ = open_log(ScriptedDisk())
    assert Scrub(log).step(100, Offset(0)) == Scrubbed(size_bytes=0, is_whole_pass=True)
