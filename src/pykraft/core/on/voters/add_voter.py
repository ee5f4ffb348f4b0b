"""AddRaftVoter: an observer that has caught up becomes a voter. RemoveRaftVoter: a voter, or the leader, leaves.

1. The request passes the checks.
2. The leader asks the replica which kraft.version levels it supports.
3. The replica answers, and has caught up with the leader's log within the last hour. The leader appends the voter set
   that includes it; the set is in force from then on.
4. The voter set commits, and the leader answers the request. If the request did not ask for the commit, the leader
   answers at step 3.

A removal has steps 1, 3 and 4. A leader that removes itself leads until the commit without counting its own log, and
then resigns.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter, KIP-1186 (answer before the commit); Raft dissertation §4.2.2; Kafka
``AddVoterHandler``, ``RemoveVoterHandler``.
"""

from dataclasses import replace

from pykraft.core.events import RequestReceived
from pykraft.core.leader.change_answer import answer_change, answer_requester
from pykraft.core.leader.pending import Addition, Removal
from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse, RemoveVoterRequest
from pykraft.core.on.requests import reply
from pykraft.core.on.voters.voter_changes import ask_levels, refusal_of, why_behind, write_voters
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import ZERO_UUID, Instant, ReplicaKey, VersionRange, Voter, uuid_text


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


CAUGHT_UP_MS_MAX = 3_600_000
"""A new voter must have fetched within this time."""


def on_add_voter_request(replica: Replica, event: RequestReceived, message: AddVoterRequest, now: Instant) -> None:
    """Start to add a voter; the answer comes when the replica is one.

    Effects: Send to the new voter; Reply at once with an error.
    Errors: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST, REQUEST_TIMED_OUT while no change may be
    made, UNSUPPORTED_VERSION in a static quorum, DUPLICATE_VOTER.
    Source: KIP-853; AddVoterHandler.handleAddVoterRequest.
    """
    # 1. Check the request.
    error, text = refusal_of(replica, message.voter, message.listeners)
    voter_id = message.voter.id
    if not error and (known := replica.voters.get(voter_id)) is not None:
        entry = f"id {voter_id} is already a voter, with directory id {uuid_text(known.key.directory_id or ZERO_UUID)}"
        error, text = ErrorCode.DUPLICATE_VOTER, f"{entry}; remove it first"
    if not error and not replica.connections.is_ready(voter_id):
        error, text = ErrorCode.REQUEST_TIMED_OUT, f"node {voter_id} cannot be reached at the moment: try again"
    if error:
        reply(replica, event.request_id, ChangeVoterResponse(error=error, error_message=text))
        return
    leader = replica.state
    assert isinstance(leader, Leader)
    # 2. Ask for the supported levels.
    ask_levels(replica, voter_id, message.listeners, now)
    leader.change = Addition(
        request_id=event.request_id,
        voter=Voter(key=message.voter, listeners=message.listeners),
        ack_when_committed=message.ack_when_committed,
        deadline_ms=now.mono_ms + replica.config.request_timeout_ms,
    )


def add_voter(replica: Replica, leader: Leader, addition: Addition, supported: VersionRange, now: Instant) -> None:
    """The new voter has told the levels that it supports: append the set that includes it, or refuse the request.

    Effects: AppendBatches, Reply.
    Source: KIP-853; AddVoterHandler.handleApiVersionsResponse.
    """
    if not _has_caught_up(leader, addition.voter.key, now):
        text = f"node {addition.voter.key.id} has not caught up with the leader: wait until it has, and try again"
        answer_change(replica, leader, ErrorCode.REQUEST_TIMED_OUT, text)
    # A refusal is an error code with its message; code 0 refuses nothing.
    elif (behind := why_behind(leader))[0]:
        answer_change(replica, leader, *behind)
    else:
        # 3. Append the new voter set.
        voters = replica.voters.with_added(replace(addition.voter, kraft_version=supported))
        assert voters is not None, "no other change was made since"
        offset = write_voters(replica, leader, voters, now)
        leader.change = replace(addition, offset=offset, is_answered=not addition.ack_when_committed)
        # 4. `end_change` answers when the set commits, unless the request is answered here (KIP-1186).
        if not addition.ack_when_committed:
            answer_requester(replica, addition, ErrorCode.NONE)


def _has_caught_up(leader: Leader, key: ReplicaKey, now: Instant) -> bool:
    seen = leader.progress.observer(key)
    return seen is not None and seen.caught_up_wall_ms > 0 and not seen.is_silent_for(CAUGHT_UP_MS_MAX, now)
