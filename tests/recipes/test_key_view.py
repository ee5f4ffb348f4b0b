"""A view of a store has the items of its moment, however the store changes while the view is read."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import islice
from random import Random

from pykraft.recipes import Item, KeyChange
from pykraft.recipes.key_values import KeySpace


def filled(keys: str) -> KeySpace:
    space = KeySpace()
    for revision, key in enumerate(keys, 1):
        space.put(Item(key, f"value of {key}", revision, revision, 1))
    return space


def test_items_that_change_or_go_stay_in_the_view_and_new_ones_do_not_come() -> None:
    space = filled("bdf")
    expected = space.range("", "", None)
    records = space.records()
    assert next(records) == expected[0]
    space.put(Item("d", "second", 2, 4, 2))
    space.put(Item("d", "third", 2, 5, 3))
    space.delete("f", 6)
    space.put(Item("f", "another", 7, 7, 1))
    space.put(Item("c", "new", 8, 8, 1))
    assert [*islice(records, 2)] == expected[1:]
    assert [one.revision for one in records if not isinstance(one, Item)] == [1, 2, 3], "later changes are not in it"


def test_any_changes_between_any_reads() -> None:
    for seed in range(50):
        rng = Random(seed)
        space = filled("".join(rng.sample("abcdefghij", 6)))
        views: list[tuple[list[Item | KeyChange], list[Item | KeyChange], Iterator[Item | KeyChange]]] = []
        for _ in range(20):
            if rng.random() < 0.2:
                views.append(([*space.records()], [], space.records()))
            for _, read, records in views:
                read.extend(islice(records, rng.randrange(3)))
            key, revision = rng.choice("abcdefghij"), space.revision + 1
            if space.get(key) and rng.random() < 0.4:
                space.delete(key, revision)
            else:
                space.put(Item(key, str(revision), revision, revision, 1))
        for expected, read, records in views:
            assert [*read, *records] == expected


def test_a_view_that_nobody_reads_any_more_is_told_nothing() -> None:
    space = filled("ab")
    begun, whole = space.records(), space.records()
    next(begun)
    assert len(space._views) == 2
    assert len([*whole]) == 4
    del begun, whole
    gc.collect()
    assert space._views == []
