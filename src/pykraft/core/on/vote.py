"""Vote and PreVote: handle the request and the response, and decide when a campaign is won or lost.

Source: KIP-595 §Vote, KIP-996, KIP-853 (voter keys); Kafka ``KafkaRaftClient.handleVoteRequest``.
"""

from dataclasses import replace
from typing import assert_never

from pykraft.core.enter_state import cast_vote, give_up_campaign, to_candidate, to_leader, to_unattached
from pykraft.core.events import RequestReceived, ResponseReceived
from pykraft.core.messages import VoteRequest, VoteResponse
from pykraft.core.never_leads import note_denial
from pykraft.core.on.early_campaign import let_go_first
from pykraft.core.on.epoch_raise import may_request_raise
from pykraft.core.on.following import settle_answer
from pykraft.core.on.proof import EMPTY_LOG, on_survey_answer
from pykraft.core.on.requests import is_addressed_to, reply, voter_only_error
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Instant, NodeId, ReplicaKey


def on_vote_request(replica: Replica, event: RequestReceived, message: VoteRequest, now: Instant) -> None:
    """Answer a Vote or PreVote request.

    A replica grants at most one vote per epoch; a granted pre-vote binds nothing. Either kind of request raises the
    epoch if it is higher.

    Effects: WriteElectionState if the epoch or the vote changed; Reply, always, after it.
    Units: epoch int32 >= 0; the candidate's end offset exclusive, int64.
    Errors: INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_VOTER_KEY; BROKER_NOT_AVAILABLE when the epoch budget refuses
    the epoch; ProtocolError when the candidate claims to be this node.
    Source: KIP-595 §Vote, KIP-996; KafkaRaftClient.handleVoteRequest.
    """
    error = _field_error(message) or voter_only_error(replica, message.candidate.id, message.epoch)
    if error:
        _answer(replica, event, error)
        return
    if message.candidate.id == replica.local.id:
        raise ProtocolError(f"a candidate claims to be node {replica.local.id}, which is this one")
    is_voter = replica.voters.is_voter(message.candidate)
    if not may_request_raise(replica, message.epoch, message.candidate.id, now, is_voter=is_voter):
        _answer(replica, event, ErrorCode.BROKER_NOT_AVAILABLE)
        return
    if message.epoch > replica.epoch:
        to_unattached(replica, message.epoch, now)
    # The epoch is real even if the request names another directory id of this node, so check that only now.
    if not is_addressed_to(replica, message.voter):
        _answer(replica, event, ErrorCode.INVALID_VOTER_KEY)
        return
    if message.pre_vote:
        granted = would_grant_pre_vote(replica, message)
        if not granted and replica.survey is not None and message.last == EMPTY_LOG:
            # A candidate with an empty log may be unproven itself. It takes a denial as our promise about this epoch,
            # and we, unproven as well, cannot make one: we have only learned the epoch.
            _answer(replica, event, ErrorCode.INVALID_VOTER_KEY)
            return
        _answer(replica, event, ErrorCode.NONE, granted=granted)
        if granted:
            let_go_first(replica, now)
        else:
            note_denial(replica, message, now)
            _ask_again(replica, message.candidate.id)
        return
    granted = would_grant_vote(replica, message)
    # A repeated vote for the same candidate is in quorum-state already and is not written again.
    if granted and replica.voted is None:
        cast_vote(replica, message.candidate, now)
    if not granted:
        note_denial(replica, message, now)
    _answer(replica, event, ErrorCode.NONE, granted=granted, is_vote=granted)


def _ask_again(replica: Replica, voter_id: NodeId) -> None:
    """Ask this voter again: it asked for our pre-vote, so it has no leader, and its denial is out of date."""
    state = replica.state
    if isinstance(state, Prospective):
        # This cannot go back and forth: the voter's log is shorter than ours, so it grants when we ask again.
        replica.state = replace(state, tally=state.tally.forget(voter_id))


def would_grant_vote(replica: Replica, message: VoteRequest) -> bool:
    """True when this replica grants the standard vote in the request's own epoch.

    A replica that already voted grants the same candidate again, whatever its log. Otherwise it grants only if it knows
    no leader and the candidate's log is at least as long as its own (Raft paper §5.4.1).
    """
    # In quarantine, part of this log is lost, so we cannot tell whether the candidate's log is long enough. An unproven
    # replica may have voted in this epoch and forgotten it; a proven one may have forgotten votes up to `votes_above`.
    if replica.log.quarantine is not None or replica.survey is not None or message.epoch <= replica.votes_above:
        return False
    if _is_twin(replica, message.candidate):
        return False
    match replica.state:
        case Unattached() | Prospective():
            # A replica without an id is no voter.
            if replica.local.id is None:
                return False
            if replica.state.voted is not None:
                return replica.state.voted.matches(message.candidate)
            return replica.state.leader_id is None and message.last.is_at_least(replica.log.end)
        case Candidate() | Leader() | Follower() | Resigned():
            return False
        case _:
            assert_never(replica.state)


