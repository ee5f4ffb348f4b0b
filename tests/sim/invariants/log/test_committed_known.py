"""A node that forgets at a start what it knew to be committed is found."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.committed_known import CommittedStaysKnown
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.types import Offset
from tests.sim.invariants.fakes import node, view, world

HOME = Path("/home")


@pytest.mark.parametrize(("known", "end", "after"), [(8, 10, 8), (8, 10, 9), (8, 6, 6), (None, 10, 0)])
def test_what_was_committed_is_known_after_a_start_as_far_as_the_log_goes(
    known: int | None, end: int, after: int
) -> None:
    restarted(known, end, after)


def test_what_is_forgotten_is_found() -> None:
    with pytest.raises(ViolationError, match="everything below 8 is committed, and after its start below 7"):
        restarted(8, 10, 7)


def restarted(known: int | None, end: int, after: int) -> None:
    """A node whose file calls ``known`` committed starts; its log ends at ``end``, and it calls ``after`` committed."""
    disk = VirtualDisk(Random(1))
    disk.mkdir(HOME)
    if known is not None:
        point = RecoveryPoint.create(disk, HOME, Offset(10))
        point.raise_to(Offset(10), Offset(known))
    found = node(1, committed_end_offset=Offset(after), log_end_offset=Offset(end))
    found.config.partition_directory, found.disk = HOME, disk
    made = CommittedStaysKnown(world())
    made.starting(found)
    made.after_event(found, view())
