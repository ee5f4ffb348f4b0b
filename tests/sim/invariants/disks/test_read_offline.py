"""A recovery point that reads otherwise offline than when it is opened is found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.log.small_files.recovery_point import FILE_NAME, Point, RecoveryPoint
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks import read_offline
from pykraft.sim.invariants.disks.read_offline import OfflineReadersSeeTheNewest
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.types import Offset
from tests.sim.invariants.fakes import node, world

HOME = Path("/home")


@pytest.fixture
def found() -> Any:
    """A node whose recovery point was raised from 4 to 9, without a sync."""
    disk = VirtualDisk(Random(1))
    disk.mkdir(HOME)
    RecoveryPoint.create(disk, HOME, Offset(4)).raise_to(Offset(9), Offset(7))
    made = node(1)
    made.config.partition_directory, made.disk = HOME, disk
    return made


def content(found: Any) -> bytearray:
    held: bytearray = found.disk.directory(HOME).cached[FILE_NAME].cached
    return held


def test_both_take_the_newest(found: Any) -> None:
    before = bytes(content(found))
    OfflineReadersSeeTheNewest(world()).starting(found)
    assert bytes(content(found)) == before


def test_an_older_one_is_found(found: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_offline, "parse_recovery_point", lambda path, data: Point(Offset(4), Offset(0)))
    with pytest.raises(
        ViolationError, match=r"node 1 opens its recovery point as .*=9, .*=7.*, offline it reads as .*=4, "
    ):
        OfflineReadersSeeTheNewest(world()).starting(found)


def test_damage_is_damage_to_both(found: Any) -> None:
    content(found)[:] = b"?" * 9
    OfflineReadersSeeTheNewest(world()).starting(found)


def test_a_new_directory_has_none(found: Any) -> None:
    found.disk.remove(HOME / FILE_NAME)
    OfflineReadersSeeTheNewest(world()).starting(found)
    found.disk.wipe()
    OfflineReadersSeeTheNewest(world()).starting(found)
