"""The keys of the store: their order, ranges, changes and watches, and what a snapshot sees of them."""

import gc
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CompactedError
from pykraft.recipes import Item, KeyChange, key_space, prefix
from pykraft.recipes.key_space import KeySpace, KeyWatch, KeyWatches, SortedValues, is_in
from pykraft.recipes.key_value_commands import KeyFormer

TEXTS = st.text("ab\x00\ud7ff\U0010ffff", max_size=3)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=150), st.integers(0, 150))
def test_sorted_values_are_a_sorted_set(steps: list[tuple[int, int]], frozen_at: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_space, "PIECE_MAX", 3)
        values, model = SortedValues[tuple[int, int]](), set[tuple[int, int]]()
        frozen: list[list[tuple[int, int]]] = []
        expected: list[tuple[int, int]] = []
        for at, (kind, number) in enumerate(steps):
            if at == frozen_at:
                frozen, expected = values.freeze(), sorted(model)
            gone = sorted(one for one in model if number <= one[0] < number + 10 and one[0] % 3 < kind)
            if kind and gone:
                values.remove(gone)
                model.difference_update(gone)
            elif (number, 0) not in model:
                values.add((number, 0))
                model.add((number, 0))
            known = sorted(model)
            assert [*values] == known
            assert (len(values), values.first()) == (len(known), known[0] if known else None)
            for begin, end in (((number, 0), (number + kind * 9 - 5, 1)), ((number, 1), None)):
                found = [one for one in known if begin <= one and (end is None or one < end)]
                assert [*values.between(begin, end)] == found
                assert values.count(begin, end) == len(found)
                assert values.last(begin, end) == (found[-1] if found else None)
        assert [one for piece in frozen for one in piece] == expected


@given(st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=12), st.lists(TEXTS, max_size=12), st.data())
def test_exactly_the_watches_of_a_changed_key_are_woken(
    ranges: list[tuple[str, str | None]], keys: list[str], data: st.DataObject
) -> None:
    ranges += [prefix(data.draw(TEXTS))]
    watches, woken, opened = KeyWatches(), set[int](), list[KeyWatch]()
    for at, (key, end) in enumerate(ranges):
        opened.append(watches.open(key, end, lambda at=at: woken.add(at)))  # type: ignore[misc]
    for at in data.draw(st.sets(st.integers(0, len(ranges) - 1))):
        opened[at].wait()
    watches.changed(7, keys)
    for at, ((key, end), watch) in enumerate(zip(ranges, opened, strict=True)):
        is_due = any(is_in(one, key, end) for one in keys)
        waited = watch.from_revision != 0
        assert (at in woken) == (is_due and waited)
        assert watch.from_revision == (7 if is_due else None) or not waited
        watches.close(watch)
    assert (len(watches), watches._of_key, watches._of_start, +watches._lengths) == (0, {}, {}, {})


def test_another_store_concerns_every_watch() -> None:
    watches, woken = KeyWatches(), list[str]()
    waiting = [watches.open(key, end, lambda: woken.append("")) for key, end in (("a", None), ("b", "c"))]
    for one in waiting:
        one.wait()
    watches.replaced(4)
    assert ([one.from_revision for one in waiting], len(woken)) == ([5, 5], 2)
    watches.changed(6, ["a", "b"])
    assert [one.from_revision for one in waiting] == [5, 5], "from where it has not seen the changes"


def test_last_and_count_of_a_range() -> None:
    space = filled(1, each=3)
    assert (space.count("a", "c"), space.count("b", None), space.count("x", None), space.count("", "")) == (2, 1, 0, 3)
    assert [found and found.key for found in (space.last("a", "c"), space.last("", ""), space.last("x", None))] == [
        "b",
        "c",
        None,
    ]


def test_dropped_changes_leave_memory_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_space, "FREED_MAX", 2)
    space = filled(9)
    space.compact(8)
    assert [one.revision for one in space.kept] == [8, 9]
    for revision in range(10, 14):
        before = len(space.kept.keys)
        space.put(Item("a", "", 1, revision, revision))
        assert len(space.kept.keys) >= before - 1
        assert [one.revision for one in space.kept] == [*range(8, revision + 1)]
        assert space.kept.size_bytes == size_of([*space.kept], "7")
    assert len(space.kept.keys) == len(space.kept)
    space.compact(14)
    for key in "bcde":
        space.put(Item(key, "", 14, 14, 1))
    assert [one.key for one in space.changes(14, "", "")[0]] == ["b", "c", "d", "e"]


