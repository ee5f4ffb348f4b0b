"""Keys in order, and the changes that a watch reads: complete, or refused."""

from __future__ import annotations

import pytest

from pykraft.errors import CompactedError
from pykraft.recipes import Item, KeyChange, key_space
from pykraft.recipes.key_space import KeySpace


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
    assert space.keys_in("a", None) == ["a"]
    assert space.keys_in("x", None) == []
    assert space.keys_in("a", "b") == ["a", "ab"]
    assert space.keys_in("ab", "") == ["ab", "b", "c"]
    assert space.keys_in("c", "a") == []
    space.delete("ab", 5)
    assert space.keys == ["a", "b", "c"]
    assert space.size_bytes == 3


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
    space.delete("b", 2)
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
    assert space._kept_size_bytes == sum(len(one.key) + len(one.item.value) for one in space.kept if one.item)
