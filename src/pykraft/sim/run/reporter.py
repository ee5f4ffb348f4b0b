"""Passes on what nodes and clients report: to the oracles, to the faults, and to all that keeps counts.

It is the observer of all nodes and the witness of all clients. Nodes need their observer when they are created, so the
reporter comes first, and the world sets `facts`, `faults`, `watch` and `users` before anything runs. When a process
starts, the reporter gives it its ledger and its application.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pykraft.config import NodeConfig
from pykraft.errors import StorageError
from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import Job
from pykraft.sim.clients.bystander import Bystander
from pykraft.sim.clients.others import Users
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.platter import LOG_SUFFIX
from pykraft.sim.faults import Faults
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.trace import Trace


class Reporter:
    """The reporter of one world; see `NodeObserver` and `Witness`."""

    facts: Facts
    faults: Faults
    watch: Watch
    users: Users

    def __init__(self, trace: Trace) -> None:
        self.touched: dict[int, SimulatedNode] = {}
        """Nodes that the present event concerns."""
        self.ends: dict[int, int] = {}
        """By running node: end offset of the batches that its application was given."""
        self.bystanders: dict[int, Bystander] = {}
        """The plain listeners of the running nodes."""
        self.bystander_dice: Random | None = None
        """None in a world without plain listeners."""
        self._trace = trace

    def touch(self, node: SimulatedNode) -> None:
        """See `NodeObserver`: oracles look at the node once the event is over."""
        self.touched[int(node.node_id)] = node

    def starting(self, node: SimulatedNode) -> None:
        """See `NodeObserver`: remembers for good that a version without pre-votes ran."""
        self.facts.members.has_pre_votes &= node.dialect is None
        self.watch.starting(node)

    def configured(self, node: SimulatedNode) -> NodeConfig:
        """See `NodeObserver`."""
        return self.facts.members.with_bootstrap(node.config)

    def started(self, node: SimulatedNode) -> None:
        """See `NodeObserver`: its application listens from the first record or snapshot on."""
        assert node.host is not None
        node_id = int(node.node_id)
        self.ends[node_id] = 0
        self.facts.atlas.started(node)
        quarantine = node.host.status.quarantine
        keeps_damage = quarantine is not None and not quarantine.is_cut
        node.ledger = self.facts.platters.recovered(node, keeps_damage=keeps_damage)
        node.ledger.cut(node.host.status.log_end_offset)
        if self.facts.atlas.has_lost(node):
            self.watch.lost(node)
        self.watch.started(node)
        self.users.started(node)
        if self.bystander_dice is not None:
            self.bystanders[node_id] = bystander = Bystander(self.facts, self, node, self.bystander_dice)
            bystander.listen()

    def power_goes(self, node: SimulatedNode) -> None:
        """See `NodeObserver`: a disk has lied only about what others hold."""
        if self.facts.atlas.hides_too_much(node):
            directory = node.disk.directory(node.config.partition_directory)
            assert directory is not None
            for name, inode in directory.synced.items():
                if name.endswith(LOG_SUFFIX):
                    inode.mend()

    def ended(self, node: SimulatedNode) -> None:
        """See `NodeObserver`."""
        self.ends.pop(node.node_id, None)
        self.bystanders.pop(node.node_id, None)
        self.faults.ended(node)

    def interrupted(self, node: SimulatedNode, interruption: Interrupted) -> None:
        """See `NodeObserver`."""
        self.faults.interrupted(node, interruption)

    def disk_failed(self, node: SimulatedNode, error: StorageError) -> None:
        """See `NodeObserver`: a damaged snapshot may cost the node its whole disk."""
        self.faults.wipe.failed(node, error)

    def durable_epoch(self, node: SimulatedNode) -> int:
        """See `NodeObserver`."""
        return self.facts.platters.election(node).epoch

    def performs(self, node: SimulatedNode, jobs: Sequence[Job]) -> None:
        """See `NodeObserver`: the lane may be interrupted in the middle of these jobs."""
        self.faults.snapshot.performs(node, jobs)

    def happened(self, kind: str, node: SimulatedNode) -> None:
        """See `Witness`."""
        self.faults.happened(kind, node)

    def note(self, node: SimulatedNode, text: str) -> None:
        """See `Witness`."""
        self._trace.note(node.node_id, text)

    def absorb(self, frame: bytes) -> None:
        """See `Witness`."""
        self._trace.absorb(frame)

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> list[list[bytes]]:
        """See `Witness`."""
        self.watch.delivered(node, batches)
        return self.watch.values_of(batches)

    def given(self, node: SimulatedNode, end_offset: int) -> None:
        """See `Witness`."""
        self.ends[node.node_id] = end_offset
        self.faults.committed()
