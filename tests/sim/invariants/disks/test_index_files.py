"""An index entry that belongs to no batch is found."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.index_files import IndexesAreOfTheirLogs
from pykraft.sim.machine.disk import VirtualDisk
from tests.sim.invariants.fakes import encoded, node, world

HOME = Path("/home")
STEM = "00000000000000000005"
BATCHES = (encoded(5, b"a", b"b"), encoded(7, b"c"))


def with_entries(offsets: list[tuple[int, int]], times: list[tuple[int, int]]) -> Any:
    made = node(1, role="follower")
    made.process.ordered = SimpleNamespace(is_idle=True)
    made.disk, made.config.partition_directory = VirtualDisk(Random(1)), HOME
    made.disk.mkdir(HOME)
    contents = {
        "log": b"".join(BATCHES),
        "index": b"".join(struct.pack(">ii", *entry) for entry in offsets) + bytes(9),
        "timeindex": b"".join(struct.pack(">qi", *entry) for entry in times),
    }
    for suffix, content in contents.items():
        made.disk.open(HOME / f"{STEM}.{suffix}", create=True).pwrite([content], 0)
    return made


def look(who: Any) -> None:
    where = world()
    where.nodes = {1: who, 2: node(2)}
    made = IndexesAreOfTheirLogs(where)
    made.started(who)
    made.ended()


def test_entries_of_batches_are_right() -> None:
    look(with_entries([(1, 0), (2, len(BATCHES[0]))], [(0, 1)]))
    look(with_entries([], []))


def test_damaged_and_empty_disks_are_not_looked_at() -> None:
    damaged = with_entries([(9, 9)], [])
    damaged.is_damaged = True
    look(damaged)
    empty = with_entries([], [])
    empty.disk = VirtualDisk(Random(1))
    look(empty)


@pytest.mark.parametrize(
    ("offsets", "times"), [([(1, 5)], []), ([(0, 0)] * 0 + [(3, 0)], []), ([], [(7, 1)]), ([], [(0, 0), (1, 1)][1:])]
)
def test_entries_of_nothing_are_found(offsets: list[tuple[int, int]], times: list[tuple[int, int]]) -> None:
    with pytest.raises(ViolationError, match=f"entries of segment {STEM} that nothing stands for"):
        look(with_entries(offsets, times))


def test_entries_out_of_order_are_found() -> None:
    with pytest.raises(ViolationError, match="out of order"):
        look(with_entries([(2, len(BATCHES[0])), (1, 0)], []))
