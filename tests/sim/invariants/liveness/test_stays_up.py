"""A node that stops without a reason is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.stays_up import NodesStayUp
from tests.sim.invariants.fakes import node, world


def test_leaving_and_a_disk_that_fails_are_reasons() -> None:
    NodesStayUp(world()).stopped(node(), None)
    NodesStayUp(world()).stopped(node(is_rotten=True), ValueError("rot"))


def test_anything_else_is_none() -> None:
    with pytest.raises(ViolationError, match="node 1 stopped: no way"):
        NodesStayUp(world()).stopped(node(), ValueError("no way"))
