"""Frames in the names of real voters, at a rate: a stranger who knows every public id sends all that replicas send.

DescribeQuorum tells everybody the ids, directory ids, epoch and leader. So the stranger names the epochs that come
next, ends the leader's epoch in its name, announces leaders, fetches as a voter, and moves a voter's endpoint to its
own port. There it answers whatever arrives with the last epoch but one. All that may cost the quorum some time, but
neither its records nor its leader: `QuorumOutlastsForgers` compares with the time before.

What a protocol without authentication cannot withstand is left out (docs/trust.md):

- A Fetch at the log end acknowledges, so a forged one asks from the beginning.
- A vote for a candidate that did not ask may elect it later with another log. So the logs of forged candidates are
  empty, and no voter with a record grants them anything.
- Who announces the leader of an epoch that is about to come makes it one with two. So forged leaders begin in epochs
  that nobody reaches by elections.

Source: ours; Raft dissertation §4.2.3 (disruptive servers); KIP-853 §UpdateVoter; docs/trust.md.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from pykraft.core.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
    VoteResponse,
)
from pykraft.errors import ErrorCode
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.faults.stranger import Stranger, StrangerAnswer
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import (
    EPOCH_MAX,
    KRAFT_VERSIONS,
    Endpoint,
    Epoch,
    Listeners,
    NodeId,
    Offset,
    OffsetAndEpoch,
    Voter,
)

JUMP: Final = 1_000
"""A forged leader is at least this many epochs ahead: no replica gets there by elections."""
RATES: Final = (1, 3, 10, 20, 50)
"""Frames per second to each voter."""
LASTS_US: Final = (3_000_000, 6_000_000)
SECOND_US: Final = 1_000_000
FAR: Final = Epoch(EPOCH_MAX - 1)
EMPTY: Final = OffsetAndEpoch(Offset(0), Epoch(0))
LISTENERS: Final = Listeners(((LISTENER, Endpoint("stranger", FORGER_ID)),))

Forge: TypeAlias = Callable[[SimulatedNode, Process, Voter], Request]
"""A request to this node, while that process leads, in the name of that voter or its leader."""


class ForgedFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._stranger: Stranger | None = None
        self._until_us = 0
        self._forge: dict[str, Forge] = {
            "Vote": self._vote,
            "EndQuorumEpoch": self._end,
            "BeginQuorumEpoch": self._begin,
            "Fetch": self._fetch,
            "FetchSnapshot": self._fetch_snapshot,
            "UpdateRaftVoter": self._update,
        }
        self.kinds = {"forged frames": self._begin_to_forge}

    def stop(self) -> None:
        """The stranger leaves."""
        self._harm.facts.claims.is_forging = False
        if self._stranger is not None:
            self._stranger.leave()
            self._stranger = None

    def _begin_to_forge(self) -> bool:
        """Send one or all kinds of frames for some seconds, unless the stranger does so already."""
        claims, now_us, rng = self._harm.facts.claims, self._harm.facts.clock.now_us, self._rng
        if claims.is_forging or self._harm.facts.newest_leader() is None:
            return False
        names = list(self._forge) if rng.random() < 0.4 else [rng.choice(list(self._forge))]
        rate = rng.choice(RATES)
        self._harm.happened("forged frames")
        self._harm.note(None, f"a stranger sends each voter {rate} {', '.join(names)} a second in the others' names")
        claims.is_forging, self._until_us = True, now_us + rng.randint(*LASTS_US)
        self._forge_on(names, SECOND_US // rate, rng)
        return True

    def _forge_on(self, names: list[str], period_us: int, rng: Random) -> None:
        facts = self._harm.facts
        if facts.clock.now_us >= self._until_us:
            facts.claims.is_forging = False
            return
        leader = facts.newest_leader()
        for node in facts.voters():
            others = [voter for voter in facts.members.committed.voters if voter.key.id != node.node_id]
            # A voter without a record may grant its vote to the empty log of a forged candidate.
            has_records = node.host is not None and node.host.raft is not None and node.host.raft.log.end != EMPTY
            if leader is not None and others and has_records and not node.is_damaged:
                voter = rng.choice(others)
                self._present.ask(node.node_id, self._forge[rng.choice(names)](node, leader, voter))
        self._harm.later(rng.randint(period_us // 2, period_us * 3 // 2), lambda: self._forge_on(names, period_us, rng))

    @property
    def _present(self) -> Stranger:
        if self._stranger is None:
            facts = self._harm.facts
            self._stranger = Stranger(
                facts, self._harm.world.watch, self._answer, node_id=FORGER_ID, levels=KRAFT_VERSIONS
            )
        return self._stranger

    def _vote(self, node: SimulatedNode, leader: Process, voter: Voter) -> Request:
        """Now and then for one of the next epochs, or for one that is further away."""
        is_pre_vote = self._rng.random() < 0.2
        epoch = self._claimed(leader, self._rng.choice((1, 1, 1, 2, 10, JUMP)))
        self._harm.facts.claims.candidates.add((epoch, int(voter.key.id)))
        return VoteRequest(epoch=epoch, candidate=voter.key, voter=node.key, last=EMPTY, pre_vote=is_pre_vote)

    def _end(self, _node: SimulatedNode, leader: Process, voter: Voter) -> Request:
        epoch, leader_id = self._claimed(leader, 0), NodeId(leader.node_id)
        self._harm.facts.claims.has_said_goodbye = True
        successors = (voter.key,) if self._rng.random() < 0.5 else ()
        return EndQuorumEpochRequest(epoch=epoch, leader_id=leader_id, successors=successors, listeners=LISTENERS)

    def _begin(self, node: SimulatedNode, _leader: Process, voter: Voter) -> Request:
        """Another voter leads an epoch that nobody reaches, at its own endpoint or at the stranger's."""
        facts = self._harm.facts
        highest = max(host.status.epoch for host in facts.hosts())
        epoch = Epoch(highest + JUMP + self._rng.randrange(JUMP))
        facts.claims.leads(epoch)
        listeners = LISTENERS if self._rng.random() < 0.5 else voter.listeners
        return BeginQuorumEpochRequest(epoch=epoch, leader_id=voter.key.id, voter=node.key, listeners=listeners)

    def _fetch(self, _node: SimulatedNode, leader: Process, voter: Voter) -> Request:
        return FetchRequest(
            replica=voter.key,
            epoch=self._claimed(leader, 0),
            fetch_offset=EMPTY.offset,
            last_fetched_epoch=EMPTY.epoch,
            wait_ms_max=0,
            size_bytes_max=1,
            high_watermark=None,
        )

    def _fetch_snapshot(self, _node: SimulatedNode, leader: Process, voter: Voter) -> Request:
        snapshot_id = OffsetAndEpoch(Offset(1), Epoch(1))
        epoch = self._claimed(leader, 0)
        return FetchSnapshotRequest(
            replica=voter.key, epoch=epoch, snapshot_id=snapshot_id, position=0, size_bytes_max=1
        )

    def _update(self, _node: SimulatedNode, leader: Process, voter: Voter) -> Request:
        epoch = self._claimed(leader, 0)
        self._harm.facts.claims.is_moving_voters = True
        return UpdateVoterRequest(epoch=epoch, voter=voter.key, listeners=LISTENERS, kraft_version=KRAFT_VERSIONS)

    def _claimed(self, leader: Process, ahead: int) -> Epoch:
        epoch = Epoch(leader.host.status.epoch + ahead)
        self._harm.facts.claims.epochs.add(epoch)
        return epoch

    def _answer(self, asked: Request) -> StrangerAnswer | None:
        """Every answer names the last epoch but one."""
        response: Response
        match asked:
            case VoteRequest():
                response = VoteResponse(error=ErrorCode.NONE, epoch=FAR, leader_id=None, vote_granted=False)
            case BeginQuorumEpochRequest():
                response = BeginQuorumEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=FAR, leader_id=None)
            case EndQuorumEpochRequest():
                response = EndQuorumEpochResponse(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=FAR, leader_id=None)
            case FetchRequest():
                response = FetchResponse(
                    error=ErrorCode.FENCED_LEADER_EPOCH,
                    epoch=FAR,
                    leader_id=None,
                    high_watermark=None,
                    log_start_offset=Offset(0),
                )
            case _:
                return None
        return response, b""
