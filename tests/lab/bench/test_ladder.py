"""The search for the highest sustained rate converges from below and from above, and ends."""

from __future__ import annotations

import pytest

from lab.bench.ladder import DOUBLINGS_MAX, HALVINGS_MAX, REFINEMENTS, highest_sustained


class Peer:
    def __init__(self, most: int) -> None:
        self.most = most
        self.tried: list[int] = []

    def sustains(self, rate: int) -> bool:
        self.tried.append(rate)
        return rate <= self.most


@pytest.mark.parametrize("most", [3, 90, 100, 101, 149, 175, 6_399])
def test_the_rate_found_is_close_below_what_is_possible(most: int) -> None:
    peer = Peer(most)
    found = highest_sustained(peer.sustains, 100)
    assert found is not None
    assert most * 0.75 <= found <= most
    assert len(peer.tried) <= max(DOUBLINGS_MAX, 1 + HALVINGS_MAX) + REFINEMENTS


def test_without_a_limit_the_search_ends_all_the_same() -> None:
    assert highest_sustained(lambda rate: True, 100) == 100 * 2 ** (DOUBLINGS_MAX - 1)


@pytest.mark.parametrize("start", [1, 100, 100_000])
def test_who_sustains_nothing_has_no_rate(start: int) -> None:
    peer = Peer(0)
    assert highest_sustained(peer.sustains, start) is None
    assert len(peer.tried) <= 1 + HALVINGS_MAX
