"""How a stranger that claims to lead answers Fetches: as no real leader would.

Invariant: no answer contains anything that a follower may believe. Its records never fit the log, and a diverging epoch
never truncates records that may be committed without the follower knowing it. Replicas in quarantine or without a proof
get no answer, because they have to believe their leader (docs/trust.md).

Source: ours; KIP-595 §Fetch; ADR 028.
"""

from __future__ import annotations

from random import Random
from typing import Final

from pykraft.core.messages import FetchRequest, FetchResponse, Request
from pykraft.core.state import Follower
from pykraft.errors import ErrorCode
from pykraft.protocol.values import encode_batch
from pykraft.sim.clients.stranger import STRANGER_LISTENERS, StrangerAnswer
from pykraft.sim.facts.claims import STRANGER_ID
from pykraft.sim.facts.facts import Facts
from pykraft.types import Buffer, Epoch, NodeId, Offset, OffsetAndEpoch

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
        self._leaders: dict[Epoch, tuple[NodeId, tuple[str, ...]]] = {}
        """By epoch: the claimed leader, and how it answers."""
        self._rng = Random(0)

    def claims(self, epoch: Epoch, leader_id: NodeId, rng: Random) -> tuple[str, ...]:
        """This leader id leads this epoch from now on; returns how it answers."""
        self._rng = Random(rng.random())
        manners = tuple(rng.choices(ANSWERS, k=rng.randint(1, 3)))
        self._leaders[epoch] = (leader_id, manners)
        return manners

    def answer(self, asked: Request) -> StrangerAnswer | None:
        """The answer to a follower that takes this stranger for its leader; None: no answer."""
        if not isinstance(asked, FetchRequest):
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
            point = OffsetAndEpoch(Offset(self._rng.randrange(max(end, 1))), asked.last_fetched_epoch)
            return self._response(asked, leader_id, diverging=point), b""
        if manner == "a snapshot":
            found = OffsetAndEpoch(Offset(asked.fetch_offset + 100), asked.epoch)
            return self._response(asked, leader_id, snapshot_id=found), b""
        if manner == "another leader":
            return self._response(asked, self._other_id(leader_id), error=ErrorCode.NOT_LEADER_OR_FOLLOWER), b""
        if manner == "no answer":
            return None
        return self._records(asked, manner, leader_id)

    def _records(self, asked: FetchRequest, manner: str, leader_id: NodeId) -> StrangerAnswer:
        """Records that no follower may append, or none at all."""
        offset, epoch = asked.fetch_offset, asked.last_fetched_epoch
        match manner:
            case "records of another leader":
                leader_id = self._other_id(leader_id)
            case "older records" if offset > 0:
                offset = Offset(self._rng.randrange(offset))
            case "later records":
                epoch = Epoch(asked.epoch + 1)
            case "records behind a hole":
                offset = Offset(offset + 1)
            case "broken records":
                return self._response(asked, leader_id), b"\0" * 100
            case _:
                return self._response(asked, leader_id), b""
        records = self._batch(offset, epoch)
        return self._response(asked, leader_id), records

    def _batch(self, offset: Offset, epoch: Epoch) -> Buffer:
        batch = encode_batch([b"a stranger's"], base_offset=offset, epoch=max(epoch, Epoch(1)), timestamp_ms=0)
        self._facts.claims.batches.add((int(offset), batch.header.crc))
        return batch.data

    def _other_id(self, leader_id: NodeId) -> NodeId:
        """Another voter's id, which does not lead that epoch."""
        others = [each for each in self._facts.members.committed.ids if each != leader_id]
        return self._rng.choice(others) if others else NodeId(STRANGER_ID + 1)

    def _response(
        self,
        asked: FetchRequest,
        leader_id: NodeId,
        *,
        error: int = 0,
        diverging: OffsetAndEpoch | None = None,
        snapshot_id: OffsetAndEpoch | None = None,
    ) -> FetchResponse:
        return FetchResponse(
            error=error,
            epoch=asked.epoch,
            leader_id=leader_id,
            high_watermark=self._rng.choice((None, Offset(0))),
            log_start_offset=Offset(0),
            diverging=diverging,
            snapshot_id=snapshot_id,
            listeners=STRANGER_LISTENERS,
        )
