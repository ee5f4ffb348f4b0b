"""RemoveRaftVoter: the set without the voter is written at once; an unknown voter is not found.

Source: KIP-853 §RemoveRaftVoter; Raft dissertation §4.2.2; Kafka ``RemoveVoterHandler``.
"""

from __future__ import annotations

import pytest

from pykraft.core import messages
from pykraft.core.effects import Reply
from pykraft.core.leader.voter_change import Removal
from pykraft.errors import ErrorCode
from pykraft.types import NodeId, Offset, ReplicaKey
from tests.core.on.voters.test_voter_changes import dynamic, leading
from tests.core.replicas import NOW, ask, directory, key, only, voter_set


@pytest.mark.conformance(133)
def test_the_set_without_it_counts_at_once() -> None:
    made = dynamic()
    leading(made).fetched_voters = {NodeId(3)}
    found = ask(made, messages.RemoveVoterRequest(voter=key(3)))
    assert not [effect for effect in found if isinstance(effect, Reply)]
    assert (made.voters.ids, made.voter_history.voters_offset) == ((1, 2), 10)
    state = leading(made)
    assert state.change == Removal(request_id=7, deadline_ms=NOW.mono_ms + 2_000, offset=Offset(10))
    assert (set(state.progress.voters), state.fetched_voters) == ({1, 2}, set())


@pytest.mark.conformance(133)
@pytest.mark.parametrize(
    ("ids", "gone", "text"),
    [
        ((1, 2, 3), key(4), "id 4 is not a voter; the voters are 1, 2, 3"),
        (
            (1, 2, 3),
            ReplicaKey(NodeId(3), directory(9)),
            "voter 3 has directory id AwMDAwMDAwMDAwMDAwMDAw, not CQkJCQkJCQkJCQkJCQkJCQ",
        ),
        ((1,), key(1), "the last voter cannot be removed"),
    ],
)
def test_who_is_not_found(ids: tuple[int, ...], gone: ReplicaKey, text: str) -> None:
    message = only(ask(dynamic(voters=voter_set(*ids)), messages.RemoveVoterRequest(voter=gone)), Reply).message
    assert message == messages.ChangeVoterResponse(error=ErrorCode.VOTER_NOT_FOUND, error_message=text)
