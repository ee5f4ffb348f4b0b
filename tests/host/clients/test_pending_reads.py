"""Each caller that wants to read gets one outcome.

Source: Raft dissertation §6.4.
"""

from __future__ import annotations

from typing import Any

from pykraft.errors import NotLeaderError, NotRunningError
from pykraft.host.clients.pending_reads import PendingReads
from pykraft.types import Offset


def test_each_hears_its_own_outcome() -> None:
    told: list[tuple[str, Any]] = []
    reads = PendingReads()
    first = reads.begin(lambda outcome: told.append(("first", outcome)))
    second = reads.begin(lambda outcome: told.append(("second", outcome)))
    refusal = NotLeaderError(2, 5)
    reads.answered(second, refusal)
    reads.answered(first, Offset(9))
    reads.end()
    assert told == [("second", refusal), ("first", 9)]


def test_the_end_of_the_node_is_an_outcome_too() -> None:
    told: list[Any] = []
    reads = PendingReads()
    reads.begin(told.append)
    reads.end()
    reads.end()
    assert [type(error) for error in told] == [NotRunningError]
