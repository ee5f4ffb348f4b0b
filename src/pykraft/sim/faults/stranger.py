"""Faults by a stranger: somebody who reaches the port and is not a voter, or poses as one.

The stranger names epochs that would end elections for good, raises the epoch again and again, claims to lead and
answers Fetches as no leader does, sends Fetches in a voter's name, and names endpoints that do not exist. It speaks the
protocol correctly, and no fault cuts its links.

It does not do what a protocol without authentication cannot withstand, because that would break the promises
(docs/threat-model.md). It sends nothing to observers: one in a later epoch than the voters cannot ask for an election.
No replica is ever a candidate in the epoch of a false leader, which is far above all real epochs.

Invariant: no answer of a false leader contains anything that a follower may believe. Its records never fit the log, and
a diverging epoch never truncates records that may be committed without the follower knowing it. Replicas in quarantine
or without a proof get no answer, because they have to believe their leader (docs/threat-model.md).

Source: ours; KIP-595 §Fetch, KIP-853; ADR 028, ADR 029; docs/threat-model.md says what a stranger can do.
"""

from collections.abc import Callable, Mapping
from functools import partial
from random import Random
from typing import Final, TypeAlias

from pykraft import types
from pykraft.core import messages
from pykraft.core.epoch_budget import EPOCHS_BY_REQUESTS, EPOCHS_PER_DAY
from pykraft.core.state import Follower
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header, encode_response
from pykraft.protocol.api import frame as framed
from pykraft.protocol.messages import API_VERSIONS, ApiKey
from pykraft.protocol.values import encode_batch
from pykraft.rpc import api_versions, codec
from pykraft.rpc.context import Refusal
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.sim.facts.facts import STRANGER_ID, Facts
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.settings import LISTENER, PORTS_APART, rpc_context

_VERSIONS: Final[Mapping[type[messages.Request], int]] = {
    messages.VoteRequest: 2,
    messages.BeginQuorumEpochRequest: 1,
    messages.EndQuorumEpochRequest: 1,
    messages.FetchRequest: 17,
    messages.FetchSnapshotRequest: 1,
    messages.UpdateVoterRequest: 0,
}
STRANGER_LISTENERS: Final = types.Listeners(((LISTENER, types.Endpoint("stranger", STRANGER_ID)),))
"""The endpoint that a stranger claims, where it really listens."""
STRANGER_LEVELS: Final = types.VersionRange(0, 2)
"""The levels of kraft.version that it supports: no voter of a world has the same."""

StrangerAnswer: TypeAlias = tuple[messages.Response, "types.Buffer"]
"""An answer, with its records."""


class Stranger:
    """A station of the network that is not a node.

    ``answer`` returns the answer to a request, None for none; ``levels`` are those of kraft.version that it claims.
    """

    def __init__(
        self,
        facts: Facts,
        watch: Watch,
        answer: Callable[[messages.Request], StrangerAnswer | None],
        *,
        node_id: int = STRANGER_ID,
        levels: types.VersionRange = STRANGER_LEVELS,
        port: int | None = None,
        principal: Principal = ANONYMOUS,
    ) -> None:
        self.node_id = node_id
        self.port = node_id if port is None else port
        self.principal = principal
        self._levels = levels
        self._facts = facts
        self._watch = watch
        self._answer = answer
        self._asked: dict[ConnectionId, messages.Request] = {}
        self._accepted: set[ConnectionId] = set()
        self._context = rpc_context(next(iter(facts.nodes.values())).config)
        facts.network.attach(self)

    def ask(self, node_id: types.NodeId, message: messages.Request) -> ConnectionId:
        """Send this to a node at its present address; the answer is ignored."""
        endpoint = self._facts.nodes[int(node_id)].config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        connection = self._facts.network.dial(self, endpoint)
        self._asked[connection] = message
        return connection

    def hang_up(self, connection: ConnectionId) -> None:
        """Close this connection without waiting for an answer."""
        self._asked.pop(connection, None)
        self._facts.network.close(connection)

    def leave(self) -> None:
        """Close all connections and stop listening."""
        for connection in (*self._asked, *sorted(self._accepted)):
            self._facts.network.close(connection)
        self._asked.clear()
        self._accepted.clear()
        self._facts.network.detach(self)

    def accepted(self, connection: ConnectionId) -> None:
        """A node takes it for a leader and connects."""
        self._accepted.add(connection)

    def connected(self, connection: ConnectionId) -> None:
        """Send the request, unless the connection was given up."""
        message = self._asked.get(connection)
        if message is not None:
            request = codec.encode_request(message, _VERSIONS[type(message)], 1, "stranger", self._context)
            self._facts.network.send(connection, framed(request))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        del is_refused
        self._asked.pop(connection, None)
        self._accepted.discard(connection)

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """An answer, or a request of a node that takes it for a leader."""
        self._watch.trace.absorb(frame)
        if connection not in self._accepted:
            self.hang_up(connection)
            return
        header = decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            body = api_versions.response_to_wire(header.api_version, API_VERSIONS, self._levels)
            answer = encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, body)
            self._facts.network.send(connection, framed(answer))
            return
        message = codec.decode_request(header, frame, self._context)
        assert not isinstance(message, Refusal)
        found = self._answer(message)
        if found is not None:
            self._facts.network.send(connection, framed(codec.encode_answer(header, found[0], self._context, found[1])))


