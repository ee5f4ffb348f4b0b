"""A node that stops without a reason is found."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.errors import CorruptionError
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.stays_up import NodesStayUp
from pykraft.snapshot.files import checkpoint_path
from tests.sim.invariants.fakes import node, snapshot_id, world


def test_leaving_and_a_disk_that_fails_are_reasons() -> None:
    NodesStayUp(world()).stopped(node(), None)
    NodesStayUp(world()).stopped(node(is_rotten=True), ValueError("rot"))


def damaged(offset: int) -> CorruptionError:
    path = checkpoint_path(Path("/disk"), snapshot_id(offset))
    return CorruptionError(path, position=0, expected="a sound batch", found="another")


def running(*offsets: int) -> Any:
    log = SimpleNamespace(snapshots=tuple(map(snapshot_id, offsets)))
    return node(is_rotten=True, raft=SimpleNamespace(log=log))


def test_a_damaged_snapshot_is_a_reason_unless_there_is_a_newer_one() -> None:
    made = NodesStayUp(world())
    made.stopped(running(5, 9), damaged(9))
    made.stopped(node(is_rotten=True), damaged(5))
    made.stopped(running(5, 9), CorruptionError(Path("a.log"), position=0, expected="a", found="b"))
    with pytest.raises(ViolationError, match="node 1 stopped though a newer snapshot is there"):
        made.stopped(running(5, 9), damaged(5))


def test_anything_else_is_none() -> None:
    with pytest.raises(ViolationError, match="node 1 stopped: no way"):
        NodesStayUp(world()).stopped(node(), ValueError("no way"))
