"""One replica: its state and the parts that the rules work on. Data and look-ups only; the rules are in `core.on`.

Invariant: the state's epoch never decreases, and no message of an epoch leaves before that epoch is durable (`Outbox`
ensures the latter).

Source: KIP-595; Kafka ``QuorumState``.
"""

from dataclasses import dataclass, field
from random import Random
from typing import assert_never

from pykraft import types
from pykraft.config import RaftConfig
from pykraft.core.answer_pace import floor_bytes
from pykraft.core.connections import Connections
from pykraft.core.effects import Peer
from pykraft.core.election import draw_election_timeout_ms
from pykraft.core.epoch_budget import EpochBudget
from pykraft.core.leader.parked import ParkedFetches
from pykraft.core.leader.pending import Transfer
from pykraft.core.log_view import LogView
from pykraft.core.outbox import Outbox
from pykraft.core.proof import PROVEN, Proof, Survey
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.voter_history import VoterHistory

BOOTSTRAP_ID_FIRST = -2
"""Bootstrap servers have no known node id; they get -2, -3, … in the order of their list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReplica:
    """Identity of this replica: a replica without an id is always an observer. Listeners are as advertised.

    ``proof`` is what the directory proved when the process started. ``key`` is id and directory id, or None without an
    id. Every step reads it several times, so it is built once.
    """

    id: types.NodeId | None
    directory_id: types.Uuid
    listeners: types.Listeners
    default_listener: str
    kraft_version: types.VersionRange = types.KRAFT_VERSIONS
    proof: Proof = PROVEN
    key: types.ReplicaKey | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert self.directory_id != types.ZERO_UUID, "the zero directory id stands for an unknown one"
        object.__setattr__(self, "key", None if self.id is None else types.ReplicaKey(self.id, self.directory_id))

    @property
    def voter(self) -> types.Voter:
        """This replica as an entry of a voter set; it must have an id."""
        assert self.key is not None
        return types.Voter(key=self.key, listeners=self.listeners, kraft_version=self.kraft_version)


class Replica:
    """State, log, connections and outgoing effects of one replica."""

    def __init__(
        self,
        *,
        config: RaftConfig,
        local: LocalReplica,
        voter_history: VoterHistory,
        bootstrap: tuple[types.Endpoint, ...],
        log: LogView,
        rng: Random,
        state: State,
    ) -> None:
        self.config = config
        self.local = local
        self.voter_history = voter_history
        self.log = log
        self.rng = rng
        self.state = state
        self.outbox = Outbox()
        self.floor_bytes = floor_bytes(config.fetch_size_bytes_max)
        """Bytes of an answer that must arrive or leave per timeout."""
        self.connections = Connections(
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            floor_bytes=self.floor_bytes,
        )
        self.parked = ParkedFetches()
        self.leader_announced: tuple[types.Epoch, types.NodeId | None] = (types.Epoch(0), None)
        self.told_role: tuple[str, types.Epoch] | None = None
        self.shutdown_deadline_ms: int | None = None
        self.refused_by: set[int] = set()
        """Peers that refused the last connection, and since a shutdown began: no process listens there."""
        self.transfer: Transfer | None = None
        # A replica without an id is in no voter set, so it has nothing to prove.
        is_unproven = local.id is not None and not local.proof.is_complete
        self.survey = Survey(has_fresh_id=local.proof.has_fresh_id) if is_unproven else None
        """The voters' answers while the directory proves nothing about this voter; None once it is proven."""
        self.votes_above = local.proof.votes_above
        """Grant votes above this epoch only: before the directory was emptied, the replica may have voted up to it."""
        self.transfer_rest_ms: int | None = None
        """No other transfer starts before this time, because the last one failed (mono ms)."""
        self.leaderless_timeouts: int | None = None
        """Of a voter that never leads: election timeouts that passed since its leader was given up; None before."""
        self.has_denied_shorter_log = False
        """Of a voter that never leads: it has denied a candidate with a shorter log since a leader last answered."""
        self.is_stopped = False
        self.epoch_budget = EpochBudget()
        self.refused_epochs = 0
        """Number of requests and responses refused because they would have raised the epoch beyond the budget."""
        self.given_up: tuple[types.Epoch, types.NodeId] | None = None
        """Epoch and id of a leader that contradicted itself or committed data; not fetched from in that epoch."""
        self.foreign_batch: tuple[tuple[types.Epoch, types.Offset] | None, int] = None, 0
        """Epoch of a leader that sent a batch that begins within this log, where, and how often in a row."""
        self.led_directories: dict[types.NodeId, types.Uuid] = {}
        """The directories that fetched as static voters while this replica led, until it follows another leader."""
        self.asked_high_watermark: types.Offset | None = None
        """What the newest Fetch told as this replica's high watermark."""
        self.asked_size_bytes = config.fetch_size_bytes_max
        """What the next Fetch asks for, unless it may ask for less: batches as small as the last ones come in parts."""
        self.now_ms = 0
        """When the current step began (mono ms)."""
        self.bootstrap = bootstrap
        """Endpoints to ask for the leader, whichever nodes are there."""
        self._asked_voters: types.VoterSet | None = None
        self._asked_listeners: types.Listeners | None = None
        self._reply_listeners: dict[str, types.Listeners] = {}
        self._is_voter = self._is_only_voter = False

    @property
    def voters(self) -> types.VoterSet:
        return self.voter_history.voters

    @property
    def kraft_version(self) -> int:
        """The level of ``kraft.version`` in force."""
        return self.voter_history.kraft_version

    @property
    def epoch(self) -> types.Epoch:
        """Epoch of the state; it may not be durable yet."""
        return self.state.epoch

    @property
    def leader_id(self) -> types.NodeId | None:
        """Leader of this epoch if known; a resigned leader still names itself."""
        return None if isinstance(self.state, Candidate) else self.state.leader_id

    @property
    def leader_listeners(self) -> types.Listeners:
        """Endpoints of the leader of this epoch; empty when unknown."""
        match self.state:
            case Leader() | Resigned():
                return self.local.listeners
            case Follower() | Prospective():
                return self.state.leader_listeners
            case Unattached() | Candidate():
                return types.NO_LISTENERS
            case _:
                assert_never(self.state)

    @property
    def has_reachable_leader(self) -> bool:
        """True when the leader and at least one of its endpoints are known."""
        return self.leader_id is not None and len(self.leader_listeners) > 0

    @property
    def has_remote_leader(self) -> bool:
        """True when another replica leads this epoch."""
        return self.leader_id is not None and self.leader_id != self.local.id

    @property
    def has_given_up_leader(self) -> bool:
        """True when the leader of this epoch is known but was given up (see `given_up`)."""
        return self.given_up is not None and self.given_up == (self.epoch, self.leader_id)

    @property
    def voted(self) -> types.ReplicaKey | None:
        return None if isinstance(self.state, (Leader, Resigned)) else self.state.voted

    @property
    def high_watermark(self) -> types.Offset | None:
        """Exclusive end of the committed records; None while unknown."""
        return None if isinstance(self.state, Resigned) else self.state.high_watermark

    @property
    def is_voter(self) -> bool:
        """True when the newest voter set contains this replica."""
        if self.voter_history.voters is not self._asked_voters:
            self._look_up_itself()
        return self._is_voter

    @property
    def may_lead(self) -> bool:
        """True for a voter, and for a removed voter until its removal is committed.

        Source: Raft dissertation §4.2.2; Kafka has no such rule.
        """
        if self.is_voter:
            return True
        key = self.local.key
        # The remaining voters may be too few for a majority of the voter set that they know, and this replica may have
        # the longest log. Then nobody else can be elected. So it leads until its removal is committed, but does not
        # count its own vote.
        return key is not None and self.voter_history.is_leaving(key, self.log.known_committed_end_offset)

    @property
    def is_only_voter(self) -> bool:
        """True when this replica is the only voter."""
        if self.voter_history.voters is not self._asked_voters:
            self._look_up_itself()
        return self._is_only_voter

    @property
    def is_last_to_leave(self) -> bool:
        """True during a shutdown when every other voter refuses connections."""
        return self.is_shutting_down and all(id_ == self.local.id or id_ in self.refused_by for id_ in self.voters.ids)

    @property
    def is_shutting_down(self) -> bool:
        """True once a graceful shutdown was requested."""
        return self.shutdown_deadline_ms is not None

    @property
    def may_campaign(self) -> bool:
        """True when an election timeout of this replica starts an election."""
        is_fit = self.log.quarantine is None and self.survey is None and self.shutdown_deadline_ms is None
        # No epoch follows EPOCH_MAX, so there is nothing to campaign for.
        return is_fit and self.state.epoch < types.EPOCH_MAX and self.may_lead

    @property
    def role(self) -> str:
        """Name of the state as in Kafka's current-state metric."""
        match self.state:
            case Leader():
                return "leader"
            case Prospective():
                return "prospective-voted" if self.state.voted else "prospective"
            case Candidate():
                return "candidate"
            case Follower():
                return "follower" if self.is_voter else "observer"
            case Unattached():
                return "unattached-voted" if self.state.voted else "unattached"
            case Resigned():
                return "resigned"
            case _:
                assert_never(self.state)

    def draw_election_deadline_ms(self, now: types.Instant) -> int:
        """Draw a new random election deadline (mono ms)."""
        # At least 1 ms ahead, so that a configured timeout of 0 does not expire in the same step.
        return now.mono_ms + max(1, draw_election_timeout_ms(self.rng, self.config.election_timeout_ms))

    def voter_peer(self, node_id: types.NodeId) -> Peer | None:
        """A voter's endpoint on the default listener; None when it is unknown."""
        endpoint = self.voters.listeners(node_id).get(self.local.default_listener)
        return Peer(id=node_id, endpoint=endpoint) if endpoint else None

    def would_move(self, voter: types.Voter) -> bool:
        """True when the other nodes would dial this voter somewhere else, if this entry replaced its own."""
        known = self.voter_peer(voter.key.id)
        return known is not None and known.endpoint != voter.listeners.get(self.local.default_listener)

    def bootstrap_peers(self) -> tuple[Peer, ...]:
        """Peers to ask for the leader: the bootstrap servers, or the other voters if there are none.

        An observer asks both.
        """
        servers = tuple(
            Peer(id=BOOTSTRAP_ID_FIRST - at, endpoint=endpoint) for at, endpoint in enumerate(self.bootstrap)
        )
        # A voter campaigns when it finds no leader. An observer cannot, and every machine of its bootstrap list may
        # have been replaced since, or know no more than itself: so it also asks the voters that its log names. Kafka's
        # does not (ADR 048).
        if servers and self.is_voter:
            return servers
        known = {peer.endpoint for peer in servers}
        others = (self.voter_peer(node_id) for node_id in self.voters.ids if node_id != self.local.id)
        return (*servers, *(peer for peer in others if peer is not None and peer.endpoint not in known))

    def listeners_of(self, node_id: types.NodeId | None, told: types.Listeners) -> types.Listeners:
        """Endpoints of a leader: those it sent, or else those in the voter set."""
        return told if len(told) else self.voters.listeners(node_id)

    def reply_listeners(self, listener: str) -> types.Listeners:
        """The leader's endpoint on the listener where the request arrived; empty when unknown."""
        listeners = self.leader_listeners
        # Each answer to a Fetch asks, and endpoints are immutable: one answer for each listener is kept.
        if listeners is not self._asked_listeners:
            self._asked_listeners, self._reply_listeners = listeners, {}
        found = self._reply_listeners.get(listener)
        if found is None:
            endpoint = listeners.get(listener)
            found = types.Listeners(((listener.upper(), endpoint),)) if endpoint else types.NO_LISTENERS
            if len(self._reply_listeners) < len(listeners):
                self._reply_listeners[listener] = found
        return found

    def _look_up_itself(self) -> None:
        """A voter set is immutable, so answers for the same object are the same. Each step asks several times."""
        voters, key = self.voter_history.voters, self.local.key
        self._asked_voters = voters
        self._is_voter = key is not None and voters.is_voter(key)
        self._is_only_voter = key is not None and voters.is_only_voter(key)
