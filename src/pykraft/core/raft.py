"""The consensus core as one function: `Raft.step(event, now) -> effects`.

`step` passes an event to its handler, lets the state act on the time that has passed, and returns the effects. The
rules of each RPC are in `core.on`. The core reads no clock, does no IO and stores no record bytes. The first state
comes from quorum-state and the log; the epoch is the log's if that is higher.

The caller carries out the effects in order, holds each message back until the storage job that it waits for is durable,
reports every finished job, answer and failure as an event, and calls `step` with `TimerDue` at `next_deadline_ms`.
`now.mono_ms` never goes back.

Source: KIP-595, KIP-996; Kafka ``QuorumState.initialize``; the shape is etcd's ``Ready`` and scylla's ``fsm_output``.
"""

from random import Random

from pykraft.config import RaftConfig
from pykraft.core import events
from pykraft.core.connections import Connections
from pykraft.core.effects import ClosePeer, CloseRequester, Effect
from pykraft.core.election import Tally, draw_election_timeout_ms
from pykraft.core.enter_state import to_leader, to_prospective
from pykraft.core.leader.appending import flushed
from pykraft.core.log_view import LogView
from pykraft.core.on.dispatch import on_local_event, on_request, on_response, on_send_failed
from pykraft.core.on.proof import settle_proof
from pykraft.core.on.timer import TURNS_MAX, next_deadline_ms, poll
from pykraft.core.replica import LocalReplica, Replica
from pykraft.core.state import Candidate, Follower, Leader, Resigned, State, Unattached
from pykraft.core.status import Status, status_of
from pykraft.core.transitions import announce, write_election
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ProtocolError, UsageError
from pykraft.types import Election, Endpoint, Epoch, Instant, VoterSet


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