def would_grant_pre_vote(replica: Replica, message: VoteRequest) -> bool:
    """True when this replica grants the pre-vote: the log is at least as long, and it knows no live leader."""
    # In a new quorum all replicas are unproven and all logs are empty. So an unproven replica grants to an empty log,
    # and to no other.
    if replica.log.quarantine is not None or (replica.survey is not None and message.last != EMPTY_LOG):
        return False
    if _is_twin(replica, message.candidate):
        return False
    match replica.state:
        case Unattached() | Prospective() | Candidate() | Resigned():
            return message.last.is_at_least(replica.log.end)
        case Follower():
            # A follower that has fetched from its leader considers it alive (KIP-996).
            return not replica.state.has_fetched and message.last.is_at_least(replica.log.end)
        case Leader():
            return False
        case _:
            assert_never(replica.state)


def _is_twin(replica: Replica, candidate: ReplicaKey) -> bool:
    """True for another directory than the one that fetched as this static voter while this replica led.

    What the twin stored counts for nobody. This replica has at least its log, so it can be elected instead.
    """
    known = replica.led_directories.get(candidate.id)
    return known is not None and candidate.directory_id not in (None, known)


def on_vote_response(replica: Replica, event: ResponseReceived, message: VoteResponse, now: Instant) -> None:
    """Count a response to the running campaign, and ignore all others.

    Effects: WriteElectionState and what follows when the campaign is decided.
    Source: KIP-595 §Vote, KIP-996; KafkaRaftClient.handleVoteResponse.
    """
    if not settle_answer(replica, event.peer_id, message, now):
        return
    state = replica.state
    voter_id = NodeId(event.peer_id)
    on_survey_answer(replica, voter_id, granted=message.vote_granted)
    if not isinstance(state, Prospective | Candidate) or voter_id not in state.tally.voters:
        return
    # A Vote answer is final in its epoch; a pre-vote may change, so the latest one counts.
    if isinstance(state, Candidate) and voter_id not in state.tally.unanswered:
        return
    if isinstance(state, Prospective) and state.is_early and voter_id == state.leader_id and not message.vote_granted:
        # Step 4 of `early_campaign`: the leader itself answers, so its process runs.
        give_up_campaign(replica, now)
        return
    # The leader sends EndQuorumEpoch to all voters at once. This voter may not have received it yet when it got our
    # PreVote, so do not count its denial; ask again after the back-off. Likewise when the leader refuses connections.
    if isinstance(state, Prospective) and state.leader_has_left and not message.vote_granted:
        replica.connections.back_off(event.peer_id, now.mono_ms)
        return
    tally = state.tally.record(voter_id, granted=message.vote_granted)
    replica.state = replace(state, tally=tally)
    if isinstance(state, Prospective):
        if tally.is_won:
            to_candidate(replica, now)
        elif tally.is_lost:
            give_up_campaign(replica, now)
    elif tally.is_won:
        to_leader(replica, now)


def on_vote_unsupported(replica: Replica, now: Instant) -> None:
    """A voter does not support pre-votes: start the standard election at once (KIP-996 §Compatibility)."""
    state = replica.state
    if not isinstance(state, Prospective):
        return
    if state.is_early:
        # A standard election would replace the leader although others may hear it: wait for the fetch timeout.
        give_up_campaign(replica, now)
    else:
        to_candidate(replica, now)


def _field_error(message: VoteRequest) -> ErrorCode:
    """INVALID_REQUEST for an impossible log end: a candidate's last epoch is below the epoch it campaigns for."""
    last = message.last
    # A pre-vote carries the candidate's current epoch, which its log may already contain.
    last_epoch_max = message.epoch if message.pre_vote else message.epoch - 1
    is_valid = last.offset >= 0 and 0 <= last.epoch <= last_epoch_max
    return ErrorCode.NONE if is_valid else ErrorCode.INVALID_REQUEST


def _answer(
    replica: Replica, event: RequestReceived, error: ErrorCode, *, granted: bool = False, is_vote: bool = False
) -> None:
    """Answer once the fields it relies on are durable: a vote or our own leadership, else only the epoch."""
    assert not (granted and error)
    relies = Relies.ELECTION if is_vote or replica.leader_id == replica.local.id else Relies.EPOCH
    response = VoteResponse(
        error=error,
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        vote_granted=granted,
        listeners=replica.reply_listeners(event.listener),
    )
    reply(replica, event.request_id, response, relies)
