"""UpdateRaftVoter: a voter tells its leader its listeners and the kraft.version levels that it supports.

At level 1 the leader appends a changed entry and answers without waiting for the commit. At level 0 the log has no
entry: the leader keeps the data in memory while it leads, and an upgrade writes it. Java followers send the request to
every new leader and repeat it until they get NONE.

Source: KIP-853 §UpdateRaftVoter, KAFKA-16538; Kafka ``UpdateVoterHandler``; seen with Kafka 4.3.1.
"""

from __future__ import annotations

from pykraft.core.events import RequestReceived
from pykraft.core.messages import UpdateVoterRequest, UpdateVoterResponse
from pykraft.core.never_leads import appends_nothing
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.requests import leader_only_error, reply_with_leader
from pykraft.core.on.voters.voter_changes import voter_error, why_behind, why_in_doubt, write_voters
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import Instant, Voter, VoterSet


def on_update_voter_request(
    replica: Replica, event: RequestReceived, message: UpdateVoterRequest, now: Instant
) -> None:
    """Store a voter's listeners and supported levels; the request counts as a sign of life.

    Effects: AppendBatches at level 1; Reply.
    Errors: the leader-only ones, INVALID_REQUEST, REQUEST_TIMED_OUT while no change may be made, VOTER_NOT_FOUND.
    Source: KIP-853 §UpdateRaftVoter; UpdateVoterHandler.
    """
    error = leader_only_error(replica, message.epoch) or voter_error(replica, message.voter, message.listeners)
    supported = message.kraft_version
    if not error and not 0 <= supported.min_version <= supported.max_version:
        error = ErrorCode.INVALID_REQUEST
    if not error:
        assert isinstance(replica.state, Leader)
        error = _update(replica, replica.state, message, now)
    reply_with_leader(replica, event, UpdateVoterResponse, error)


def _update(replica: Replica, leader: Leader, message: UpdateVoterRequest, now: Instant) -> ErrorCode:
    voter = Voter(key=message.voter, listeners=message.listeners, kraft_version=message.kraft_version)
    is_busy = leader.change is not None or replica.transfer is not None or appends_nothing(replica)
    if is_busy or leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if replica.kraft_version > 0 and (error := why_in_doubt(replica, leader)[0]):
        return error
    if not message.kraft_version.min_version <= replica.kraft_version <= message.kraft_version.max_version:
        return ErrorCode.INVALID_REQUEST
    if replica.kraft_version > 0:
        # At level 1 a changed entry is appended. An entry does not change the majority.
        voters = replica.voters.with_updated(voter)
        if voters is None:
            return ErrorCode.VOTER_NOT_FOUND
        if voters != replica.voters and (behind := why_behind(leader)[0]):
            return behind
        if voters != replica.voters:
            write_voters(replica, leader, voters, now)
    else:
        if replica.voters.get(voter.key.id) is None:
            return ErrorCode.VOTER_NOT_FOUND
        # At level 0 only the leader's memory has it; the voter sends it again to the next leader. Of two entries with
        # the same id, the last one counts.
        leader.volatile_voters = VoterSet.of((*leader.volatile_voters.voters, voter))
    note_sign_of_life(replica, leader, message.voter, now)
    return ErrorCode.NONE
