"""One replica: its state and the parts that rules work on. Data and look-ups; the rules are in ``core.on``.

Invariant: the state's epoch never decreases, and no message of an epoch leaves before that epoch is durable
(`Outbox` sees to the second).

Source: KIP-595; Kafka ``QuorumState``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import assert_never

from pykraft.config import RaftConfig
from pykraft.core.answer_pace import floor_bytes
from pykraft.core.connections import Connections
from pykraft.core.effects import Peer
from pykraft.core.election import draw_election_timeout_ms
from pykraft.core.epoch_budget import EpochBudget
from pykraft.core.log_view import LogView
from pykraft.core.membership import Membership
from pykraft.core.outbox import Outbox
from pykraft.core.parked import ParkedFetches
from pykraft.core.proof import PROVEN, Proof, Survey
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.transfer import Transfer
from pykraft.types import (
    EPOCH_MAX,
    KRAFT_VERSIONS,
    NO_LISTENERS,
    ZERO_UUID,
    Endpoint,
    Epoch,
    Instant,
    Listeners,
    NodeId,
    Offset,
    ReplicaKey,
    Uuid,
    VersionRange,
    Voter,
    VoterSet,
)

BOOTSTRAP_ID_FIRST = -2
"""Bootstrap servers whose id is not known are -2, -3, … in the order of their list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalReplica:
    """Who this replica is; without an id it observes for ever. Listeners are as advertised.

    ``proof`` is what the directory proved when the process began.
    ``key`` is id and directory id, or None without an id; every step asks for it several times, so it is made once.
    """

    id: NodeId | None
    directory_id: Uuid
    listeners: Listeners
    default_listener: str
    kraft_version: VersionRange = KRAFT_VERSIONS
    proof: Proof = PROVEN
    key: ReplicaKey | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        assert self.directory_id != ZERO_UUID, "the zero directory id stands for an unknown one"
        object.__setattr__(self, "key", None if self.id is None else ReplicaKey(self.id, self.directory_id))

    @property
    def voter(self) -> Voter:
        """This replica as an entry of a voter set; it must have an id."""
        assert self.key is not None
        return Voter(key=self.key, listeners=self.listeners, kraft_version=self.kraft_version)


