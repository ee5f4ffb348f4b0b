"""Passes everything that happens in a world to its oracles.

It calls an oracle only for the hooks it overrides, and for a change of a node only when there is one. It keeps what
several oracles compare with: the view of each node, and what leaders have counted as committed.

Source: the design is ours; each oracle names its own source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import takewhile

from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import AppendBytes, Job
from pykraft.protocol.records import decode_values, read_header
from pykraft.sim.facts.electorate import VoterRecord
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import Operation
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.facts.view import DOWN, View, view_of
from pykraft.sim.facts.visit import Visit
from pykraft.sim.facts.voter_requests import VoterRequest
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.spoken import Spoken
from pykraft.types import OffsetAndEpoch

HOOKS = tuple(name for name, hook in vars(Invariant).items() if callable(hook) and name not in {"__init__", "violated"})
UNSEEN = View(DOWN, 0, None, None, has_fetched=False, is_settled=False, disk=DurableElection())


class Watch:
    """Passes each event to the oracles of a world that need it."""

    def __init__(
        self, facts: Facts, oracles: Sequence[type[Invariant]], on_voters_appended: Callable[[SimulatedNode], None]
    ) -> None:
        """``on_voters_appended`` is called with each leader that appends a voter set, before the oracles."""
        self.oracles = [oracle(facts) for oracle in oracles]
        self._facts = facts
        self._on_voters_appended = on_voters_appended
        self._views: dict[int, View] = {}
        self._batches: dict[tuple[int, int], list[bytes]] = {}
        self._asked = {hook: self._overriding(hook) for hook in HOOKS}
        self._changed, self._after_event = self._asked["changed"], self._asked["after_event"]

    def event_over(self, node: SimulatedNode) -> None:
        """An event that concerned this node is over."""
        node_id = int(node.node_id)
        was = self._views.get(node_id, UNSEEN)
        now = view_of(node, self._facts.platters.election(node))
        if was != now:
            self._views[node_id] = now
            if now.has_led and now.high_watermark is not None and now.high_watermark != was.high_watermark:
                self._commit(node, now.high_watermark)
            for oracle in self._changed:
                oracle.changed(node, was, now)
        for oracle in self._after_event:
            oracle.after_event(node, now)

    def lost(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self._asked["lost"]:
            oracle.lost(node)

    def wiped(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self._asked["wiped"]:
            oracle.wiped(node)

    def forgot_votes(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self._asked["forgot_votes"]:
            oracle.forgot_votes(node)

    def emptied(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self.oracles:
            oracle.emptied(node)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """See `Invariant`."""
        for oracle in self._asked["before_send"]:
            oracle.before_send(node, spoken)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """See `Invariant`."""
        if isinstance(job, AppendBytes):
            for record in self._facts.members.electorate.submitted(job):
                self._voters_appended(node, record)
        for oracle in self._asked["submitted"]:
            oracle.submitted(node, job)

    def voters_written(self, node: SimulatedNode, record: VoterRecord, committed_end: int) -> None:
        """See `Invariant`."""
        for oracle in self._asked["voters_written"]:
            oracle.voters_written(node, record, committed_end)

    def reported(self, node: SimulatedNode, text: str) -> None:
        """See `Invariant`."""
        for oracle in self._asked["reported"]:
            oracle.reported(node, text)

    def persisted(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self._asked["persisted"]:
            oracle.persisted(node)

    def started(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self._asked["started"]:
            oracle.started(node)
        self.persisted(node)

    def stopped(self, node: SimulatedNode, error: Exception | None) -> None:
        """See `Invariant`."""
        for oracle in self._asked["stopped"]:
            oracle.stopped(node, error)

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> list[list[bytes]]:
        """See `Invariant`; returns the values of each batch, none for a control batch."""
        for oracle in self._asked["delivered"]:
            oracle.delivered(node, batches)
        return [[] if batch.is_control else self._values(batch) for batch in batches]

    def listens(self, node: SimulatedNode, start_offset: int) -> None:
        """See `Invariant`."""
        for oracle in self._asked["listens"]:
            oracle.listens(node, start_offset)

    def overheard(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """See `Invariant`."""
        for oracle in self._asked["overheard"]:
            oracle.overheard(node, batches)

    def skipped(self, node: SimulatedNode, next_offset: int, start_offset: int) -> None:
        """See `Invariant`."""
        for oracle in self._asked["skipped"]:
            oracle.skipped(node, next_offset, start_offset)

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """See `Invariant`."""
        for oracle in self._asked["loaded"]:
            oracle.loaded(node, snapshot_id)

    def told_leader(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
        """See `Invariant`."""
        for oracle in self._asked["told_leader"]:
            oracle.told_leader(node, epoch, leader_id)

    def proposed(self, operation: Operation) -> None:
        """See `Invariant`."""
        for oracle in self._asked["proposed"]:
            oracle.proposed(operation)

    def accepted(self, operation: Operation) -> None:
        """See `Invariant`."""
        for oracle in self._asked["accepted"]:
            oracle.accepted(operation)

    def decided(self, operation: Operation) -> None:
        """See `Invariant`."""
        for oracle in self._asked["decided"]:
            oracle.decided(operation)

    def asked(self, asked: VoterRequest) -> None:
        """See `Invariant`."""
        for oracle in self._asked["asked"]:
            oracle.asked(asked)

    def visited(self, node: SimulatedNode, visit: Visit) -> None:
        """See `Invariant`."""
        for oracle in self._asked["visited"]:
            oracle.visited(node, visit)

    def woken(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        for oracle in self._asked["woken"]:
            oracle.woken(node)

    def dialed(self, node: SimulatedNode, target_id: int) -> None:
        """See `Invariant`."""
        for oracle in self._asked["dialed"]:
            oracle.dialed(node, target_id)

    def answered(self, asked: VoterRequest) -> None:
        """See `Invariant`."""
        for oracle in self._asked["answered"]:
            oracle.answered(asked)

    def faults_ended(self) -> None:
        """See `Invariant`."""
        for oracle in self._asked["faults_ended"]:
            oracle.faults_ended()

    def not_healed(self, seen: str) -> None:
        """See `Invariant`."""
        for oracle in self._asked["not_healed"]:
            oracle.not_healed(seen)

    def ended(self) -> None:
        """See `Invariant`."""
        for oracle in self._asked["ended"]:
            oracle.ended()

    def _overriding(self, hook: str) -> list[Invariant]:
        """The oracles that override this hook."""
        return [oracle for oracle in self.oracles if getattr(type(oracle), hook) is not getattr(Invariant, hook)]

    def _voters_appended(self, node: SimulatedNode, record: VoterRecord) -> None:
        """If a leader appends this voter set, tell the oracles; it may resign in the same event."""
        status = node.status
        if status is None or status.leader_id != node.node_id:
            return
        self._on_voters_appended(node)
        self.voters_written(node, record, min(status.committed_end_offset, record.entry.base_offset))

    def _commit(self, leader: SimulatedNode, high_watermark: int) -> None:
        """Add what a leader newly counts as committed."""
        committed = self._facts.committed
        known = committed.end_offset
        if high_watermark > known:
            held = self._facts.ledger(leader).entries
            first = bisect_right(held, known, key=lambda entry: entry.end_offset)
            committed.entries += takewhile(lambda entry: entry.end_offset <= high_watermark, held[first:])
            self._facts.members.committed_more()

    def _values(self, batch: CommittedBatch) -> list[bytes]:
        """Values of a batch; oracles hear of each batch when it is first delivered."""
        key = (batch.base_offset, read_header(batch.data).crc)
        values = self._batches.get(key)
        if values is None:
            values = self._batches[key] = decode_values(batch.data)
            for oracle in self._asked["committed"]:
                oracle.committed(batch.base_offset, values)
        return values
