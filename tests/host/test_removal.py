"""Retired files stay for the delay and are then removed one by one on the bulk lane.

Source: Kafka's ``internal.metadata.delete.delay.millis``; ``LogSegment.changeFileSuffixes``,
``Snapshots.markForDelete``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.host.removal import FileRemoval, lingering
from pykraft.types import Io
from tests.disks import ScriptedDisk
from tests.host.fakes import FakePorts, at

DIRECTORY = Path("/data")
SEGMENT = f"{0:020d}.log.deleted"
SNAPSHOT = f"{5:020d}-{1:010d}.checkpoint.deleted"
KEPT = [
    f"{0:020d}.log",
    f"{5:020d}-{1:010d}.checkpoint",
    f"{5:020d}-{1:010d}.checkpoint.part",
    "quorum-state",
    "x.deleted",
]


class Place:
    """A directory with names in it, and its removal after a second."""

    def __init__(self, *names: str, delay_ms: int = 1_000) -> None:
        self.fs = ScriptedDisk()
        self.fs.prepare(DIRECTORY)
        self.ports = FakePorts()
        self.add(*names)
        self.removal = FileRemoval(self.ports, self.fs, DIRECTORY, delay_ms=delay_ms)

    def add(self, *names: str) -> None:
        for name in names:
            self.fs.open(DIRECTORY / name, create=True).close()

    def poll(self, mono_ms: int) -> list[str]:
        """Let it do what it wants to do at this time, to the end; what is left."""
        self.removal.poll(at(mono_ms))
        while self.ports.reads:
            self.ports.finish_read()
            self.removal.poll(at(mono_ms))
        return self.fs.listdir(DIRECTORY)

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
    removal = FileRemoval(place.ports, place.fs, DIRECTORY, delay_ms=0, is_to_look=True)
    removal.poll(at(0))
    place.ports.finish_read()
    removal.poll(at(0))
    place.ports.finish_read()
    assert place.fs.listdir(DIRECTORY) == []


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
        assert len(place.fs.listdir(DIRECTORY)) == left
        place.removal.poll(at(0))
        place.removal.poll(at(0))
        assert len(place.ports.reads) == 1
        assert place.removal.next_deadline_ms is None
        place.ports.finish_read()
        assert place.ports.wake_ms == 0
    assert place.fs.listdir(DIRECTORY) == []


def test_somebody_else_may_be_faster() -> None:
    place = Place(SEGMENT)
    place.retired()
    place.poll(0)
    place.fs.remove(DIRECTORY / SEGMENT)
    assert place.poll(1_000) == []


@pytest.mark.parametrize("name", KEPT)
def test_what_counts_does_not_linger(name: str) -> None:
    place = Place(name, SEGMENT)
    assert lingering(place.fs, DIRECTORY) == [SEGMENT]
