"""DescribeQuorum: the leader's view of all replicas.

Source: KIP-595 §DescribeQuorum, KIP-836, KIP-853.
"""

from __future__ import annotations

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply
from pykraft.core.enter_state import to_leader
from pykraft.core.messages import DescribedReplica
from pykraft.core.voter_history import BOOTSTRAP_OFFSET, VoterHistory
from pykraft.errors import ErrorCode
from pykraft.types import KRaftVersion, KRaftVoters, Offset, VoterSet
from tests.core.replicas import (
    NOW,
    ask,
    candidate,
    done,
    follower,
    key,
    later,
    leader,
    only,
    replica,
    tally,
    voter_set,
)


@pytest.mark.conformance(46)
def test_the_leader_describes_itself_its_voters_and_its_observers() -> None:
    state = leader(high_watermark=9)
    state.progress.of(key(3)).fetched(Offset(9), Offset(10), NOW)
    state.progress.of(key(8)).fetched(Offset(10), Offset(10), NOW)
    made = replica(state)
    now = later(50)
    message = only(ask(made, messages.DescribeQuorumRequest(asked_as="t"), now), Reply).message

    def row(node_id: int, end: int, fetched_ms: int, caught_up_ms: int) -> DescribedReplica:
        return DescribedReplica(
            key=key(node_id), log_end_offset=end, last_fetch_timestamp=fetched_ms, last_caught_up_timestamp=caught_up_ms
        )

    assert message == messages.DescribeQuorumResponse(
        error=0,
        asked_as="t",
        leader_id=made.local.id,
        epoch=made.epoch,
        high_watermark=Offset(9),
        voters=(row(1, 10, now.wall_ms, now.wall_ms), row(2, -1, -1, -1), row(3, 9, NOW.wall_ms, -1)),
        observers=(row(8, 10, NOW.wall_ms, NOW.wall_ms),),
        nodes=made.voters.voters,
    )


@pytest.mark.conformance(46)
def test_only_the_leader_knows() -> None:
    message = only(ask(replica(follower()), messages.DescribeQuorumRequest(asked_as="t")), Reply).message
    assert message == messages.DescribeQuorumResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, asked_as="t")


@pytest.mark.conformance(46)
def test_the_voters_of_a_checkpoint_count_and_not_the_configured_ones() -> None:
    formatted = voter_set(1, 4, 5)
    made = replica(candidate(count=tally(granted=(1, 4), voters=(1, 4, 5))), voters=voter_set(1, 2, 3))
    made.voter_history = VoterHistory(
        voter_set(1, 2, 3), [(BOOTSTRAP_OFFSET, KRaftVersion(1)), (BOOTSTRAP_OFFSET, KRaftVoters(formatted))]
    )
    to_leader(made, NOW)
    done(made)
    message = only(ask(made, messages.DescribeQuorumRequest(asked_as="t")), Reply).message
    assert isinstance(message, messages.DescribeQuorumResponse)
    assert [voter.key for voter in message.voters] == [key(1), key(4), key(5)]
    assert (message.observers, message.nodes) == ((), VoterSet.of([*formatted.voters, made.local.voter]).voters)
