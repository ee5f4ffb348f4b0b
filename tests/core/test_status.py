"""A status shows the state after the last step, and another thread reads it whole.

Source: etcd ``raft.BasicStatus``; ADR 047.
"""

import sys
from types import FrameType

import pytest

from pykraft.core import events
from pykraft.core.status import Status, status_of
from pykraft.types import NO_LISTENERS, Io, Offset
from tests.core.replicas import NOW, STATES, follower, listeners, replica, resigned, unattached, voter_set
from tests.core.test_raft import raft


@pytest.mark.parametrize("name", STATES)
def test_it_tells_what_the_replica_knows(name: str) -> None:
    made = replica(STATES[name]())
    told = status_of(made)
    assert (told.role, told.epoch, told.leader_id) == (made.role, made.epoch, made.leader_id)
    assert (told.leader_listeners, told.voted) == (made.leader_listeners, made.voted)
    assert (told.high_watermark, told.committed_end_offset) == (made.high_watermark, made.log.committed_end_offset)
    assert (told.log_start_offset, told.log_end_offset) == (made.log.start_offset, made.log.end_offset)
    assert (told.voters, told.kraft_version) == (made.voters, made.kraft_version)
    assert (told.quarantine, told.is_proven) == (made.log.quarantine, made.survey is None)
    assert told.leads == (name == "leader")


def test_a_leader_that_resigned_does_not_serve() -> None:
    assert status_of(replica(follower())).serving_leader == (2, listeners(2))
    assert status_of(replica(unattached(leader_id=2))).serving_leader == (2, NO_LISTENERS)
    assert status_of(replica(unattached())).serving_leader is None
    assert status_of(replica(resigned())).serving_leader is None


@pytest.mark.interpreted
def test_no_reader_sees_half_a_step() -> None:
    """Another thread may read at any call within a step: it sees the status before the step, or the one after it.

    The state itself is half changed on the way: the replica already leads, and its log lacks the first batch.
    """
    made = raft(voters=voter_set(1))
    read: list[Status] = []
    halves: set[tuple[str, Offset]] = set()

    def observe(frame: FrameType, event: str, argument: object) -> None:
        del frame, event, argument
        read.append(made.status)
        halves.add((type(made.state).__name__, made.log.end_offset))

    before, profiled = made.status, sys.getprofile()
    sys.setprofile(observe)
    try:
        made.start(NOW)
    finally:
        sys.setprofile(profiled)
    after = made.status
    assert (before.leads, before.log_end_offset, after.leads, after.log_end_offset) == (False, 10, True, 11)
    assert set(read) <= {before, after}
    assert ("Leader", 10) in halves


def test_a_status_that_was_read_does_not_change() -> None:
    made = raft(voters=voter_set(1))
    made.start(NOW)
    read = made.status
    made.step(events.Persisted(io=Io(2)), NOW)
    assert (read.high_watermark, made.status.high_watermark) == (None, 11)
