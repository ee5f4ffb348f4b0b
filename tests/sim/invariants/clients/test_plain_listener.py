"""A record that a plain listener misses although the log holds it, or without being told, is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.plain_listener import PlainListenerMissesOnlyTheCleaned
from tests.sim.invariants.fakes import batch, node, world


def cleaned(start_offset: int) -> Any:
    return node(log_start_offset=start_offset)


def test_it_begins_at_the_log_start_and_goes_on_there() -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    for start_offset in (0, 7):
        made.listens(node(), start_offset)
        made.overheard(node(), [batch(start_offset, b"a", b"b"), batch(start_offset + 2, b"c")])
        made.skipped(cleaned(20), start_offset + 3, 20)
        made.overheard(node(), [batch(20, b"d")])


def test_a_process_that_is_gone_is_believed() -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 0)
    made.skipped(node(), 0, 5)
    made.overheard(node(), [batch(5, b"a")])


@pytest.mark.parametrize("base_offset", [4, 6])
def test_a_gap_that_is_not_told_of_and_a_batch_that_comes_twice_are_found(base_offset: int) -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match=f"gives offset {base_offset}, 5 is next"):
        made.overheard(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize(("next_offset", "start_offset"), [(4, 9), (5, 5), (5, 10)])
def test_a_gap_that_is_none_or_too_wide_is_found(next_offset: int, start_offset: int) -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match="5 is next, and the log begins at 9"):
        made.skipped(cleaned(9), next_offset, start_offset)
