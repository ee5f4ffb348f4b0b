"""A log that begins above 0 is found, since there are no snapshots in the world."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log_start import LogStartIsSnapshot
from tests.sim.invariants.fakes import node, world


def test_logs_from_the_beginning_and_nodes_that_are_down_are_accepted() -> None:
    LogStartIsSnapshot(world()).started(node(log_start_offset=0))
    LogStartIsSnapshot(world()).started(node())


def test_a_log_without_its_beginning_is_found() -> None:
    with pytest.raises(ViolationError, match="starts at 3"):
        LogStartIsSnapshot(world()).started(node(log_start_offset=3))
