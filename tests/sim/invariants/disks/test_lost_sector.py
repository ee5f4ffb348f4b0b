"""A page that could not be read, and that a start cut off without a word, is found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.lost_sector import LostSectorIsDamage
from pykraft.sim.machine.inode import PAGE_SIZE_BYTES, Inode
from tests.sim.invariants.fakes import world


def machine(segment: Inode | None, *, is_damaged: bool = False) -> Any:
    files = {"00000000000000000000.log": segment, "quorum-state": Inode()}
    directory = SimpleNamespace(cached=files) if segment is not None else None
    return SimpleNamespace(
        node_id=1,
        is_damaged=is_damaged,
        disk=SimpleNamespace(directory=lambda _: directory),
        config=SimpleNamespace(partition_directory=Path("/disk")),
    )


def segment() -> Inode:
    made = Inode()
    made.write(b"1" * 2 * PAGE_SIZE_BYTES, 0)
    made.sync()
    made.lose_page(1)
    return made


def test_a_page_that_is_still_there_is_nobodys_fault_nor_is_one_that_is_told() -> None:
    made, inode = LostSectorIsDamage(world()), segment()
    made.starting(machine(None))
    made.starting(machine(inode))
    made.started(machine(inode))
    made.starting(machine(inode))
    inode.lost_pages.clear()
    made.started(machine(inode, is_damaged=True))
    made.started(machine(inode))


def test_another_disk_and_another_file_have_lost_nothing() -> None:
    made, inode = LostSectorIsDamage(world()), segment()
    made.starting(machine(inode))
    made.wiped(machine(inode))
    made.starting(machine(inode))
    inode.lost_pages.clear()
    made.started(machine(Inode()))


def test_what_was_cut_without_a_word_is_found_also_by_a_start_before() -> None:
    made, inode = LostSectorIsDamage(world()), segment()
    made.starting(machine(inode))
    inode.lost_pages.clear()
    made.starting(machine(inode))
    with pytest.raises(ViolationError, match=r"node 1 has cut page 1 of 00000000000000000000\.log"):
        made.started(machine(inode))
