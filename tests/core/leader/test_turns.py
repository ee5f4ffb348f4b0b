"""Turns are given out at a pace.

Source: ours (ADR 118).
"""

from __future__ import annotations

from pykraft.core.leader.turns import Turns


def test_so_many_go_in_so_much_time_however_many_want_to() -> None:
    turns = Turns(3, 10)
    assert turns.next_ms == 0
    assert turns.take(2, 100) == 2
    assert turns.next_ms == 0
    assert turns.take(5, 101) == 1
    assert (turns.next_ms, turns.take(1, 109)) == (110, 0)
    assert (turns.take(5, 110), turns.next_ms) == (3, 120)


def test_the_time_begins_with_the_first() -> None:
    turns = Turns(1, 10)
    assert turns.take(1, 995) == 1
    assert (turns.next_ms, turns.take(1, 1_004), turns.take(1, 1_005)) == (1_005, 0, 1)
