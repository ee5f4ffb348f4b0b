"""The consensus core as one function: `Raft.step(event, now) -> effects`.

`step` passes an event to its handler, lets the state act on the time that has passed, and returns the effects. The
rules of each RPC are in `core.on`. The core reads no clock, does no IO and stores no record bytes. The first state
comes from quorum-state and the log; the epoch is the log's if that is higher.

The caller carries out the effects in order, holds each message back until the storage job that it waits for is durable,
reports every finished job, answer and failure as an event, and calls `step` with `TimerDue` at `next_deadline_ms`.
`now.mono_ms` never goes back.

The tables of handlers of requests, responses and events are here, too, with two small handlers: DescribeQuorum, and the
progress of answers in transit. Before a deadline takes effect, the host reports how far such answers have come. An
answer that moves fast enough (`pykraft.core.answer_pace`) extends the deadlines of its sender or receiver:

1. A follower waits on for the leader's answer, and does not campaign meanwhile.
2. A leader counts the voter that takes its answer for check quorum. That voter is alive, but it cannot fetch again
   before it has the whole answer. A large answer that has left may still be on its way.

Source: KIP-595 (also §DescribeQuorum and §Leader progress timeout), KIP-836, KIP-853, KIP-996; ours (ADR 036);
Kafka ``QuorumState.initialize``; the shape is etcd's ``Ready`` and scylla's ``fsm_output``.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from pykraft.config import RaftConfig
from pykraft.core import events, messages
from pykraft.core.connections import Connections
from pykraft.core.departure import note_denial_of_leader
from pykraft.core.effects import ClosePeer, CloseRequester, Effect
from pykraft.core.election import Tally, draw_election_timeout_ms
from pykraft.core.enter_state import to_leader, to_prospective
from pykraft.core.events import AnswersProgressed, RequestReceived, ResponseReceived, SendFailed
from pykraft.core.leader.appending import flushed
from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.log_view import LogView
from pykraft.core.messages import DescribedReplica, DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.core.on import download, quorum_epoch
from pykraft.core.on.corruption import on_corruption_found
from pykraft.core.on.early_campaign import on_leader_refused
from pykraft.core.on.fetch_request import note_sign_of_life, on_fetch_request
from pykraft.core.on.fetch_response import on_commit_heard, on_fetch_response
from pykraft.core.on.following import check_not_refused, note_whole
from pykraft.core.on.proof import on_survey_unsupported, settle_proof
from pykraft.core.on.propose import on_appends_scheduled, on_proposed, on_resign_requested, on_shutdown_requested
from pykraft.core.on.read import on_read_requested
from pykraft.core.on.requests import reply
from pykraft.core.on.snapshot import on_snapshot_frozen, on_snapshots_expired
from pykraft.core.on.timer import TURNS_MAX, next_deadline_ms, poll
from pykraft.core.on.transfer import on_transfer_leadership_request, on_transfer_requested
from pykraft.core.on.vote import on_vote_request, on_vote_response, on_vote_unsupported
from pykraft.core.on.voters.add_voter import on_add_voter_request, on_remove_voter_request
from pykraft.core.on.voters.asked_levels import on_api_versions_response, on_asked_node_failed
from pykraft.core.on.voters.auto_join import on_change_voter_response, on_update_unsupported, on_update_voter_response
from pykraft.core.on.voters.update_voter import on_update_voter_request
from pykraft.core.on.voters.upgrade import on_update_features_request, on_upgrade_requested
from pykraft.core.replica import LocalReplica, Replica
from pykraft.core.state import Candidate, Follower, Leader, Resigned, State, Unattached
from pykraft.core.status import Status, status_of
from pykraft.core.transitions import announce, write_election
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode, ProtocolError, UsageError
from pykraft.types import Election, Endpoint, Epoch, Instant, VoterSet


def on_answers_progressed(replica: Replica, event: AnswersProgressed, now: Instant) -> None:
    """Extend the deadlines of peers whose answers move fast enough."""
    # 1. Answers that arrive here.
    for arriving in event.arriving:
        moves = replica.connections.progressed(
            arriving.peer_id, arriving.correlation_id, arriving.received_bytes, arriving.size_bytes, now.mono_ms
        )
        state = replica.state
        if moves and isinstance(state, Follower) and arriving.peer_id == state.leader_id:
            replica.state = state.hears(now, replica.config.fetch_timeout_ms)
    leader = replica.state
    if not isinstance(leader, Leader):
        return
    # 2. Our answers that are on their way to voters.
    for leaving in event.leaving:
        for voter in leader.progress.voters.values():
            answer = voter.answer
            if answer is None or answer.request_id != leaving.request_id:
                continue
            if answer.pace.sent(leaving.sent_bytes, leaving.size_bytes, now.mono_ms):
                note_sign_of_life(replica, leader, voter.key, now)


HANDLERS: Mapping[type[events.Event], Callable[[Replica, Any, Instant], None]] = {
    events.AnswersProgressed: on_answers_progressed,
    events.ConnectionLost: quorum_epoch.on_connection_lost,
    events.Proposed: on_proposed,
    events.AppendsScheduled: on_appends_scheduled,
    events.CorruptionFound: on_corruption_found,
    events.DownloadAdvanced: download.on_download_advanced,
    events.DownloadFailed: download.on_download_failed,
    events.SnapshotFrozen: on_snapshot_frozen,
    events.SnapshotsExpired: on_snapshots_expired,
    events.ResignRequested: on_resign_requested,
    events.UpgradeRequested: on_upgrade_requested,
    events.TransferRequested: on_transfer_requested,
    events.ReadRequested: on_read_requested,
    events.CommitHeard: on_commit_heard,
    events.ShutdownRequested: on_shutdown_requested,
}


def on_local_event(replica: Replica, event: events.Event, now: Instant) -> None:
    HANDLERS[type(event)](replica, event, now)


def on_describe_quorum_request(
    replica: Replica, event: RequestReceived, message: DescribeQuorumRequest, now: Instant
) -> None:
    """List voters and observers with their fetch offsets; the leader itself counts as caught up now.

    Of a static voter the nodes have all endpoints that it told this leader, where Kafka's leader names one (ADR 082).

    Effects: Reply.
    Errors: NOT_LEADER_OR_FOLLOWER.
    Source: KIP-595 §DescribeQuorum, KIP-836; KafkaRaftClient.handleDescribeQuorumRequest.
    """
    leader = replica.state
    if not isinstance(leader, Leader):
        refused = DescribeQuorumResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, asked_as=message.asked_as)
        reply(replica, event.request_id, refused)
        return
    assert replica.local.key is not None
    # A leader that is removing itself is in neither list.
    voters = leader.progress.voters
    own = DescribedReplica(
        # At level 0 no voter has a directory id in the answer, as in Kafka.
        key=voters[leader.leader_id].key if leader.leader_id in voters else replica.local.key,
        log_end_offset=replica.log.end_offset,
        last_fetch_timestamp=now.wall_ms,
        last_caught_up_timestamp=now.wall_ms,
    )
    told = leader.volatile_voters.voters if replica.kraft_version == 0 else ()
    response = DescribeQuorumResponse(
        error=ErrorCode.NONE,
        asked_as=message.asked_as,
        leader_id=leader.leader_id,
        epoch=leader.epoch,
        high_watermark=leader.high_watermark,
        voters=tuple(own if node_id == leader.leader_id else _row(voters[node_id]) for node_id in sorted(voters)),
        observers=tuple(_row(observer) for observer in leader.progress.observers(now)),
        nodes=VoterSet.of((*replica.voters.voters, *told)).voters,
    )
    reply(replica, event.request_id, response)


def _row(seen: ReplicaProgress) -> DescribedReplica:
    return DescribedReplica(
        key=seen.key,
        log_end_offset=-1 if seen.end_offset is None else seen.end_offset,
        last_fetch_timestamp=seen.fetched_wall_ms,
        last_caught_up_timestamp=seen.caught_up_wall_ms,
    )


REQUEST_HANDLERS: Mapping[type[messages.Request], Callable[[Replica, RequestReceived, Any, Instant], None]] = {
    messages.VoteRequest: on_vote_request,
    messages.BeginQuorumEpochRequest: quorum_epoch.on_begin_quorum_epoch_request,
    messages.EndQuorumEpochRequest: quorum_epoch.on_end_quorum_epoch_request,
    messages.FetchRequest: on_fetch_request,
    messages.FetchSnapshotRequest: download.on_fetch_snapshot_request,
    messages.UpdateVoterRequest: on_update_voter_request,
    messages.DescribeQuorumRequest: on_describe_quorum_request,
    messages.AddVoterRequest: on_add_voter_request,
    messages.RemoveVoterRequest: on_remove_voter_request,
    messages.UpdateFeaturesRequest: on_update_features_request,
    messages.TransferLeadershipRequest: on_transfer_leadership_request,
}

RESPONSE_HANDLERS: Mapping[type[messages.Response], Callable[[Replica, ResponseReceived, Any, Instant], None]] = {
    messages.VoteResponse: on_vote_response,
    messages.BeginQuorumEpochResponse: quorum_epoch.on_begin_quorum_epoch_response,
    messages.EndQuorumEpochResponse: quorum_epoch.on_end_quorum_epoch_response,
    messages.FetchResponse: on_fetch_response,
    messages.FetchSnapshotResponse: download.on_fetch_snapshot_response,
    messages.UpdateVoterResponse: on_update_voter_response,
    messages.ChangeVoterResponse: on_change_voter_response,
    messages.ApiVersionsResponse: on_api_versions_response,
}


def on_request(replica: Replica, event: RequestReceived, now: Instant) -> None:
    REQUEST_HANDLERS[type(event.message)](replica, event, event.message, now)


def on_response(replica: Replica, event: ResponseReceived, now: Instant) -> None:
    """Pass a response to its handler; a top-level error is handled here.

    Errors: ProtocolError for a response that this replica never asks for, and for one of `following.REFUSALS`.
    """
    # The peer answers, so a process listens there again.
    replica.refused_by.discard(event.peer_id)
    replica.epoch_budget.answered(event.peer_id)
    note_whole(replica, event.peer_id)
    if isinstance(event.message, messages.TopLevelError):
        check_not_refused(event.message.error)
        replica.connections.back_off(event.peer_id, now.mono_ms)
        _on_error(replica, event.peer_id, event.message.error, now)
        return
    handler = RESPONSE_HANDLERS.get(type(event.message))
    if handler is None:
        raise ProtocolError(f"a {type(event.message).__name__} answers no request of this node")
    handler(replica, event, event.message, now)


def on_send_failed(replica: Replica, event: SendFailed, now: Instant) -> None:
    """No response will come. The peer is backing off already."""
    if event.is_refused:
        # The peer's machine answers, and no process listens there.
        replica.refused_by.add(event.peer_id)
        on_leader_refused(replica, event.peer_id, now)
        note_denial_of_leader(replica, event.peer_id, now)
    _on_error(replica, event.peer_id, event.error, now)


def _on_error(replica: Replica, peer_id: int, error: int, now: Instant) -> None:
    """React to the two errors with a fallback; every other request is sent again after the back-off."""
    # If this peer was to become a voter, or has told a new endpoint, that change fails.
    on_asked_node_failed(replica, peer_id)
    # The peer may not know PreVote (then start the standard election) or UpdateRaftVoter (then do not repeat it).
    if error == ErrorCode.UNSUPPORTED_VERSION:
        on_vote_unsupported(replica, now)
        on_survey_unsupported(replica)
        on_update_unsupported(replica)


def initial_state(
    *,
    config: RaftConfig,
    local: LocalReplica,
    voters: VoterSet,
    election: Election,
    log: LogView,
    rng: Random,
    now: Instant,
) -> State:
    """The first state, from quorum-state and the log.

    Errors: UsageError when quorum-state holds a vote but this replica has no id.
    """
    if election.voted is not None and local.id is None:
        raise UsageError("quorum-state holds a vote, but node.id is not set: start it with its former node.id")
    deadline_ms = now.mono_ms + draw_election_timeout_ms(rng, config.election_timeout_ms)
    # An older quorum-state was restored. Its leader and vote belong to an epoch that is over (ADR 025).
    if election.epoch < log.last_epoch:
        return Unattached(epoch=log.last_epoch, election_deadline_ms=deadline_ms)
    leader_id, voted = election.leader_id, election.voted
    # A replica that led its last epoch never leads it again. Its unflushed records may be lost, and the same (epoch,
    # offset) must not name two different records.
    if leader_id is not None and leader_id == local.id:
        return Resigned(
            epoch=election.epoch,
            leader_id=leader_id,
            unacknowledged=frozenset(voters.ids) - {leader_id},
            successors=(),
            election_deadline_ms=deadline_ms,
        )
    is_own = voted is not None and local.key is not None and voted.matches(local.key)
    # A replica that voted for itself asks for votes in the same epoch again, unless it knows who was elected (ADR 020).
    # In quarantine or without proof it keeps that vote, but asks nobody to confirm it.
    may_ask = is_own and leader_id is None and log.quarantine is None and local.proof.is_complete
    if may_ask and local.key is not None and voters.is_voter(local.key):
        return Candidate(
            epoch=election.epoch,
            voted=local.key,
            election_deadline_ms=deadline_ms,
            tally=Tally.begin(voters, local.key),
        )
    if leader_id is not None and len(voters.listeners(leader_id)):
        return Follower(
            epoch=election.epoch,
            leader_id=leader_id,
            leader_listeners=voters.listeners(leader_id),
            voted=voted,
            fetch_deadline_ms=now.mono_ms + config.fetch_timeout_ms,
            update_deadline_ms=now.mono_ms + config.fetch_timeout_ms,
        )
    return Unattached(epoch=election.epoch, leader_id=leader_id, voted=voted, election_deadline_ms=deadline_ms)


def begin(replica: Replica, now: Instant) -> None:
    """Take the first step: write the election even if it is unchanged; the only voter leads at once.

    Effects: WriteElectionState, NotifyRole, and what follows.
    """
    write_election(replica)
    announce(replica)
    settle_proof(replica, now, is_log_own=replica.local.proof.was_complete)
    if isinstance(replica.state, Candidate):
        if replica.state.tally.is_won:
            to_leader(replica, now)
    elif replica.is_only_voter and replica.may_campaign:
        to_prospective(replica, now)


class Raft:
    """One replica of one log."""

    turns_max = TURNS_MAX
    """Transitions by expired deadlines in one step; Kafka's own tests look between two of them, and allow one."""

    def __init__(
        self,
        *,
        config: RaftConfig,
        local: LocalReplica,
        voter_history: VoterHistory,
        bootstrap: tuple[Endpoint, ...] = (),
        election: Election | None,
        log: LogView,
        rng: Random,
        now: Instant,
    ) -> None:
        """``election`` and ``log`` are what recovery found and made durable; ``election`` is None for a new replica.

        ``voter_history`` holds the voter sets and kraft.version levels that the configuration and the log name.

        Errors: UsageError when they cannot belong to a replica with this identity.
        """
        state = initial_state(
            config=config,
            local=local,
            voters=voter_history.voters,
            election=election or Election(),
            log=log,
            rng=rng,
            now=now,
        )
        self._replica = Replica(
            config=config, local=local, voter_history=voter_history, bootstrap=bootstrap, log=log, rng=rng, state=state
        )
        self.status: Status = status_of(self._replica)
        """What the last step left; any thread may read it."""

    def start(self, now: Instant) -> list[Effect]:
        """Return the first effects. The initial election state is written first, even if it is unchanged.

        The only voter of a quorum becomes leader at once.
        """
        replica = self._replica
        replica.now_ms = now.mono_ms
        begin(replica, now)
        return self._end(now)

    def step(self, event: events.Event, now: Instant) -> list[Effect]:
        """Handle one event and return its effects; none once the shutdown is complete.

        A message that no correct peer sends closes its connection and changes nothing.
        """
        replica = self._replica
        if replica.is_stopped:
            return []
        replica.now_ms = now.mono_ms
        try:
            self._handle(event, now)
        except ProtocolError as error:
            # The peer sent what no correct replica sends. Handlers raise before they change anything.
            replica.outbox.add(_close(event, error))
        return self._end(now)

    def _end(self, now: Instant) -> list[Effect]:
        """End a step: let the state act on the time that has passed, publish the status, and return the effects."""
        replica = self._replica
        poll(replica, now, self.turns_max)
        self.status = status_of(replica)
        return replica.outbox.take(now.mono_ms)

    def _handle(self, event: events.Event, now: Instant) -> None:
        replica = self._replica
        match event:
            case events.RequestReceived():
                on_request(replica, event, now)
            case events.RequestAbandoned():
                replica.parked.drop(event.request_id)
            case events.ResponseReceived():
                if replica.connections.received(event.peer_id, event.correlation_id):
                    try:
                        on_response(replica, event, now)
                    except ProtocolError:
                        # Otherwise the same request would be sent, and rejected, again at once.
                        replica.connections.back_off(event.peer_id, now.mono_ms)
                        raise
            case events.SendFailed():
                if replica.connections.received(event.peer_id, event.correlation_id):
                    replica.connections.back_off(event.peer_id, now.mono_ms)
                    on_send_failed(replica, event, now)
            case events.Persisted():
                replica.outbox.persist(event.io)
                replica.log.persist(event.io)
                if isinstance(replica.state, Leader):
                    flushed(replica, replica.state)
            case events.TimerDue():
                pass
            case _:
                # Requests of the application and results of the host, such as a finished download.
                on_local_event(replica, event, now)

    def next_deadline_ms(self) -> int | None:
        """When `TimerDue` must come at the latest (mono ms); None when no timer is running."""
        return next_deadline_ms(self._replica)

    @property
    def state(self) -> State:
        return self._replica.state

    @property
    def votes_above(self) -> Epoch:
        """It grants votes above this epoch only, for inspection."""
        return self._replica.votes_above

    @property
    def refused_epochs(self) -> int:
        """Number of requests and responses refused because they would have raised the epoch beyond the budget."""
        return self._replica.refused_epochs

    @property
    def log(self) -> LogView:
        """Ends and epochs of the log, for inspection."""
        return self._replica.log

    @property
    def connections(self) -> Connections:
        """Requests under way and pauses, for inspection."""
        return self._replica.connections

    @property
    def voter_history(self) -> VoterHistory:
        """Voter sets and levels of ``kraft.version`` by offset, for inspection."""
        return self._replica.voter_history


def _close(event: events.Event, error: ProtocolError) -> Effect:
    if isinstance(event, events.RequestReceived):
        return CloseRequester(request_id=event.request_id, reason=str(error))
    assert isinstance(event, events.ResponseReceived)
    return ClosePeer(peer_id=event.peer_id, reason=str(error))
