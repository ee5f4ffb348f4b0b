"""An unattached replica waits for an election, keeps its vote, and remembers a leader that it cannot reach.

Source: KIP-595, KIP-996; Kafka ``UnattachedState``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.core.effects import Reply
from pykraft.core.messages import VoteRequest, VoteResponse
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.types import Instant, NodeId, ReplicaKey
from tests.core.replicas import LATER_MS, ask, directory, key, only, replica, unattached
from tests.core.said import vote

OTHER_DIRECTORY = ReplicaKey(NodeId(3), directory(9))


def asked(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    made = replica(replace(unattached(), voted=voted))
    request: VoteRequest = replace(vote(epoch=5, end=(0, 0)), candidate=candidate)
    message = only(ask(made, request), Reply).message
    assert isinstance(message, VoteResponse)
    assert made.voted == voted
    return message.vote_granted


@pytest.mark.conformance(92, 94, "H34")
@pytest.mark.parametrize(
    ("voted", "candidate", "granted"),
    [
        (ReplicaKey(NodeId(3)), key(3), True),
        (ReplicaKey(NodeId(3)), OTHER_DIRECTORY, True),
        (ReplicaKey(NodeId(3)), ReplicaKey(NodeId(3)), True),
        (ReplicaKey(NodeId(3)), key(2), False),
        (key(3), key(3), True),
        (key(3), OTHER_DIRECTORY, False),
        (key(3), ReplicaKey(NodeId(3)), False),
        (key(3), key(2), False),
    ],
)
def test_a_vote_remembered_with_a_directory_is_for_that_one_only(
    voted: ReplicaKey, candidate: ReplicaKey, granted: bool
) -> None:
    assert asked(voted, candidate) is granted


@pytest.mark.conformance(92, "H34")
@pytest.mark.parametrize("voted", [None, 3])
def test_it_waits_until_its_time_is_over(voted: int | None) -> None:
    made = replica(unattached(voted=voted, leader_id=2))
    assert next_deadline_ms(made) == LATER_MS
    poll(made, Instant(mono_ms=LATER_MS - 1, wall_ms=0))
    assert made.role.startswith("unattached")
    poll(made, Instant(mono_ms=LATER_MS, wall_ms=0))
    assert made.role.startswith("prospective")


@pytest.mark.conformance(92, "H34")
def test_a_leader_without_endpoints_is_kept_in_mind() -> None:
    made = replica(unattached(leader_id=9))
    assert (made.leader_id, made.has_remote_leader, made.has_reachable_leader) == (9, True, False)
    poll(made, Instant(mono_ms=LATER_MS, wall_ms=0))
    assert (made.role, made.leader_id) == ("prospective", 9)
