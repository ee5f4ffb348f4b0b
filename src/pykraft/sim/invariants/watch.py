"""Passes everything that happens in a world to its oracles.

It calls an oracle only for the hooks it overrides, and for a change of a node only when there is one. It keeps what
several oracles compare with: the view of each node, and what leaders have counted as committed.

Source: the design is ours; each oracle names its own source.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from pykraft.host.delivery import CommittedBatch
from pykraft.log.lane import AppendBytes, Job
from pykraft.protocol.records import decode_values, read_header
from pykraft.sim.facts.electorate import VoterRecord
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.facts.view import DOWN, View, view_of
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode

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

    def __init__(
        self, facts: Facts, oracles: Sequence[type[Invariant]], on_voters_appended: Callable[[SimulatedNode], None]
    ) -> None:
        """``on_voters_appended`` is called with each leader that appends a voter set, before the oracles."""
        self.facts = facts
        self.oracles = [oracle(facts) for oracle in oracles]
        self._on_voters_appended = on_voters_appended
        self._views: dict[int, View] = {}
        self._batches: dict[tuple[int, int], list[bytes]] = {}
        self._tell = {hook: self._telling(hook) for hook in HOOKS}
        for hook in HOOKS - vars(Watch).keys():
            setattr(self, hook, self._tell[hook])

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
        """See `Invariant`."""
        # What this hook does by default matters to each oracle that overrides `wiped`.
        for oracle in self.oracles:
            oracle.emptied(node)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """See `Invariant`."""
        if isinstance(job, AppendBytes):
            for record in self.facts.members.electorate.submitted(job):
                self._voters_appended(node, record)
        self._tell["submitted"](node, job)

    def started(self, node: SimulatedNode) -> None:
        """See `Invariant`."""
        self._tell["started"](node)
        self.persisted(node)

    def values_of(self, batches: Sequence[CommittedBatch]) -> list[list[bytes]]:
        """The values of each batch that was just delivered, none for a control batch."""
        return [[] if batch.is_control else self._values(batch) for batch in batches]

    def _telling(self, hook: str) -> Callable[..., None]:
        """A function that calls this hook of each oracle that overrides it."""
        default = getattr(Invariant, hook)
        told = [getattr(oracle, hook) for oracle in self.oracles if getattr(type(oracle), hook) is not default]

        def tell(*event: object) -> None:
            for hear in told:
                hear(*event)

        return tell

    def _voters_appended(self, node: SimulatedNode, record: VoterRecord) -> None:
        """If a leader appends this voter set, tell the oracles; it may resign in the same event."""
        status = node.status
        if status is None or status.leader_id != node.node_id:
            return
        self._on_voters_appended(node)
        self.voters_written(node, record, min(status.committed_end_offset, record.entry.base_offset))

    def _commit(self, leader: SimulatedNode, high_watermark: int) -> None:
        """Add what a leader newly counts as committed."""
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
