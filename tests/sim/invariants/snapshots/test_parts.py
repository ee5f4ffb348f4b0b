"""More parts of snapshots than a node can be working on are found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.parts import PartsAreRemoved
from tests.sim.invariants.fakes import node, snapshot_id, view, world

NAMES = (
    "00000000000000000010-0000000001.checkpoint.part",
    "00000000000000000020-0000000001-0000000002.checkpoint.part",
    "00000000000000000030-0000000001.checkpoint.part",
)


def holding(*names: str) -> Any:
    found = node(epoch=1)
    found.config.partition_directory = "d"
    found.disk.directory = lambda path: SimpleNamespace(cached=dict.fromkeys(names))
    return found


def test_one_that_is_written_and_one_that_is_fetched_are_accepted() -> None:
    others = ("00000000000000000000.log", "00000000000000000030-0000000001.checkpoint")
    PartsAreRemoved(world()).changed(holding(*NAMES[:2], *others), view(), view(snapshots=(snapshot_id(30),)))


def test_a_third_part_is_found() -> None:
    with pytest.raises(ViolationError, match="node 1 holds 3 parts of snapshots"):
        PartsAreRemoved(world()).changed(holding(*NAMES), view(), view(snapshots=(snapshot_id(30),)))


def test_all_running_nodes_are_looked_at_in_the_end() -> None:
    made: Any = world()
    made.nodes = {1: holding(*NAMES)}
    with pytest.raises(ViolationError, match="node 1 holds 3 parts of snapshots"):
        PartsAreRemoved(made).ended()
    made.nodes = {1: holding(*NAMES)}
    made.nodes[1].process = None
    PartsAreRemoved(made).ended()
