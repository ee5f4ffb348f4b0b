"""Digests do not depend on how a log is cut into parts, and differ where its bytes do.

Source: ours.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykraft.audit.digest import Digests, RangeDigest
from pykraft.types import Offset

BATCHES = [(bytes([at]) * 20, Offset(at), Offset(at + 1)) for at in range(40)]


def digests_of(parts: list[list[tuple[bytes, Offset, Offset]]], width: int = 16) -> dict[int, RangeDigest]:
    found: dict[int, RangeDigest] = {}
    for part in parts:
        digests = Digests(width)
        for batch in part:
            digests.add(*batch)
        for one in digests.finished():
            found[one.number] = found[one.number].plus(one) if one.number in found else one
    return found


@given(st.integers(0, 40), st.integers(0, 40))
def test_parts_of_any_size_give_the_same_digests(one: int, two: int) -> None:
    first, second = sorted((one, two))
    whole = digests_of([BATCHES])
    assert digests_of([BATCHES[:first], BATCHES[first:second], BATCHES[second:]]) == whole
    assert [digest.batches_count for digest in whole.values()] == [16, 16, 8]
    assert (whole[2].first_offset, whole[2].end_offset, whole[2].size_bytes) == (32, 40, 160)


def test_a_changed_missing_or_moved_batch_changes_the_digest_of_its_range_only() -> None:
    whole = digests_of([BATCHES])
    changed = [*BATCHES[:20], (b"other" * 4, Offset(20), Offset(21)), *BATCHES[21:]]
    missing = [*BATCHES[:20], *BATCHES[21:]]
    for log in (changed, missing):
        found = digests_of([log])
        assert [number for number in whole if found[number] != whole[number]] == [1]
