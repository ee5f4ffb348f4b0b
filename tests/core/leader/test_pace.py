"""A pace.

Source: ours (ADR 118).
"""

from __future__ import annotations

from pykraft.core.leader.pace import Pace


def test_so_many_go_in_so_much_time_however_many_want_to() -> None:
    pace = Pace(3, 10)
    assert pace.next_ms == 0
    assert pace.take(2, 100) == 2
    assert pace.next_ms == 0
    assert pace.take(5, 101) == 1
    assert (pace.next_ms, pace.take(1, 109)) == (110, 0)
    assert (pace.take(5, 110), pace.next_ms) == (3, 120)


def test_the_time_begins_with_the_first() -> None:
    pace = Pace(1, 10)
    assert pace.take(1, 995) == 1
    assert (pace.next_ms, pace.take(1, 1_004), pace.take(1, 1_005)) == (1_005, 0, 1)
