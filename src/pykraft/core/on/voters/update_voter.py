"""UpdateRaftVoter: a voter tells its leader its listeners and the kraft.version levels that it supports.

1. The request passes the checks. If it tells nothing new, the leader answers at once.
2. The leader asks the voter, at its new endpoint, which levels it supports. Meanwhile no other change begins. If the
   voter is said to have moved, the leader first waits a moment: anyone can send this request, but a voter that waits
   for its answer does not fetch. If it does, it is where it was, and somebody else sent the request (ADR 129).
3. The voter answers with the levels of its request. At level 1 the leader appends the changed entry, and answers the
   request without waiting for the commit. At level 0 the log has no entry: the leader keeps the data in memory while
   it leads, and an upgrade writes it.

A voter does not fetch while it waits for this answer. So the leader waits half a fetch timeout at most, and the voter
fetches again before it would ask for votes (ADR 066). Java followers send the request to every new leader and repeat it
until they get NONE.

Source: KIP-853 §UpdateRaftVoter, KAFKA-16538, KAFKA-20661; Kafka ``UpdateVoterHandler``; seen with Kafka 4.3.1.
"""

from dataclasses import replace
from typing import Final

from pykraft.core.events import RequestReceived
from pykraft.core.leader.change_answer import answer_change, answer_requester
from pykraft.core.leader.pending import Update
from pykraft.core.messages import UpdateVoterRequest, UpdateVoterResponse
from pykraft.core.never_leads import appends_nothing
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.requests import leader_only_error, reply_with_leader
from pykraft.core.on.voters.voter_changes import ask_levels, voter_error, why_behind, why_in_doubt, write_voters
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import Instant, VersionRange, Voter, VoterSet

SILENCE_SHARE: Final = 4
"""How much of the time for the answer a voter that is said to have moved must not fetch: a fourth."""


def on_update_voter_request(
    replica: Replica, event: RequestReceived, message: UpdateVoterRequest, now: Instant
) -> None:
    """Ask a voter at its new endpoint; the answer comes when it has told its levels there.

    Effects: Send to the voter; Reply at once with an error, or when the request tells nothing new.
    Errors: INCONSISTENT_CLUSTER_ID, the leader-only ones, INVALID_REQUEST, REQUEST_TIMED_OUT while no change may be
    made or the voter cannot be asked, VOTER_NOT_FOUND, also for another directory than the one that fetches.
    Source: KIP-853 §UpdateRaftVoter; UpdateVoterHandler.
    """
    # 1. Check the request.
    error = (
        ErrorCode(message.error)
        or leader_only_error(replica, message.epoch)
        or voter_error(replica, message.voter, message.listeners)
    )
    supported = message.kraft_version
    if not error and not 0 <= supported.min_version <= supported.max_version:
        error = ErrorCode.INVALID_REQUEST
    leader = replica.state
    voter = Voter(key=message.voter, listeners=message.listeners, kraft_version=supported)
    if not error:
        assert isinstance(leader, Leader)
        error = _refusal(replica, leader, voter)
    if error:
        reply_with_leader(replica, event, UpdateVoterResponse, error)
        return
    assert isinstance(leader, Leader)
    if _with(replica, leader, voter) == _known_voters(replica, leader):
        note_sign_of_life(replica, leader, voter.key, now)
        reply_with_leader(replica, event, UpdateVoterResponse, ErrorCode.NONE)
    elif (
        (replica.kraft_version > 0 and why_behind(leader)[0])
        or not replica.connections.is_ready(voter.key.id)
        or (replica.would_move(voter) and replica.parked.has_from(voter.key.id))
    ):
        reply_with_leader(replica, event, UpdateVoterResponse, ErrorCode.REQUEST_TIMED_OUT)
    else:
        wait_ms = min(replica.config.request_timeout_ms, replica.config.fetch_timeout_ms // 2)
        leader.change = Update(
            request_id=event.request_id,
            listener=event.listener,
            voter=voter,
            deadline_ms=now.mono_ms + wait_ms,
            ask_ms=now.mono_ms + (wait_ms // SILENCE_SHARE if replica.would_move(voter) else 0),
        )
        ask_if_silent(replica, leader, now)


def ask_if_silent(replica: Replica, leader: Leader, now: Instant) -> None:
    """2. Ask for the supported levels, once the voter has not fetched for long enough.

    Effects: Send.
    """
    update = leader.change
    if not isinstance(update, Update) or update.ask_ms is None or update.ask_ms > now.mono_ms:
        return
    # A request to its former endpoint may be in flight.
    if replica.connections.is_ready(update.voter.key.id):
        leader.change = replace(update, ask_ms=None)
        ask_levels(replica, update.voter.key.id, update.voter.listeners, now)


def update_voter(replica: Replica, leader: Leader, update: Update, supported: VersionRange, now: Instant) -> None:
    """The voter has answered at its new endpoint: take it over, or refuse the request. It counts as a sign of life.

    Effects: AppendBatches at level 1; Reply.
    Source: KAFKA-20661.
    """
    voters = _with(replica, leader, update.voter)
    assert voters is not None, "no other change was made since"
    reported = update.voter.kraft_version
    if supported != reported:
        what = f"reports kraft.version {reported.min_version} to {reported.max_version}"
        there = f"at its endpoint {supported.min_version} to {supported.max_version} is supported"
        text = f"node {update.voter.key.id} {what}, and {there}: does another node listen there?"
        answer_change(replica, leader, ErrorCode.INVALID_REQUEST, text)
    elif replica.kraft_version == 0:
        # 3. Only the leader's memory has it; the voter tells it to the next leader again.
        leader.volatile_voters = voters
        answer_change(replica, leader, ErrorCode.NONE, None)
        note_sign_of_life(replica, leader, update.voter.key, now)
    elif (behind := why_behind(leader))[0]:
        answer_change(replica, leader, *behind)
    else:
        # 3. Append the changed entry, which changes no majority. Another change waits until `end_change` sees it
        # committed.
        offset = write_voters(replica, leader, voters, now)
        leader.change = replace(update, offset=offset, is_answered=True)
        answer_requester(replica, update, ErrorCode.NONE)
        note_sign_of_life(replica, leader, update.voter.key, now)


def _refusal(replica: Replica, leader: Leader, voter: Voter) -> ErrorCode:
    is_busy = leader.change is not None or replica.transfer is not None or appends_nothing(replica)
    if is_busy or leader.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if replica.kraft_version > 0 and (error := why_in_doubt(replica, leader)[0]):
        return error
    # At level 0 nothing in the log says which directory it is; its Fetches do.
    if leader.progress.twin_of(voter.key) is not None:
        return ErrorCode.VOTER_NOT_FOUND
    if not voter.kraft_version.min_version <= replica.kraft_version <= voter.kraft_version.max_version:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE if _with(replica, leader, voter) is not None else ErrorCode.VOTER_NOT_FOUND


def _known_voters(replica: Replica, leader: Leader) -> VoterSet:
    return replica.voters if replica.kraft_version > 0 else leader.volatile_voters


def _with(replica: Replica, leader: Leader, voter: Voter) -> VoterSet | None:
    """The voters with this entry in place of its former one; None if it is no voter."""
    if replica.kraft_version > 0:
        return replica.voters.with_updated(voter)
    # Static voters have no directory ids before they tell them. Of two entries with the same id, the last one counts.
    is_voter = replica.voters.get(voter.key.id) is not None
    return VoterSet.of((*leader.volatile_voters.voters, voter)) if is_voter else None
