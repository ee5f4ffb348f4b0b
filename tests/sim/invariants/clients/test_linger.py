"""A proposal that lingers too long while the disk is idle is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.linger import LingerIsBounded
from tests.sim.invariants.fakes import appends, encoded, node, operation, truncates, world


def lingered(ms: int, *, idle_since_ms: int = 0, epoch: int = 1) -> None:
    made = LingerIsBounded(world(now_us=ms * 1_000))
    made.started(node())
    made.persisted(node(ms=idle_since_ms))
    made.accepted(operation(1, base_offset=5, epoch=epoch))
    made.submitted(node(ms=ms), appends(encoded(5, b"a")))


@pytest.mark.parametrize(("ms", "idle_since_ms"), [(10, 0), (13, 0), (60, 58)])
def test_the_linger_time_and_a_busy_disk_are_accepted(ms: int, idle_since_ms: int) -> None:
    lingered(ms, idle_since_ms=idle_since_ms)


def test_of_a_former_term_nothing_is_expected() -> None:
    lingered(60, epoch=9)
    LingerIsBounded(world()).submitted(node(), truncates(0))


@pytest.mark.conformance("H32")
def test_a_longer_time_is_found() -> None:
    with pytest.raises(ViolationError, match="let operation 1 linger for 10 ms and 50 more"):
        lingered(60)


def test_what_is_only_prepared_may_linger_as_long_as_it_likes() -> None:
    made = LingerIsBounded(world(now_us=60_000))
    made.started(node())
    made.persisted(node(ms=0))
    made.accepted(operation(1, base_offset=5, is_prepared=True))
    made.submitted(node(ms=60), appends(encoded(5, b"a")))
