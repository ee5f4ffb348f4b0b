"""A voter change is an immutable value; reads wait in a round and for the next."""

import dataclasses

import pytest

from pykraft.core.leader.pending import Addition, ReadRound, Reads, Removal, Update
from pykraft.types import Offset, Voter
from tests.core.replicas import key, listeners


def test_a_change_is_frozen() -> None:
    voter = Voter(key=key(4), listeners=listeners(4))
    addition = Addition(request_id=1, voter=voter, ack_when_committed=True, deadline_ms=5)
    assert addition.offset is None
    removal = Removal(request_id=1, deadline_ms=5, offset=Offset(3))
    update = Update(request_id=1, listener="CONTROLLER", voter=voter, deadline_ms=5)
    for change in (addition, removal, update):
        assert not change.is_answered
        with pytest.raises(dataclasses.FrozenInstanceError):
            change.is_answered = True  # type: ignore[misc]


def test_all_reads_without_an_answer_are_known() -> None:
    reads = Reads()
    assert reads.handles == []
    reads.waiting += [3, 4]
    assert reads.handles == [3, 4]
    reads.round = ReadRound(handles=(1, 2), offset=Offset(9))
    assert reads.handles == [1, 2, 3, 4]