class Replica:
    """State, log, connections and outgoing effects of one replica."""

    def __init__(
        self,
        *,
        config: RaftConfig,
        local: LocalReplica,
        membership: Membership,
        bootstrap: tuple[Endpoint, ...],
        log: LogView,
        rng: Random,
        state: State,
    ) -> None:
        self.config = config
        self.local = local
        self.membership = membership
        self.log = log
        self.rng = rng
        self.state = state
        self.outbox = Outbox()
        self.connections = Connections(
            request_timeout_ms=config.request_timeout_ms,
            retry_backoff_ms=config.retry_backoff_ms,
            floor_bytes=floor_bytes(config.fetch_size_bytes_max),
        )
        self.parked = ParkedFetches()
        self.told_leader: tuple[Epoch, NodeId | None] = (Epoch(0), None)
        self.told_role: tuple[str, Epoch] | None = None
        self.shutdown_deadline_ms: int | None = None
        self.transfer: Transfer | None = None
        is_unproven = local.id is not None and not local.proof.is_complete  # without an id it is nobody's voter anyway
        self.survey = Survey(has_fresh_id=local.proof.has_fresh_id) if is_unproven else None
        """What the voters said to this replica while its directory does not prove that it is one; None once it does."""
        self.votes_above = local.proof.votes_above
        """The epoch up to which its directory's former self may have voted."""
        self.transfer_rest_ms: int | None = None
        """Until when no other transfer begins, since one took time in vain (mono ms)."""
        self.is_stopped = False
        self.epoch_budget = EpochBudget()
        self.refused_epochs = 0
        """Requests and answers that were refused because they wanted to raise the epoch."""
        self.refusal_told_ms: int | None = None
        """When an operator was last told that the budget is exhausted (mono ms)."""
        self.given_up: tuple[Epoch, NodeId] | None = None
        """A leader that contradicted what this replica knows, and its epoch: it is not fetched from in that epoch."""
        self.now_ms = 0
        """When the present step began (mono ms)."""
        self._bootstrap = bootstrap

    @property
    def voters(self) -> VoterSet:
        """The voter set in force."""
        return self.membership.voters

    @property
    def kraft_version(self) -> int:
        """The level of ``kraft.version`` in force."""
        return self.membership.kraft_version

    @property
    def epoch(self) -> Epoch:
        """Epoch of the state; possibly not yet durable."""
        return self.state.epoch

    @property
    def leader_id(self) -> NodeId | None:
        """Leader of this epoch as far as known; a resigned leader still names itself."""
        return None if isinstance(self.state, Candidate) else self.state.leader_id

    @property
    def leader_listeners(self) -> Listeners:
        """Where the leader of this epoch is reached; empty when not known."""
        match self.state:
            case Leader() | Resigned():
                return self.local.listeners
            case Follower() | Prospective():
                return self.state.leader_listeners
            case Unattached() | Candidate():
                return NO_LISTENERS
            case _:
                assert_never(self.state)

    @property
    def has_reachable_leader(self) -> bool:
        """True when leader and endpoints are known."""
        return self.leader_id is not None and len(self.leader_listeners) > 0

    @property
    def has_remote_leader(self) -> bool:
        """True when somebody else leads this epoch."""
        return self.leader_id is not None and self.leader_id != self.local.id

    @property
    def has_given_up_leader(self) -> bool:
        """True when the leader of this epoch is known, and not to be believed."""
        return self.given_up == (self.epoch, self.leader_id)

    @property
    def voted(self) -> ReplicaKey | None:
        """Whom this replica voted for in this epoch."""
        return None if isinstance(self.state, Leader | Resigned) else self.state.voted

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below is committed; None while unknown."""
        return None if isinstance(self.state, Resigned) else self.state.high_watermark

    @property
    def is_voter(self) -> bool:
        """True when the newest voter set holds this replica."""
        return self.local.key is not None and self.voters.is_voter(self.local.key)

    @property
    def may_lead(self) -> bool:
        """True for a voter, and for one that was a voter until a set that may not be committed yet.

        The others may be fewer than a majority of the set that they know, and its log may be the longest: then nobody
        else can be elected, and it has to lead until its removal is committed, without a vote of its own.

        Source: Raft dissertation §4.2.2; Kafka has no such rule.
        """
        if self.is_voter:
            return True
        key = self.local.key
        return key is not None and self.membership.is_leaving(key, self.log.known_committed_end_offset)

    @property
    def is_only_voter(self) -> bool:
        """True when this replica alone is the quorum."""
        return self.local.key is not None and self.voters.is_only_voter(self.local.key)

    @property
    def is_shutting_down(self) -> bool:
        """True once a graceful shutdown was asked for."""
        return self.shutdown_deadline_ms is not None

    @property
    def may_campaign(self) -> bool:
        """True when this replica's timeouts lead to elections; after the last epoch there is none to campaign for."""
        is_fit = self.log.quarantine is None and self.survey is None and not self.is_shutting_down
        return is_fit and self.epoch < EPOCH_MAX and self.may_lead

    @property
    def role(self) -> str:
        """Name of the state as Kafka's current-state metric has it."""
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

    def draw_election_deadline_ms(self, now: Instant) -> int:
        """A new random election deadline (mono ms), never now: a timeout of 0 must not end what it begins."""
        return now.mono_ms + max(1, draw_election_timeout_ms(self.rng, self.config.election_timeout_ms))

    def voter_peer(self, node_id: NodeId) -> Peer | None:
        """How to reach a voter on the default listener; None when its endpoint is not known."""
        endpoint = self.voters.listeners(node_id).get(self.local.default_listener)
        return Peer(id=node_id, endpoint=endpoint) if endpoint else None

    def bootstrap_peers(self) -> tuple[Peer, ...]:
        """Whom to ask for the leader: the bootstrap servers, or without them the other static voters."""
        if self._bootstrap:
            return tuple(
                Peer(id=BOOTSTRAP_ID_FIRST - at, endpoint=endpoint) for at, endpoint in enumerate(self._bootstrap)
            )
        others = (self.voter_peer(node_id) for node_id in self.voters.ids if node_id != self.local.id)
        return tuple(peer for peer in others if peer is not None)

    def listeners_of(self, node_id: NodeId | None, told: Listeners) -> Listeners:
        """Endpoints of a leader: as told, else from the voter set."""
        return told if len(told) else self.voters.listeners(node_id)

    def reply_listeners(self, listener: str) -> Listeners:
        """The leader's endpoint on the listener where a request arrived; empty when not known."""
        endpoint = self.leader_listeners.get(listener)
        return Listeners(((listener.upper(), endpoint),)) if endpoint else NO_LISTENERS
