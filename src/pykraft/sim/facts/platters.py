"""What a power loss now would leave on each node of a world; see `pykraft.sim.facts.platter`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykraft.sim.facts.platter import DurableElection, Platter
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import OffsetAndEpoch


class Platters:
    """One platter per node."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._platters: dict[int, Platter] = {}
        for node in nodes:
            self.joined(node)

    def joined(self, node: SimulatedNode) -> None:
        """Add a new machine."""
        self._platters[int(node.node_id)] = Platter(node.disk, node.config.partition_directory)

    def election(self, node: SimulatedNode) -> DurableElection:
        """The durable election state."""
        return self._platters[node.node_id].election()

    def end(self, node: SimulatedNode) -> OffsetAndEpoch:
        """The durable log end, and the epoch of the last record."""
        return self._platters[node.node_id].end()

    def end_offset(self, node: SimulatedNode) -> int:
        """The durable log end."""
        return self.end(node).offset

    def snapshots(self, node: SimulatedNode) -> Sequence[OffsetAndEpoch]:
        """Ids of the durable snapshots, oldest first."""
        return self._platters[node.node_id].snapshots()

    def snapshot(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> bytes | None:
        """The bytes of a durable snapshot; None when there is no such snapshot."""
        return self._platters[node.node_id].snapshot(snapshot_id)

    def is_set_aside(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether this node set this snapshot aside, and it really is damaged."""
        return self._platters[node.node_id].is_set_aside(snapshot_id)

    def has_news(self, node: SimulatedNode) -> bool:
        """Whether the platter of a running node has a newer snapshot than its host knows; the host will learn of it."""
        raft = node.host.raft if node.host is not None else None
        newest = self.snapshots(node)[-1:]
        return raft is not None and any(each not in raft.log.snapshots for each in newest)

    def entry_at(self, node: SimulatedNode, offset: int) -> Entry | None:
        """The durable batch that holds this offset."""
        return self._platters[node.node_id].entry_at(offset)

    def holds(self, node: SimulatedNode, entry: Entry) -> bool:
        """Whether this batch, or a snapshot that covers it, is durable."""
        platter = self._platters[node.node_id]
        if platter.entry_at(entry.base_offset) == entry:
            return True
        return any(entry.end_offset <= each.offset for each in platter.snapshots())

    def recovered(self, node: SimulatedNode, *, keeps_damage: bool) -> Ledger:
        """What a start finds; see `Platter.recovered`."""
        return self._platters[node.node_id].recovered(keeps_damage=keeps_damage)
