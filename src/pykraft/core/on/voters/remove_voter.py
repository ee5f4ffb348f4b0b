"""RemoveRaftVoter: a voter leaves the voter set; it may be the leader itself.

The leader appends the new voter set, which is in force from then on, and answers the request when it commits. A leader
that removes itself leads until then without counting its own log, and then resigns.

Source: KIP-853 §RemoveRaftVoter; Raft dissertation §4.2.2; Kafka ``RemoveVoterHandler``.
"""

from __future__ import annotations

from pykraft.core.events import RequestReceived
from pykraft.core.leader.voter_change import Removal
from pykraft.core.messages import ChangeVoterResponse, RemoveVoterRequest
from pykraft.core.on.requests import reply
from pykraft.core.on.voters.voter_changes import refusal_of, write_voters
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import ZERO_UUID, Instant, uuid_text


def on_remove_voter_request(
    replica: Replica, event: RequestReceived, message: RemoveVoterRequest, now: Instant
) -> None:
    """Append the voter set without this voter.

    Effects: AppendBatches; Reply when it is committed, or at once with an error.
    Errors: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST, REQUEST_TIMED_OUT while no change may be
    made, UNSUPPORTED_VERSION in a static quorum, VOTER_NOT_FOUND, also for the last voter.
    Source: KIP-853; RemoveVoterHandler.handleRemoveVoterRequest.
    """
    error, text = refusal_of(replica, message.voter, None)
    # None for an unknown id, for another directory id, and for the last voter.
    voters = None if error else replica.voters.without(message.voter)
    if not error and voters is None:
        error, text = ErrorCode.VOTER_NOT_FOUND, _why_not_found(replica, message)
    if voters is None:
        reply(replica, event.request_id, ChangeVoterResponse(error=error, error_message=text))
        return
    leader = replica.state
    assert isinstance(leader, Leader)
    offset = write_voters(replica, leader, voters, now)
    leader.change = Removal(
        request_id=event.request_id, offset=offset, deadline_ms=now.mono_ms + replica.config.request_timeout_ms
    )


def _why_not_found(replica: Replica, message: RemoveVoterRequest) -> str:
    known = replica.voters.get(message.voter.id)
    if known is None:
        return f"id {message.voter.id} is not a voter; the voters are {', '.join(map(str, replica.voters.ids))}"
    if known.key != message.voter:
        asked, expected = (uuid_text(key.directory_id or ZERO_UUID) for key in (message.voter, known.key))
        return f"voter {message.voter.id} has directory id {expected}, not {asked}"
    return "the last voter cannot be removed"
