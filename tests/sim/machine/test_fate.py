"""A fate keeps all, nothing, or what chance says of each name, size and page.

Source: ALICE (OSDI 2014), its weakest order; what a fate may choose from is tested with the disk.
"""

from __future__ import annotations

from random import Random

import pytest

from pykraft.sim.machine.fate import ALL_KEPT, EXTREMES, DrawnFate, Extreme
from pykraft.sim.scenario.scenario import Storage

OLD, PAST, NEW = b"aaaa", b"abba", b"cccc"


def drawn(seed: int, *, torn: float = 0, lost: float = 0) -> DrawnFate:
    return DrawnFate(Random(seed), Storage(page_torn_probability=torn, page_lost_probability=lost))


@pytest.mark.parametrize("fate", EXTREMES, ids=lambda each: each.name)
def test_an_extreme_fate_decides_one_way(fate: Extreme) -> None:
    assert fate.keeps_name() is fate.keeps_names
    assert fate.size_bytes([3, 9, 5]) == (5 if fate.keeps_sizes else 3)
    assert fate.page([OLD, PAST, NEW]) == (NEW if fate.keeps_pages else OLD)


def test_the_one_that_keeps_all_is_among_them() -> None:
    assert (ALL_KEPT.name, ALL_KEPT.keeps_names, ALL_KEPT.keeps_sizes, ALL_KEPT.keeps_pages) == (
        "all kept",
        True,
        True,
        True,
    )


def test_names_are_drawn() -> None:
    fate = drawn(1)
    assert {fate.keeps_name() for _ in range(20)} == {False, True}


def test_a_size_is_one_that_the_file_had_or_one_between() -> None:
    assert {drawn(seed).size_bytes([3, 9, 5]) for seed in range(200)} == {3, 4, 5, 6, 7, 8, 9}


def test_a_page_is_lost_or_one_of_what_it_was_since() -> None:
    assert {drawn(seed, lost=1).page([OLD, PAST, NEW]) for seed in range(20)} == {OLD}
    assert {drawn(seed).page([OLD, PAST, NEW]) for seed in range(20)} == {PAST, NEW}


def test_a_torn_page_is_cut_where_its_contents_differ() -> None:
    found = {drawn(seed, torn=1).page([b"oabo", b"ocdo"]) for seed in range(30)}
    assert found == {b"oado", b"ocbo"}
    assert drawn(1, torn=1).page([OLD, OLD]) == OLD
    assert {drawn(seed, torn=1).page([b"oao", b"obo"]) for seed in range(30)} == {b"oao", b"obo"}
