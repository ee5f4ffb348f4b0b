"""The reads of a leader, in a round and waiting for the next.

Source: Raft dissertation §6.4.
"""

from __future__ import annotations

from pykraft.core.leader.reads import ReadRound, Reads
from pykraft.types import Offset


def test_all_reads_without_an_answer_are_known() -> None:
    reads = Reads()
    assert reads.handles == []
    reads.waiting += [3, 4]
    assert reads.handles == [3, 4]
    reads.round = ReadRound(handles=(1, 2), offset=Offset(9))
    assert reads.handles == [1, 2, 3, 4]
