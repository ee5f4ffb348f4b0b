"""Quorum arithmetic: majorities and the high watermark, as pure functions of numbers.

It has no state, so that tests can compare it with a brute-force twin.

Source: Raft paper §5.3–5.4; Kafka ``LeaderState.maybeUpdateHighWatermark``; etcd ``quorum/majority.go``.
"""

from collections.abc import Sequence

from pykraft.types import Offset


def majority_of(voter_count: int) -> int:
    """The smallest size at which any two groups of voters share a member."""
    assert voter_count >= 1
    return voter_count // 2 + 1


def majority_end_offset(end_offsets: Sequence[Offset | None]) -> Offset | None:
    """The largest end offset (exclusive) that a majority has reached; None while too few are known.

    One entry for each voter; None for a voter that has not fetched in this epoch.
    """
    assert end_offsets
    known = sorted([offset for offset in end_offsets if offset is not None], reverse=True)
    needed = majority_of(len(end_offsets))
    return known[needed - 1] if len(known) >= needed else None
