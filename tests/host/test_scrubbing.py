"""When the log is read again, how much at a time, and which damage reaches the core.

Retired files stay for the delay and are then removed one by one on the bulk lane.
"""

from pathlib import Path

import pytest

from pykraft.config import LogSettings
from pykraft.core.events import CorruptionFound
from pykraft.host.inbox import Inbox
from pykraft.host.scrubbing import PIECE_MS, FileRemoval, Scrubbing, lingering
from pykraft.log.log import Log
from pykraft.types import Io, Offset
from tests.disks import ScriptedDisk
from tests.host.fakes import FakePorts, at
from tests.log.logs import DIRECTORY, batch, fill, open_log, run_of

COUNT = 12
SIZE_BYTES = len(batch(0)[1])
LOG_0 = DIRECTORY / f"{0:020d}.log"


class Desk:
    """A log of twelve batches in one file, read two batches at a time."""

    def __init__(self, *, bytes_per_s: int = SIZE_BYTES * 2 * 1_000 // PIECE_MS, interval_ms: int = 60_000) -> None:
        self.fs = ScriptedDisk()
        self.log: Log
        self.log, _ = open_log(self.fs)
        fill(self.log, run_of(0, COUNT))
        self.ports = FakePorts()
        self.inbox = Inbox()
        settings = LogSettings(scrub_bytes_per_s_max=bytes_per_s, scrub_interval_ms=interval_ms)
        self.scrubbing = Scrubbing(self.ports, self.inbox, self.log, settings)
        self.retries = 0

    def poll(self, mono_ms: int) -> None:
        self.scrubbing.poll(at(mono_ms), Offset(COUNT))

    def damage(self, offset: int) -> None:
        content = bytearray(self.fs.read(LOG_0))
        content[offset * SIZE_BYTES + 70] ^= 1
        self.fs.write(LOG_0, bytes(content))

    def reported(self) -> list[int]:
        """Where the core was told of damage, since the last call."""
        offsets = []
        while (arrival := self.inbox.take()) is not None:
            assert isinstance(arrival.event, CorruptionFound)
            offsets.append(int(arrival.event.damage.start_offset))
        return offsets

    def retry(self) -> None:
        self.retries += 1

    def suspect(self, offset: int) -> None:
        self.scrubbing.suspect(Offset(offset), self.retry)


def test_a_piece_is_read_in_each_period_until_the_pass_is_over_and_then_nothing_until_the_next() -> None:
    desk = Desk()
    for piece in range(COUNT // 2 + 1):
        desk.poll(piece * PIECE_MS)
        desk.ports.finish_read()
        desk.poll(piece * PIECE_MS + PIECE_MS - 1)
        assert desk.ports.reads == []
        assert desk.scrubbing.scrubbed_bytes == min(COUNT, 2 * (piece + 1)) * SIZE_BYTES
    assert desk.scrubbing.next_deadline_ms == 60_000
    desk.poll(59_999)
    assert desk.ports.reads == []
    desk.poll(60_000)
    desk.ports.finish_read()
    assert desk.scrubbing.scrubbed_bytes == (COUNT + 2) * SIZE_BYTES


def test_a_slow_disk_is_asked_for_one_piece_at_a_time() -> None:
    desk = Desk()
    for mono_ms in range(0, 10 * PIECE_MS, PIECE_MS):
        desk.poll(mono_ms)
    assert len(desk.ports.reads) == 1


def test_without_a_rate_nothing_is_read() -> None:
    desk = Desk(bytes_per_s=0)
    desk.poll(10**9)
    assert (desk.ports.reads, desk.scrubbing.next_deadline_ms) == ([], None)


def test_damage_is_told_to_the_core_in_a_step_that_comes_at_once() -> None:
    desk = Desk()
    desk.damage(1)
    desk.ports.wake_ms = 9_999
    desk.poll(0)
    desk.ports.finish_read()
    assert desk.ports.wake_ms == 0
    assert desk.reported() == [1]


def test_damage_that_was_cut_off_meanwhile_is_told_to_nobody() -> None:
    desk = Desk()
    desk.damage(1)
    desk.poll(0)
    desk.suspect(1)
    desk.scrubbing.truncated()
    desk.ports.finish_read()
    desk.ports.finish_read()
    assert (desk.reported(), desk.ports.reports, desk.retries) == ([], [], 1)


def test_what_a_read_met_is_looked_into_once_and_its_exact_place_is_told() -> None:
    desk = Desk()
    desk.damage(4)
    desk.damage(8)
    desk.suspect(8)
    desk.suspect(9)
    desk.ports.finish_read()
    assert desk.ports.reads == []
    assert (desk.reported(), desk.retries) == ([4], 0)
    desk.suspect(8)
    assert len(desk.ports.reads) == 1


def test_what_is_not_there_when_it_is_looked_at_is_reported_and_tried_again() -> None:
    desk = Desk()
    desk.suspect(8)
    desk.ports.finish_read()
    assert (desk.reported(), desk.retries) == ([], 1)
    assert desk.ports.reports == ["a read at offset 8 found damage that a second read did not find"]


SEGMENT = f"{0:020d}.log.deleted"
SNAPSHOT = f"{5:020d}-{1:010d}.checkpoint.deleted"
KEPT = [
    f"{0:020d}.log",
    f"{5:020d}-{1:010d}.checkpoint",
    f"{5:020d}-{1:010d}.checkpoint.part",
    "quorum-state",
    "x.deleted",
]
FOLDER = Path("/data")


class Place:
    """A directory with names in it, and its removal after a second."""

    def __init__(self, *names: str, delay_ms: int = 1_000) -> None:
        self.fs = ScriptedDisk()
        self.fs.prepare(FOLDER)
        self.ports = FakePorts()
        self.add(*names)
        self.removal = FileRemoval(self.ports, self.fs, FOLDER, delay_ms=delay_ms)

    def add(self, *names: str) -> None:
        for name in names:
            self.fs.open(FOLDER / name, create=True).close()

    def poll(self, mono_ms: int) -> list[str]:
        """Let it do what it wants to do at this time, to the end; what is left."""
        self.removal.poll(at(mono_ms))
        while self.ports.reads:
            self.ports.finish_read()
            self.removal.poll(at(mono_ms))
        return self.fs.listdir(FOLDER)

    def retired(self, io: int = 1) -> None:
        self.removal.retired_by(Io(io))
        self.removal.persisted(Io(io))


def test_nothing_is_looked_for_before_something_was_let_go_durably() -> None:
    place = Place(SEGMENT)
    assert place.poll(0) == [SEGMENT]
    place.removal.retired_by(Io(7))
    place.removal.persisted(Io(6))
    place.poll(0)
    assert place.removal.next_deadline_ms is None
    place.removal.persisted(Io(8))
    place.poll(0)
    assert place.removal.next_deadline_ms == 1_000


def test_a_start_may_know_that_something_lingers() -> None:
    place = Place(SEGMENT)
    removal = FileRemoval(place.ports, place.fs, FOLDER, delay_ms=0, is_to_look=True)
    removal.poll(at(0))
    place.ports.finish_read()
    removal.poll(at(0))
    place.ports.finish_read()
    assert place.fs.listdir(FOLDER) == []


def test_what_was_let_go_stays_for_the_delay_and_nothing_else_goes() -> None:
    place = Place(SEGMENT, SNAPSHOT, *KEPT)
    place.retired()
    place.poll(100)
    assert place.removal.next_deadline_ms == 1_100
    assert place.poll(1_099) == sorted([SEGMENT, SNAPSHOT, *KEPT])
    assert place.poll(1_100) == sorted(KEPT)
    assert place.removal.next_deadline_ms is None


def test_each_file_has_its_own_time() -> None:
    place = Place(SEGMENT)
    place.retired(1)
    place.poll(0)
    place.add(SNAPSHOT)
    place.retired(2)
    assert place.poll(600) == [SEGMENT, SNAPSHOT]
    assert place.poll(1_000) == [SNAPSHOT]
    assert place.poll(1_599) == [SNAPSHOT]
    assert place.poll(1_600) == []


def test_one_file_goes_at_a_time() -> None:
    place = Place(SEGMENT, SNAPSHOT, delay_ms=0)
    place.retired()
    place.removal.poll(at(0))
    place.ports.finish_read()
    for left in (2, 1):
        assert len(place.fs.listdir(FOLDER)) == left
        place.removal.poll(at(0))
        place.removal.poll(at(0))
        assert len(place.ports.reads) == 1
        assert place.removal.next_deadline_ms is None
        place.ports.finish_read()
        assert place.ports.wake_ms == 0
    assert place.fs.listdir(FOLDER) == []


def test_somebody_else_may_be_faster() -> None:
    place = Place(SEGMENT)
    place.retired()
    place.poll(0)
    place.fs.remove(FOLDER / SEGMENT)
    assert place.poll(1_000) == []


@pytest.mark.parametrize("name", KEPT)
def test_what_counts_does_not_linger(name: str) -> None:
    place = Place(name, SEGMENT)
    assert lingering(place.fs, FOLDER) == [SEGMENT]
