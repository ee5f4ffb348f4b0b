"""A download that does not go on where its file ends is found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.sim.disk import VirtualDisk
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.part_goes_on import DownloadGoesOnWhereItIs
from pykraft.sim.spoken import SliceAsked, Spoken
from pykraft.snapshot.files import part_path
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import node, world

SNAPSHOT = OffsetAndEpoch(Offset(9), Epoch(1))
HOME = Path("/home")


def holding(size_bytes: int, *, is_there: bool = True) -> Any:
    made = node(1, role="follower")
    made.disk, made.config.partition_directory = VirtualDisk(Random(1)), HOME
    if is_there:
        made.disk.mkdir(HOME)
        made.disk.open(part_path(HOME, SNAPSHOT, leader_epoch=Epoch(3)), create=True).pwrite([bytes(size_bytes)], 0)
    return made


def asks(who: Any, position: int) -> None:
    sliced = SliceAsked(snapshot_id=SNAPSHOT, position=position)
    DownloadGoesOnWhereItIs(world()).before_send(who, Spoken(epoch=3, sliced=sliced, target_id=2))


def test_the_end_of_the_file_is_right_and_0_without_one() -> None:
    asks(holding(70), 70)
    asks(holding(0), 0)
    asks(holding(0, is_there=False), 0)
    DownloadGoesOnWhereItIs(world()).before_send(holding(5), Spoken(epoch=3))


@pytest.mark.parametrize("position", [0, 69, 71])
def test_another_place_is_found(position: int) -> None:
    with pytest.raises(ViolationError, match=f"from {position} on, and holds 70 bytes of it"):
        asks(holding(70), position)
