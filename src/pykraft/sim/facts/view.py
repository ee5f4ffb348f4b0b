"""One node as oracles see it between two events: what its host says of itself, and what its disk remembers.

A value: two views are equal when there is nothing new. So an oracle that only cares for news is asked only then.

Source: the fields are those of Kafka's ``QuorumState`` and quorum-state file.
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.core.state import Follower, Resigned
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.machine.node import Node
from pykraft.types import OffsetAndEpoch, VoterSet

DOWN = "down"


class View(NamedTuple):
    """``role`` is ``down`` when no process runs; the fields after it are then what they are without one."""

    role: str
    epoch: int
    leader_id: int | None
    high_watermark: int | None
    """Of a leader that resigned the one that it had."""
    has_fetched: bool
    """True for a follower that has heard from its leader: it denies pre-votes."""
    is_settled: bool
    """True when no storage job is under way: memory and disk must agree."""
    disk: DurableElection
    log_start_offset: int = 0
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """What the host knows to be whole and durable, oldest first."""
    voters: VoterSet = VoterSet()
    """Who votes, in the node's eyes."""

    @property
    def is_up(self) -> bool:
        """True when a process runs."""
        return self.role != DOWN

    @property
    def leads(self) -> bool:
        """True for a leader, not for one that resigned."""
        return self.role == "leader"

    @property
    def has_led(self) -> bool:
        """True for a leader, and for one that resigned, perhaps in the event in which it committed."""
        return self.role in {"leader", "resigned"}

    @property
    def is_prospective(self) -> bool:
        """True while the node asks for pre-votes, whether it has voted in its epoch or not."""
        return self.role.startswith("prospective")


def view_of(node: Node, disk: DurableElection) -> View:
    """Look at a node whose platter remembers this election."""
    process = node.process
    if process is None or process.host.raft is None:
        return View(DOWN, 0, None, None, has_fetched=False, is_settled=False, disk=disk)
    raft = process.host.raft
    state = raft.state
    return View(
        raft.role,
        raft.epoch,
        raft.leader_id,
        raft.log.committed_end_offset or None if isinstance(state, Resigned) else raft.high_watermark,
        isinstance(state, Follower) and state.has_fetched,
        process.is_lane_idle,
        disk,
        raft.log.start_offset,
        raft.log.snapshots,
        raft.voters,
    )
