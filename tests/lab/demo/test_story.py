"""Times of a story, relative to the start of its run."""

from __future__ import annotations

import pytest

from tests.lab.demo.stories import KILL, story

pytestmark = pytest.mark.spark


def test_times_are_seconds_since_the_load_began() -> None:
    assert story().seconds_since_begin(KILL.killed_wall_ms) == 15.2


def test_a_fail_over_lasts_from_the_kill_to_the_first_acknowledgement_by_another_node() -> None:
    assert KILL.failover_ms == 1_515