ANSWERS: Final = (
    "nothing",
    "no answer",
    "diverging",
    "records of another leader",
    "older records",
    "later records",
    "records behind a hole",
    "broken records",
    "a snapshot",
    "another leader",
)


class FalseLeader:
    """All leaderships that strangers of one world claim."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._leaders: dict[types.Epoch, tuple[types.NodeId, tuple[str, ...]]] = {}
        """By epoch: the claimed leader, and how it answers."""
        self._rng = Random(0)

    def claims(self, epoch: types.Epoch, leader_id: types.NodeId, rng: Random) -> tuple[str, ...]:
        """This leader id leads this epoch from now on; returns how it answers."""
        self._rng = Random(rng.random())
        manners = tuple(rng.choices(ANSWERS, k=rng.randint(1, 3)))
        self._leaders[epoch] = (leader_id, manners)
        return manners

    def answer(self, asked: messages.Request) -> StrangerAnswer | None:
        """The answer to a follower that takes this stranger for its leader; None: no answer."""
        if not isinstance(asked, messages.FetchRequest):
            return None
        node = self._facts.nodes.get(int(asked.replica.id)) if asked.replica is not None else None
        raft = node.host.raft if node is not None and node.host is not None else None
        if node is None or raft is None or node.is_damaged or asked.epoch != raft.status.epoch:
            return None  # An unproven replica sends no id, and a replica in quarantine has to believe its leader.
        leader_id, manners = self._leaders.get(asked.epoch, (raft.status.leader_id, ANSWERS))
        if leader_id is None or leader_id != raft.status.leader_id:
            return None
        manner = self._rng.choice(manners)
        known, state = raft.status.committed_end_offset, raft.state
        if manner == "diverging" and isinstance(state, Follower) and (known or state.has_agreed):
            end = asked.fetch_offset if state.has_agreed else known
            point = types.OffsetAndEpoch(types.Offset(self._rng.randrange(max(end, 1))), asked.last_fetched_epoch)
            return self._response(asked, leader_id, diverging=point), b""
        if manner == "a snapshot":
            found = types.OffsetAndEpoch(types.Offset(asked.fetch_offset + 100), asked.epoch)
            return self._response(asked, leader_id, snapshot_id=found), b""
        if manner == "another leader":
            return self._response(asked, self._other_id(leader_id), error=ErrorCode.NOT_LEADER_OR_FOLLOWER), b""
        if manner == "no answer":
            return None
        return self._records(asked, manner, leader_id)

    def _records(self, asked: messages.FetchRequest, manner: str, leader_id: types.NodeId) -> StrangerAnswer:
        offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
        match manner:
            case "records of another leader":
                leader_id = self._other_id(leader_id)
            case "older records" if offset > 0:
                offset = types.Offset(self._rng.randrange(offset))
            case "later records":
                epoch = types.Epoch(asked.epoch + 1)
            case "records behind a hole":
                offset = types.Offset(offset + 1)
            case "broken records":
                return self._response(asked, leader_id), b"\0" * 100
            case _:
                return self._response(asked, leader_id), b""
        records = self._batch(offset, epoch)
        return self._response(asked, leader_id), records

    def _batch(self, offset: types.Offset, epoch: types.Epoch) -> types.Buffer:
        batch = encode_batch([b"a stranger's"], base_offset=offset, epoch=max(epoch, types.Epoch(1)), timestamp_ms=0)
        self._facts.claims.batches.add((int(offset), batch.header.crc))
        return batch.data

    def _other_id(self, leader_id: types.NodeId) -> types.NodeId:
        others = [each for each in self._facts.members.committed.ids if each != leader_id]
        return self._rng.choice(others) if others else types.NodeId(STRANGER_ID + 1)

    def _response(
        self,
        asked: messages.FetchRequest,
        leader_id: types.NodeId,
        *,
        error: int = 0,
        diverging: types.OffsetAndEpoch | None = None,
        snapshot_id: types.OffsetAndEpoch | None = None,
    ) -> messages.FetchResponse:
        return messages.FetchResponse(
            error=error,
            epoch=asked.epoch,
            leader_id=leader_id,
            high_watermark=self._rng.choice((None, types.Offset(0))),
            log_start_offset=types.Offset(0),
            diverging=diverging,
            snapshot_id=snapshot_id,
            listeners=STRANGER_LISTENERS,
        )


JUMP: Final = 50
"""A false leader is at least this far ahead, and claims are as far apart: no replica gets there by elections."""
RISES_MAX: Final = 30
RISE_US_MAX: Final = 200_000
FORGED_FETCHES: Final = 4
FORGED_FETCH_US: Final = 30_000
ABANDONED_US: Final = 20_000
WAIT_MS: Final = 2**31 - 1
FAR_PORT: Final = 60 * PORTS_APART
"""No node of a world moves so often that it comes to an address as far from its first one."""


class StrangerFaults(Family):
    """The kinds of faults by strangers; they use a generator of their own, so the other families keep their draws."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._stranger: Stranger | None = None
        self._leader = FalseLeader(harm.facts)
        self._claim = 0
        self.kinds = {
            "far epoch": self._name_far_epoch,
            "rising epochs": self._raise_epochs,
            "false leader": self._lead,
            "false voter": self._lead_as_voter,
            "forged fetch": self._forge_fetches,
            "forged endpoint": self._forge_endpoint,
            "abandoned fetch": self._abandon_fetch,
        }

    def stop(self) -> None:
        if self._stranger is not None:
            self._stranger.leave()
            self._stranger = None
        self._harm.facts.claims.is_posing = False

    def _name_far_epoch(self) -> bool:
        """Send any request in any name with a far epoch: one of the last possible ones, or beyond a day's budget."""
        near = self._fresh_epoch()
        # No epoch that uses up most of a budget at once: a restarted voter could then get further ahead than all others
        # may follow within a day, and a world is shorter than a day.
        epochs = (types.EPOCH_MAX, types.EPOCH_MAX - 1, 2**30, near + EPOCHS_PER_DAY, near + JUMP)
        epoch = min(types.Epoch(self._rng.choice(epochs)), types.EPOCH_MAX)
        sender = self._sender()
        message: Callable[[SimulatedNode], messages.Request] = self._rng.choice(
            (
                lambda node: self._vote(node, sender, epoch, pre_vote=True),
                lambda node: self._vote(node, sender, epoch, pre_vote=False),
                lambda _: self._begin(epoch, types.NodeId(STRANGER_ID)),
                lambda _: self._end(epoch, types.NodeId(STRANGER_ID)),
                lambda _: self._fetch(sender, epoch),
                lambda _: self._fetch_snapshot(sender, epoch),
            )
        )
        return self._tell_some("far epoch", message, f"is told of epoch {epoch} by {sender.id}")

    def _raise_epochs(self) -> bool:
        """Campaign with a long log in ever higher epochs, without ever winning."""
        sender, rng = self._sender(), self._rng
        if self._harm.awake_node() is None:
            return False
        self._harm.happened("rising epochs")
        self._harm.note(None, f"a stranger campaigns as {sender.id} again and again")
        self._rise(sender, rng, rng.randint(1, RISES_MAX), rng.randint(1, RISE_US_MAX))
        return True

    def _rise(self, sender: types.ReplicaKey, rng: Random, rises: int, period_us: int) -> None:
        # In a voter's name, an epoch that it never reaches: there it would get the forged votes, despite a shorter log.
        epoch = types.Epoch(self._highest_epoch() + 1) if sender.id == STRANGER_ID else self._fresh_epoch()
        for node in self._harm.facts.voters():
            if rng.random() < 0.7:
                self._present.ask(node.node_id, self._vote(node, sender, epoch, pre_vote=rng.random() < 0.3))
        if rises:
            self._harm.later(period_us, lambda: self._rise(sender, rng, rises - 1, period_us))

    def _lead(self) -> bool:
        """Claim to lead under the stranger's own id, until the faults end: nobody follows it for long."""
        return self._claim_to_lead("false leader", types.NodeId(STRANGER_ID))

    def _lead_as_voter(self) -> bool:
        """Claim to lead under a voter's id, for a while only: its followers cannot tell."""
        voters = self._harm.facts.members.committed.ids
        if not voters or not self._claim_to_lead("false voter", types.NodeId(self._rng.choice(voters))):
            return False
        self._harm.facts.claims.is_posing = True
        claim = self._claim
        self._harm.later(self._duration_us(), lambda: self._go(claim))
        return True

    def _go(self, claim: int) -> None:
        if claim == self._claim and self._stranger is not None:
            self.stop()

    def _claim_to_lead(self, kind: str, leader_id: types.NodeId) -> bool:
        epoch = self._fresh_epoch()
        if not self._tell_some(
            kind, lambda _: self._begin(epoch, leader_id), f"is told that {leader_id} leads epoch {epoch}"
        ):
            return False
        self._harm.facts.claims.is_posing = False
        self._claim += 1
        manners = self._leader.claims(epoch, leader_id, self._rng)
        self._harm.note(None, f"a stranger answers Fetches with {', '.join(manners)}")
        return True

    def _forge_fetches(self) -> bool:
        leader, facts = self._harm.facts.newest_leader(), self._harm.facts
        if leader is None or leader.host.status.kraft_version < 1:
            return False
        others = [voter_id for voter_id in leader.host.status.voters.ids if voter_id != leader.node_id]
        if not others:
            return False
        key = types.ReplicaKey(types.NodeId(self._rng.choice(others)), types.Uuid(self._rng.randbytes(16)))
        node = facts.nodes[leader.node_id]
        self._harm.hit("forged fetch", node, f"is sent Fetches in the name of {key.id}, with another directory id")
        self._fetch_on(node, key, FORGED_FETCHES)
        return True

    def _fetch_on(self, node: SimulatedNode, key: types.ReplicaKey, fetches: int) -> None:
        """Each of these Fetches claims to hold everything that the leader has by then."""
        if node.host is not None and node.host.raft is not None and fetches:
            end = node.host.raft.log.end
            self._present.ask(node.node_id, self._fetch(key, node.host.status.epoch, at=end))
            self._harm.later(FORGED_FETCH_US, lambda: self._fetch_on(node, key, fetches - 1))

    def _forge_endpoint(self) -> bool:
        """Name an invalid host or a wrong endpoint in a voter's name, or a leader at an invalid host."""
        leader = self._harm.facts.newest_leader()
        if leader is None:
            return False
        node = self._harm.facts.nodes[leader.node_id]
        voter = self._rng.choice(leader.host.status.voters.voters)
        port = self._rng.choice((int(voter.key.id), STRANGER_ID))
        nowhere = types.Listeners(((LISTENER, types.Endpoint(f"node\0{voter.key.id}", port)),))
        unreachable = types.Endpoint(f"node-{voter.key.id}", self._rng.choice((port + FAR_PORT, STRANGER_ID)))
        self._harm.facts.claims.epochs.add(leader.host.status.epoch)
        if self._rng.random() < 0.7:
            told = nowhere if self._rng.random() < 0.5 else types.Listeners(((LISTENER, unreachable),))
            message: messages.Request = messages.UpdateVoterRequest(
                epoch=types.Epoch(leader.host.status.epoch),
                voter=voter.key,
                listeners=told,
                kraft_version=types.KRAFT_VERSIONS,
            )
            what = "an invalid host" if told is nowhere else f"port {unreachable.port}"
            self._harm.hit("forged endpoint", node, f"is told that {voter.key.id} is at {what}")
            self._present.ask(node.node_id, message)
            return True
        epoch = self._fresh_epoch()
        return self._tell_some(
            "forged endpoint",
            lambda _: self._begin(epoch, types.NodeId(STRANGER_ID), nowhere),
            f"is told of a leader of epoch {epoch} at an invalid host",
        )

    def _abandon_fetch(self) -> bool:
        leader = self._harm.facts.newest_leader()
        if leader is None or leader.host.raft is None:
            return False
        node = self._harm.facts.nodes[leader.node_id]
        self._harm.hit("abandoned fetch", node, "is asked to wait by observers that go")
        epoch, end = leader.host.status.epoch, leader.host.raft.log.end
        self._harm.facts.claims.epochs.add(epoch)
        for _ in range(self._rng.randint(1, 20)):
            key = types.ReplicaKey(types.NodeId(self._rng.randrange(1_000, 2**31)), types.Uuid(self._rng.randbytes(16)))
            stranger = self._present
            connection = stranger.ask(node.node_id, self._fetch(key, epoch, at=end, wait_ms=WAIT_MS))
            self._harm.later(ABANDONED_US, partial(stranger.hang_up, connection))
        return True

    def _tell_some(self, kind: str, message: Callable[[SimulatedNode], messages.Request], text: str) -> bool:
        awake = [node for node in self._harm.facts.voters() if node.process is not None]
        if not awake:
            return False
        told = self._rng.sample(awake, self._rng.randint(1, len(awake)))
        self._harm.happened(kind, *told)
        for node in told:
            self._harm.note(node, text)
            self._present.ask(node.node_id, message(node))
        return True

    @property
    def _present(self) -> Stranger:
        if self._stranger is None:
            self._stranger = Stranger(self._harm.facts, self._harm.world.watch, self._leader.answer)
        return self._stranger

    def _sender(self) -> types.ReplicaKey:
        voters = self._harm.facts.members.committed.voters
        if self._rng.random() < 0.5 or not voters:
            return types.ReplicaKey(types.NodeId(STRANGER_ID), types.Uuid(self._rng.randbytes(16)))
        return self._rng.choice(voters).key

    def _highest_epoch(self) -> int:
        facts = self._harm.facts
        reached = [facts.platters.election(node).epoch for node in facts.nodes.values()]
        reached += [host.status.epoch for host in facts.hosts()]
        return max(reached, default=0)

    def _fresh_epoch(self) -> types.Epoch:
        highest, claimed = self._highest_epoch(), self._harm.facts.claims.epochs
        # Nobody would believe more.
        first = (highest // JUMP + 2) * JUMP
        free = [epoch for epoch in range(first, highest + EPOCHS_BY_REQUESTS, JUMP) if epoch not in claimed]
        return types.Epoch(self._rng.choice(free or [first + EPOCHS_BY_REQUESTS]))

    def _vote(
        self, node: SimulatedNode, candidate: types.ReplicaKey, epoch: types.Epoch, *, pre_vote: bool
    ) -> messages.VoteRequest:
        claims = self._harm.facts.claims
        claims.epochs.add(epoch)
        claims.candidates.add((epoch, int(candidate.id)))
        last = types.OffsetAndEpoch(types.Offset(10**9), types.Epoch(max(epoch - 1, 0)))
        return messages.VoteRequest(epoch=epoch, candidate=candidate, voter=node.key, last=last, pre_vote=pre_vote)

    def _begin(
        self, epoch: types.Epoch, leader_id: types.NodeId, listeners: types.Listeners = STRANGER_LISTENERS
    ) -> messages.BeginQuorumEpochRequest:
        self._harm.facts.claims.leads(epoch)
        return messages.BeginQuorumEpochRequest(epoch=epoch, leader_id=leader_id, voter=None, listeners=listeners)

    def _end(self, epoch: types.Epoch, leader_id: types.NodeId) -> messages.EndQuorumEpochRequest:
        self._harm.facts.claims.leads(epoch)
        return messages.EndQuorumEpochRequest(
            epoch=epoch, leader_id=leader_id, successors=(), listeners=STRANGER_LISTENERS
        )

    def _fetch(
        self, key: types.ReplicaKey, epoch: types.Epoch, *, at: types.OffsetAndEpoch | None = None, wait_ms: int = 0
    ) -> messages.FetchRequest:
        self._harm.facts.claims.epochs.add(epoch)
        place = at or types.OffsetAndEpoch(types.Offset(0), types.Epoch(0))
        return messages.FetchRequest(
            replica=key,
            epoch=epoch,
            fetch_offset=place.offset,
            last_fetched_epoch=place.epoch,
            wait_ms_max=wait_ms,
            size_bytes_max=2**31 - 1,
            high_watermark=None,
        )

    def _fetch_snapshot(self, key: types.ReplicaKey, epoch: types.Epoch) -> messages.FetchSnapshotRequest:
        self._harm.facts.claims.epochs.add(epoch)
        snapshot_id = types.OffsetAndEpoch(types.Offset(1), types.Epoch(1))
        return messages.FetchSnapshotRequest(
            replica=key, epoch=epoch, snapshot_id=snapshot_id, position=0, size_bytes_max=2**31 - 1
        )

    def _duration_us(self) -> int:
        return self._rng.randint(1, max(1, self._rng.choice(self._harm.pace.network_us_max)))