def size_of(changes: list[KeyChange], oldest: str) -> int:
    """Of puts and what they replaced, which is ``oldest`` for the first ones of keys."""
    former: dict[str, str] = {}
    size = 0
    for change in changes:
        assert change.item is not None
        size += len(change.key) + len(change.item.value) + len(former.get(change.key, oldest))
        former[change.key] = change.item.value
    return size


def filled(count: int, *, each: int = 1) -> KeySpace:
    space = KeySpace()
    for revision in range(1, count + 1):
        for key in "abc"[:each]:
            space.put(Item(key, str(revision), 1, revision, revision))
    return space


def test_ranges() -> None:
    space = KeySpace()
    for at, key in enumerate(["b", "a", "ab", "c"], 1):
        space.put(Item(key, "", at, at, 1))
    assert [*space.keys_in("a", None)] == ["a"]
    assert [*space.keys_in("x", None)] == []
    assert [*space.keys_in("a", "b")] == ["a", "ab"]
    assert [*space.keys_in("ab", "")] == ["ab", "b", "c"]
    assert [*space.keys_in("c", "a")] == []
    space.delete(["ab"], 5)
    assert [*space.keys] == ["a", "b", "c"]
    assert space.size_bytes == 3


def test_many_keys_deleted_at_once_are_counted_as_one_by_one() -> None:
    one_by_one, at_once = filled(2, each=3), filled(2, each=3)
    for space in (one_by_one, at_once):
        space.put(Item("é", "é", 3, 3, 1))
    for key in "abé":
        one_by_one.delete([key], 4)
    at_once.delete([*"abé"], 4)
    for revision in (1, 2, 4, 5):
        for space in (one_by_one, at_once):
            space.compact(revision)
        assert [*at_once.kept] == [*one_by_one.kept]
        assert (at_once.size_bytes, at_once.kept.size_bytes) == (one_by_one.size_bytes, one_by_one.kept.size_bytes)
    assert (at_once.size_bytes, at_once.kept.size_bytes) == (2, 0)


def test_changes_come_whole_by_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_space, "SCANNED_MAX", 4)
    space = filled(4, each=3)
    found, revision = space.changes(1, "", "")
    assert [(one.revision, one.key) for one in found] == [(at, key) for at in (1, 2) for key in "abc"]
    assert revision == 3
    found, revision = space.changes(revision, "b", None)
    assert [one.revision for one in found] == [3, 4]
    assert revision == 5
    assert space.changes(5, "", "") == ([], 5)


def test_a_range_of_changes() -> None:
    space = filled(1, each=3)
    space.delete(["b"], 2)
    assert space.changes(2, "b", "c") == ([KeyChange(2, "b", None)], 3)
    assert [one.key for one in space.changes(1, "a", "b")[0]] == ["a"]
    assert [one.key for one in space.changes(1, "c", "")[0]] == ["c"]


def test_what_was_compacted_is_refused_with_the_oldest_revision() -> None:
    space = filled(5)
    space.compact(4)
    with pytest.raises(CompactedError, match="revision 3 is no longer kept: the oldest one is 4") as caught:
        space.changes(3, "", "")
    assert caught.value.oldest_revision == 4
    assert [one.revision for one in space.changes(4, "", "")[0]] == [4, 5]


