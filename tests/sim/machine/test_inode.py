"""A lying platter is told from what was synced; a fate keeps all, nothing, or what chance says.

Source: ALICE (OSDI 2014), its weakest order; what a fate may choose from is tested with the disk.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.machine.inode import (
    ALL_KEPT,
    EXTREMES,
    PAGE_SIZE_BYTES,
    PAST_MAX,
    Directory,
    DrawnFate,
    Extreme,
    Inode,
)
from pykraft.sim.scenario.scenario import Storage

PAGES = 3


def synced(data: bytes) -> Inode:
    inode = Inode()
    inode.write(data, 0)
    inode.sync()
    return inode


def test_rot_is_seen_on_the_platter_only_until_the_cache_lets_go() -> None:
    inode = synced(b"abcdef")
    inode.rot(2, b"XY")
    assert inode.is_rotten
    assert (inode.standing(), inode.promised(), bytes(inode.cached)) == (b"abXYef", b"abcdef", b"abcdef")
    inode.evict()
    assert bytes(inode.cached) == b"abXYef"


def test_a_dirty_page_is_not_read_again() -> None:
    inode = synced(b"abcdef")
    inode.rot(2, b"XY")
    inode.write(b"Z", 5)
    inode.evict()
    assert bytes(inode.cached) == b"abcdeZ"


def test_rot_ends_when_the_page_is_written_again_or_cut_off() -> None:
    written, cut = synced(b"abcdef"), synced(b"abcdef")
    for inode in (written, cut):
        inode.rot(4, b"XY")
    written.write(b"g", 6)
    written.sync()
    assert not written.is_rotten
    assert written.promised() == written.standing() == b"abcdefg"
    cut.resize(4)
    cut.sync()
    assert not cut.is_rotten
    assert cut.promised() == b"abcd"


def test_rot_that_was_read_and_written_back_is_rot_still() -> None:
    inode = synced(b"abcdef")
    inode.rot(2, b"X")
    inode.evict()
    inode.write(b"g", 6)
    inode.sync()
    assert (inode.standing(), inode.promised()) == (b"abXdefg", b"abcdefg")


def test_what_rots_twice_was_promised_once() -> None:
    inode = synced(b"abc")
    inode.rot(1, b"X")
    inode.rot(1, b"Y")
    assert inode.promised() == b"abc"
    inode.rot(1, b"b")
    assert not inode.is_rotten


def test_rot_beyond_the_end_is_none() -> None:
    inode = synced(b"abc")
    inode.rot(2, b"XYZ")
    assert inode.standing() == b"abX"
    inode.rot(9, b"Z")
    assert inode.standing() == b"abX"


def test_rot_stays_after_a_loss_of_power() -> None:
    inode = synced(b"abc")
    inode.rot(1, b"X")
    inode.lose(DrawnFate(Random(1)))
    assert (bytes(inode.cached), inode.promised()) == (b"aXc", b"abc")


def test_a_failed_sync_leaves_pages_that_only_the_cache_has() -> None:
    fates = set()
    for seed in range(80):
        inode = synced(b"a" * PAGES * PAGE_SIZE_BYTES)
        inode.write(b"b" * PAGES * PAGE_SIZE_BYTES, 0)
        inode.fail_sync(Random(seed))
        inode.sync()
        assert bytes(inode.cached) == b"b" * PAGES * PAGE_SIZE_BYTES
        fates.add(tuple(inode.standing()[page * PAGE_SIZE_BYTES] for page in range(PAGES)))
        inode.write(bytes(inode.cached), 0)
        inode.sync()
        assert inode.standing() == bytes(inode.cached), "what is written again is written"
    assert len(fates) == 2**PAGES


@given(st.binary(max_size=50), st.lists(st.tuples(st.integers(0, 60), st.binary(max_size=9)), max_size=9))
def test_what_was_promised_does_not_depend_on_rot(data: bytes, rot: list[tuple[int, bytes]]) -> None:
    inode = synced(data)
    for position, wrong in rot:
        inode.rot(position, wrong)
        assert inode.promised() == data
        assert inode.is_rotten is (inode.standing() != data)


def test_pages_are_lost_torn_or_kept_as_the_scenario_says() -> None:
    def outcome(storage: Storage) -> set[tuple[int, bytes]]:
        found = set()
        for seed in range(40):
            inode = synced(b"a" * PAGE_SIZE_BYTES)
            inode.write(b"b" * PAGE_SIZE_BYTES, 0)
            torn = inode.lose(DrawnFate(Random(seed), storage))
            found.add((torn, bytes(inode.cached)))
        return found

    lost = outcome(Storage(page_torn_probability=0, page_lost_probability=1))
    kept = outcome(Storage(page_torn_probability=0, page_lost_probability=0))
    torn = outcome(Storage(page_torn_probability=1, page_lost_probability=0))
    assert lost == {(0, b"a" * PAGE_SIZE_BYTES)}
    assert kept == {(0, b"b" * PAGE_SIZE_BYTES)}
    assert {count for count, _ in torn} == {1}
    assert len(torn) > 20


def test_of_changed_names_any_survive() -> None:
    found = set()
    for seed in range(80):
        directory = Directory()
        for name in "abc":
            directory.change((name, Inode()))
        directory.lose(DrawnFate(Random(seed)))
        found.add("".join(sorted(directory.cached)))
    assert found == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_of_a_page_old_and_new_contents_are_remembered_but_not_all() -> None:
    inode = synced(b"\0")
    for number in range(1, 200):
        inode.write(bytes([number]), 0)
    past = [page[0] for page in inode.dirty_pages[0]]
    assert len(past) <= PAST_MAX
    assert past == sorted(past)
    assert past[0] == 1
    assert past[-1] == 198


def test_a_page_that_was_cut_off_may_be_there_with_the_old_size() -> None:
    found = set()
    for seed in range(80):
        inode = synced(b"o" * 10)
        inode.resize(5)
        inode.resize(10)
        inode.write(b"n", 9)
        inode.lose(DrawnFate(Random(seed), Storage(page_torn_probability=0)))
        found.add(bytes(inode.cached))
    assert {b"o" * 10, b"ooooo\0\0\0\0\0", b"ooooo\0\0\0\0n", b"ooooo"} <= found


def test_a_hole_takes_no_pages_and_reads_as_zeros() -> None:
    inode = synced(b"abc")
    inode.resize(1)
    inode.resize(1_000 * PAGE_SIZE_BYTES)
    assert list(inode.dirty_pages) == [0]
    inode.write(b"", 0)
    inode.resize(len(inode.cached))
    inode.lose(ALL_KEPT)
    assert bytes(inode.cached) == b"a".ljust(1_000 * PAGE_SIZE_BYTES, b"\0")


def test_what_survives_of_a_lost_page_makes_it_readable() -> None:
    inode = synced(b"a" * PAGE_SIZE_BYTES)
    inode.lose_page(0)
    inode.write(b"b", 0)
    inode.lose(ALL_KEPT)
    assert not inode.is_rotten


def test_a_lost_page_cannot_be_read_until_it_is_cut_off() -> None:
    inode = synced(b"a" * (2 * PAGE_SIZE_BYTES + 5))
    inode.lose_page(1)
    assert inode.is_rotten
    assert inode.is_readable(PAGE_SIZE_BYTES, 0)
    assert not inode.is_readable(PAGE_SIZE_BYTES + 1, 0)
    assert not inode.is_readable(1, 2 * PAGE_SIZE_BYTES - 1)
    assert inode.is_readable(5, 2 * PAGE_SIZE_BYTES)
    assert inode.standing()[PAGE_SIZE_BYTES : 2 * PAGE_SIZE_BYTES] == bytes(PAGE_SIZE_BYTES)
    assert inode.promised() == b"a" * (2 * PAGE_SIZE_BYTES + 5)
    inode.resize(PAGE_SIZE_BYTES)
    inode.sync()
    assert not inode.is_rotten


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
