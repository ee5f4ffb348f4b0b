"""Passes everything that happens in a world to its oracles, and to others that subscribe to an event.

It observes all nodes, and clients report to it. It calls an oracle only for the hooks it overrides, and for a change of
a node only when there is one. It keeps what several oracles compare with: the view of each node, and what leaders have
counted as committed. A process that starts gets its ledger here.

Source: the design is ours; each oracle names its own source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from pykraft.config import NodeConfig
from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import AppendBytes, Job
from pykraft.protocol.records import decode_values, read_header
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.members import VoterRecord
from pykraft.sim.facts.platter import LOG_SUFFIX, DurableElection
from pykraft.sim.invariants.invariant import DOWN, Invariant, View, view_of
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.trace import Trace

HOOKS = frozenset(
    name for name, hook in vars(Invariant).items() if callable(hook) and name[0] != "_" and name != "violated"
)
UNSEEN = View(DOWN, 0, None, None, has_fetched=False, is_settled=False, disk=DurableElection())


if TYPE_CHECKING:  # it makes most hooks at run time, which no subclass of a compiled class can do (ADR 116)
    Hooks = Invariant
else:
    Hooks = object


class Watch(Hooks):
    """Passes each event to the oracles of a world that need it; a hook that it does not define does just that."""

    def __init__(self, facts: Facts, oracles: Sequence[type[Invariant]], trace: Trace) -> None:
        self.facts = facts
        self.trace = trace
        self.oracles = [oracle(facts) for oracle in oracles]
        self.touched: dict[int, SimulatedNode] = {}
        """Nodes that the present event concerns: oracles look at them once it is over."""
        self.ends: dict[int, int] = {}
        """By running node: end offset of the batches that its application was given."""
        self._subscribers = {hook: self._overriding(hook) for hook in HOOKS}
        self._views: dict[int, View] = {}
        self._batches: dict[tuple[int, int], list[bytes]] = {}
        self._publish = {hook: self._publisher(hook) for hook in HOOKS}
        for hook in HOOKS - vars(Watch).keys():
            setattr(self, hook, self._publish[hook])

    def subscribe(self, hook: str, call: Callable[..., object]) -> None:
        """Call this, too, for an event: after the oracles, and those that subscribed earlier."""
        self._subscribers[hook].append(call)

    def touch(self, node: SimulatedNode) -> None:
        """The present event concerns this node."""
        self.touched[int(node.node_id)] = node

    def event_over(self, node: SimulatedNode) -> None:
        """An event that concerned this node is over."""
        node_id = int(node.node_id)
        was = self._views.get(node_id, UNSEEN)
        now = view_of(node, self.facts.platters.election(node))
        if was != now:
            self._views[node_id] = now
            if now.has_led and now.high_watermark is not None and now.high_watermark != was.high_watermark:
                self._commit(node, now.high_watermark)
            self.changed(node, was, now)
        self.after_event(node, now)

    def emptied(self, node: SimulatedNode) -> None:
        # What this hook does by default matters to each oracle that overrides `wiped`.
        for oracle in self.oracles:
            oracle.emptied(node)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if isinstance(job, AppendBytes):
            for record in self.facts.members.electorate.submitted(job):
                self._voters_appended(node, record)
        self._publish["submitted"](node, job)

    def starting(self, node: SimulatedNode) -> None:
        """See `Invariant`: remembers for good that a version without pre-votes ran."""
        self.facts.members.has_pre_votes &= node.dialect is None
        self._publish["starting"](node)

    def configured(self, node: SimulatedNode) -> NodeConfig:
        return self.facts.members.with_bootstrap(node.config)

    def started(self, node: SimulatedNode) -> None:
        assert node.host is not None
        self.ends[int(node.node_id)] = 0
        self.facts.atlas.started(node)
        quarantine = node.host.status.quarantine
        keeps_damage = quarantine is not None and not quarantine.is_cut
        node.ledger = self.facts.platters.recovered(node, keeps_damage=keeps_damage)
        node.ledger.cut(node.host.status.log_end_offset)
        if self.facts.atlas.has_lost(node):
            self.lost(node)
        self._publish["started"](node)
        self.persisted(node)
        self.process_begun(node)

    def power_goes(self, node: SimulatedNode) -> None:
        """See `NodeObserver`: a disk has lied only about what others hold."""
        if self.facts.atlas.hides_too_much(node):
            directory = node.disk.directory(node.config.partition_directory)
            assert directory is not None
            for name, inode in directory.synced.items():
                if name.endswith(LOG_SUFFIX):
                    inode.mend()

    def process_ended(self, node: SimulatedNode) -> None:
        self.ends.pop(node.node_id, None)
        self._publish["process_ended"](node)

    def durable_epoch(self, node: SimulatedNode) -> int:
        return self.facts.platters.election(node).epoch

    def given(self, node: SimulatedNode, end_offset: int) -> None:
        self.ends[node.node_id] = end_offset
        self._publish["given"](node, end_offset)

    def values_of(self, batches: Sequence[CommittedBatch]) -> list[list[bytes]]:
        """The values of each batch that was just delivered, none for a control batch."""
        return [[] if batch.is_control else self._values(batch) for batch in batches]

    def _publisher(self, hook: str) -> Callable[..., None]:
        subscribers = self._subscribers[hook]

        def publish(*event: object) -> None:
            for call in subscribers:
                call(*event)

        return publish

    def _overriding(self, hook: str) -> list[Callable[..., object]]:
        default = getattr(Invariant, hook)
        return [getattr(oracle, hook) for oracle in self.oracles if getattr(type(oracle), hook) is not default]

    def _voters_appended(self, node: SimulatedNode, record: VoterRecord) -> None:
        """If a leader appends this voter set, tell the oracles; it may resign in the same event."""
        status = node.status
        if status is None or status.leader_id != node.node_id:
            return
        self.voters_appended(node)
        self.voters_written(node, record, min(status.committed_end_offset, record.entry.base_offset))

    def _commit(self, leader: SimulatedNode, high_watermark: int) -> None:
        committed = self.facts.committed
        known = committed.end_offset
        if high_watermark > known:
            held = self.facts.ledger(leader).entries
            first = bisect_right(held, known, key=lambda entry: entry.end_offset)
            committed.entries += takewhile(lambda entry: entry.end_offset <= high_watermark, held[first:])
            self.facts.members.committed_more()

    def _values(self, batch: CommittedBatch) -> list[bytes]:
        """Values of a batch; oracles hear of each batch when it is first delivered."""
        key = (batch.base_offset, read_header(batch.data).crc)
        values = self._batches.get(key)
        if values is None:
            values = self._batches[key] = decode_values(batch.data)
            self.committed(batch.base_offset, values)
        return values
