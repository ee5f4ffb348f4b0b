"""Slices of a snapshot that are requested twice or left out are found."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.log.fs import make_directory
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.next_slice import NextSliceFollows
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.spoken import SliceAsked, Spoken
from pykraft.snapshot.files import part_path
from pykraft.types import Epoch
from tests.sim.invariants.fakes import node, snapshot_id, world

PARTITION = Path("/disk/log")


def fetching(size_bytes: int | None, **host: Any) -> Any:
    """A node that has so many bytes of a snapshot of the leader of epoch 2."""
    made = node(1, **{"epoch": 2, "leader_id": 3, **host})
    made.disk, made.config = VirtualDisk(Random(1)), SimpleNamespace(partition_directory=PARTITION)
    make_directory(made.disk, PARTITION)
    if size_bytes is not None:
        path = part_path(PARTITION, snapshot_id(9), leader_epoch=Epoch(2))
        made.disk.open(path, create=True).pwrite([bytes(size_bytes)], 0)
    return made


def asks(position: int, *, epoch: int = 2) -> Spoken:
    return Spoken(epoch=epoch, sliced=SliceAsked(snapshot_id=snapshot_id(9), position=position), target_id=3)


@pytest.mark.parametrize("position", [0, 5])
def test_the_byte_behind_those_that_are_there_may_be_asked_for(position: int) -> None:
    NextSliceFollows(world()).before_send(fetching(position), asks(position))


def test_what_is_no_question_or_one_of_a_state_that_is_over_is_left_alone() -> None:
    made = NextSliceFollows(world())
    made.before_send(fetching(4), Spoken(epoch=2))
    made.before_send(fetching(4, epoch=3), asks(9))
    made.before_send(fetching(4, leader_id=2), asks(9))


@pytest.mark.parametrize(("size_bytes", "seen"), [(4, "has 4 of them"), (6, "has 6 of them"), (None, "has none")])
def test_another_position_is_found(size_bytes: int | None, seen: str) -> None:
    with pytest.raises(ViolationError, match=seen):
        NextSliceFollows(world()).before_send(fetching(size_bytes), asks(5))
