"""One node as oracles see it between two events: what its host reports and what its disk holds.

Views are values: two are equal when nothing has changed. So an oracle that only needs changes is called only when the
view changes.

Source: the fields are those of Kafka's ``QuorumState`` and quorum-state file.
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.core.state import Follower
from pykraft.core.status import RESIGNED
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.settings import LISTENER, node_at
from pykraft.types import OffsetAndEpoch, VoterSet

DOWN = "down"


class View(NamedTuple):
    """``role`` is ``down`` when no process runs; most of the other fields are then empty."""

    role: str
    epoch: int
    leader_id: int | None
    high_watermark: int | None
    """For a leader that resigned, the high watermark that it had."""
    has_fetched: bool
    """True for a follower that has fetched from its leader: it denies pre-votes."""
    is_settled: bool
    """True when no storage job is under way, so memory and disk must agree."""
    disk: DurableElection
    log_start_offset: int = 0
    snapshots: tuple[OffsetAndEpoch, ...] = ()
    """Snapshots that the host knows to be whole and durable, oldest first."""
    voters: VoterSet = VoterSet()
    """The voter set that the node uses."""

    @property
    def is_up(self) -> bool:
        """True when a process runs."""
        return self.role != DOWN

    @property
    def leads(self) -> bool:
        """True for a leader; false for one that resigned."""
        return self.role == "leader"

    @property
    def has_led(self) -> bool:
        """True for a leader and for one that resigned, which may have committed in the same event."""
        return self.role in {"leader", "resigned"}

    @property
    def is_prospective(self) -> bool:
        """True while the node asks for pre-votes, whether or not it has voted in its epoch."""
        return self.role.startswith("prospective")


def view_of(node: SimulatedNode, disk: DurableElection) -> View:
    """The view of a node; ``disk`` is its durable election state."""
    process = node.process
    if process is None or process.host.raft is None:
        return View(DOWN, 0, None, None, has_fetched=False, is_settled=False, disk=disk)
    raft = process.host.raft
    status, state = raft.status, raft.state
    return View(
        status.role,
        status.epoch,
        status.leader_id,
        status.committed_end_offset or None if status.role == RESIGNED else status.high_watermark,
        isinstance(state, Follower) and state.has_fetched,
        process.ordered.is_idle,
        disk,
        status.log_start_offset,
        raft.log.snapshots,
        status.voters,
    )


def dialed_id(follower: Follower) -> int:
    """Id of the node at the port where a follower dials its leader: a stranger may pose as the leader."""
    endpoint = follower.leader_listeners.get(LISTENER)
    return int(follower.leader_id) if endpoint is None else node_at(endpoint.port)