@pytest.mark.parametrize("limit", ["CHANGES_MAX", "CHANGES_SIZE_BYTES_MAX"])
def test_the_oldest_changes_go_by_themselves(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(key_space, limit, 8)
    space = filled(100, each=3)
    assert len(space.kept) <= 12
    kept = [one.revision for one in space.kept]
    assert kept[-1] == 100
    assert space.oldest_revision == kept[0]
    assert all(kept.count(revision) == 3 for revision in kept)
    assert space.kept.size_bytes == size_of([*space.kept], str(space.oldest_revision - 1))


Record: TypeAlias = Item | KeyChange | KeyFormer


def with_keys(keys: str) -> KeySpace:
    space = KeySpace()
    for revision, key in enumerate(keys, 1):
        space.put(Item(key, f"value of {key}", revision, revision, 1))
    return space


def test_items_that_change_or_go_stay_in_the_view_and_new_ones_do_not_come() -> None:
    space = with_keys("bdf")
    expected = space.range("", "", None)
    records = space.records()
    assert next(records) == expected[0]
    space.put(Item("d", "second", 2, 4, 2))
    space.put(Item("d", "third", 2, 5, 3))
    space.delete(["f"], 6)
    space.put(Item("f", "another", 7, 7, 1))
    space.put(Item("c", "new", 8, 8, 1))
    assert [*islice(records, 2)] == expected[1:]
    assert [one.revision for one in records if isinstance(one, KeyChange)] == [1, 2, 3], "later changes are not in it"


def test_any_changes_between_any_reads() -> None:
    for seed in range(50):
        rng = Random(seed)
        space = with_keys("".join(rng.sample("abcdefghij", 6)))
        views: list[tuple[list[Record], list[Record], Iterator[Record]]] = []
        for _ in range(20):
            if rng.random() < 0.2:
                views.append(([*space.records()], [], space.records()))
            for _, read, records in views:
                read.extend(islice(records, rng.randrange(3)))
            key, revision = rng.choice("abcdefghij"), space.revision + 1
            if space.get(key) and rng.random() < 0.4:
                space.delete([key], revision)
            else:
                space.put(Item(key, str(revision), revision, revision, 1))
        for expected, read, records in views:
            assert [*read, *records] == expected


def test_a_view_that_nobody_reads_any_more_is_told_nothing() -> None:
    space = with_keys("ab")
    begun, whole = space.records(), space.records()
    next(begun)
    assert len(space._views) == 2
    assert len([*whole]) == 4
    del begun, whole
    gc.collect()
    assert space._views == []


def test_every_kept_revision_can_be_read_and_no_other_one() -> None:
    for seed in range(50):
        rng = Random(seed)
        space, were = KeySpace(), [list[Item]()]
        for revision in range(1, 30):
            if seed % 2 and revision == 20:
                space.compact(rng.randrange(2, 20))
            for key in sorted(set(rng.choices("abcdef", k=2))):
                former = space.get(key)
                if former is None:
                    space.put(Item(key, str(revision), revision, revision, 1))
                elif rng.random() < 0.3:
                    space.delete([key], revision)
                else:
                    space.put(Item(key, str(revision), former.created, revision, former.version + 1))
            were.append(space.range("", "", None))
        for replica in (space, loaded([*space.records()], space)):
            assert replica.kept.size_bytes == space.kept.size_bytes
            for revision in range(space.oldest_revision, 30):
                for key, end in (("", ""), ("b", "e"), ("c", None)):
                    expected = [item for item in were[revision] if is_in(item.key, key, end)]
                    assert replica.range_at(revision, key, end, None) == expected
                    assert replica.range_at(revision, key, end, 2) == expected[:2]
            with pytest.raises(CompactedError) as caught:
                replica.range_at(space.oldest_revision - 1, "", "", None)
            assert caught.value.oldest_revision == space.oldest_revision


def loaded(records: list[Record], of: KeySpace) -> KeySpace:
    space = KeySpace()
    space.revision, space.oldest_revision = of.revision, of.oldest_revision
    for record in records:
        match record:
            case Item():
                space.load(record)
            case KeyFormer(item):
                space.load_former(item)
            case KeyChange():
                space.load_change(record)
    space.loaded()
    assert [*space.records()] == records
    return space


def test_a_snapshot_of_an_older_version_lacks_what_its_first_changes_replaced() -> None:
    space = filled(3)
    space.put(Item("new", "", 4, 4, 1))
    space.compact(2)
    old = loaded([one for one in space.records() if not isinstance(one, KeyFormer)], space)
    assert [item.modified for item in old.range_at(2, "a", None, None)] == [2]
    assert old.range_at(3, "n", "o", None) == []
    with pytest.raises(CompactedError) as caught:
        old.range_at(1, "a", None, None)
    assert caught.value.oldest_revision == 2
    space.compact(3)
    old = loaded([one for one in space.records() if not isinstance(one, KeyFormer)], space)
    old.put(Item("a", "", 1, 5, 4))
    old.delete(["new"], 6)
    assert [item.key for item in old.range_at(5, "", "", None)] == ["a", "new"]
