"""What the oracles of consumer groups report, and what they accept."""

import pytest

from pykraft.errors import ErrorCode
from pykraft.sim.facts.history import GroupCommit, GroupRead, Ownership
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.groups import CommittedOffsetsStay, FormerOwnersAreFenced, OneMemberOwns
from tests.sim.invariants.fakes import world


def commit(offset: int, generation: int = 1, asked_us: int = 0) -> GroupCommit:
    return GroupCommit(group_id="g", member="a", generation=generation, offset=offset, asked_us=asked_us)


class Offsets:
    """The oracle of offsets, and what happens to one group."""

    def __init__(self) -> None:
        self.oracle = CommittedOffsetsStay(world())

    def commits(self, offset: int, generation: int = 1, error: ErrorCode | None = ErrorCode.NONE) -> None:
        sent = commit(offset, generation)
        self.oracle.group_committed(sent)
        if error is not None:
            sent.error = error
            self.oracle.group_committed(sent)

    def asks(self, generation: int) -> GroupRead:
        read = GroupRead(group_id="g", generation=generation)
        self.oracle.group_read(read)
        return read

    def reads(self, offset: int, generation: int) -> None:
        self.hears(self.asks(generation), offset)

    def hears(self, read: GroupRead, offset: int) -> None:
        read.offset = offset
        self.oracle.group_read(read)


def test_an_acknowledged_offset_stays() -> None:
    group = Offsets()
    group.reads(0, 1)
    group.commits(5)
    group.reads(5, 2)
    with pytest.raises(ViolationError, match="a member of g in generation 2 goes on at 0, 5 was acknowledged"):
        group.reads(0, 2)


def test_an_offset_that_nobody_has_committed_is_reported() -> None:
    group = Offsets()
    group.commits(5)
    with pytest.raises(ViolationError, match="goes on at 7, which no member has committed"):
        group.reads(7, 2)


def test_what_is_acknowledged_after_the_question_may_be_missing() -> None:
    group = Offsets()
    group.commits(5)
    read = group.asks(1)
    group.commits(8)
    group.hears(read, 5)


def test_a_later_generation_does_not_bind_an_earlier_one() -> None:
    group = Offsets()
    group.commits(5, 1)
    group.commits(9, 3)
    group.reads(5, 2)
    with pytest.raises(ViolationError, match="9 was acknowledged"):
        group.reads(5, 3)


def test_a_commit_without_an_answer_may_arrive_late_and_a_refused_one_may_not() -> None:
    group = Offsets()
    group.commits(3, error=None)
    group.commits(5)
    group.reads(3, 2)
    group.commits(6, 2)
    group.commits(4, 2, error=ErrorCode.ILLEGAL_GENERATION)
    with pytest.raises(ViolationError, match="6 was acknowledged"):
        group.reads(4, 2)


def test_one_member_owns_the_partition_in_a_generation() -> None:
    oracle = OneMemberOwns(world())
    for member, generation in (("a", 1), ("a", 1), ("b", 2)):
        oracle.group_owned(Ownership("g", member, generation))
    oracle.group_owned(Ownership("another", "c", 2))
    with pytest.raises(ViolationError, match="c has the partition in generation 2 of g, and so has b"):
        oracle.group_owned(Ownership("g", "c", 2))


def test_a_former_owner_commits_only_what_it_sent_before() -> None:
    oracle = FormerOwnersAreFenced(world(now_us=7))
    for generation in (2, 1):
        oracle.group_owned(Ownership("g", "b", generation))
    oracle.group_committed(commit(4, asked_us=8))
    for sent in (commit(4, asked_us=7), commit(4, generation=2, asked_us=8)):
        sent.error = ErrorCode.NONE
        oracle.group_committed(sent)
    refused = commit(4, asked_us=8)
    refused.error = ErrorCode.ILLEGAL_GENERATION
    oracle.group_committed(refused)
    late = commit(4, asked_us=8)
    late.error = ErrorCode.NONE
    with pytest.raises(ViolationError, match="a commits 4 in generation 1 of g, which was in 2 by then"):
        oracle.group_committed(late)
