"""Runs the core's steps one at a time, and carries out each before the next begins.

Invariant: no step begins within another. A listener that proposes, or a send that fails at once, puts an event into the
inbox, and the running loop takes it. After the last event, the next wake-up is the earliest deadline of the core,
scrubbing, snapshots, file removal and delivery. Once the inbox is closed, no step follows.

Source: Kafka's ``KafkaRaftClient.poll``; dask's ``BaseWorker``.
"""

from collections.abc import Sequence
from typing import Protocol

from pykraft.core.effects import Effect
from pykraft.core.events import AnswersProgressed
from pykraft.core.raft import Raft
from pykraft.host.components import Components
from pykraft.host.execute import Step, execute
from pykraft.host.inbox import Arrival
from pykraft.types import Instant


class _Part(Protocol):
    """A component with deadlines of its own."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When its `poll` has something to do (mono ms)."""


class Stepping:
    """Connects the core, once it runs, with the components that carry out its effects."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._raft: Raft | None = None
        self._is_running = False
        self._deadline_ms: int | None = None
        clients = () if components.clients is None else (components.clients,)
        self._parts: tuple[_Part, ...] = (
            components.scrubbing,
            components.snapshots,
            components.removal,
            components.delivery,
            *clients,
        )

    @property
    def raft(self) -> Raft | None:
        """The core, for inspection; None before it begins."""
        return self._raft

    def begin(self, raft: Raft, now: Instant) -> None:
        """Take the core's first step, then one for each waiting event."""
        assert self._raft is None, "a host starts once"
        self._raft = raft
        self._carry_out(raft, raft.start(now), None, now)
        self.run(now)

    def run(self, now: Instant) -> None:
        """Take a step for each waiting event; does nothing before the core begins and within a step."""
        raft, inbox = self._raft, self._components.inbox
        if raft is None or self._is_running:
            return
        if self._deadline_ms is not None and self._deadline_ms <= now.mono_ms:
            # A deadline of the core has expired. First report how far unfinished answers have come: bytes that arrived
            # or left may be a reason to wait on.
            self._tell_progress(raft, now)
        while (arrival := inbox.take()) is not None:
            self._carry_out(raft, raft.step(arrival.event, now), arrival, now)
        if not inbox.is_closed:
            components = self._components
            components.scrubbing.poll(now, raft.log.end_offset)
            components.snapshots.poll(now)
            components.removal.poll(now)
            components.delivery.poll(now.mono_ms)
            clients = components.clients
            self._deadline_ms = wake_ms = raft.next_deadline_ms()
            if clients is not None:
                clients.after_step(raft.status)
                clients.poll(now.mono_ms)
            for part in self._parts:
                other_ms = part.next_deadline_ms
                if wake_ms is None or (other_ms is not None and other_ms < wake_ms):
                    wake_ms = other_ms
            components.ports.wake_at(wake_ms)

    def _tell_progress(self, raft: Raft, now: Instant) -> None:
        """Report all answers in one event, because the core acts on its deadlines at the end of each step."""
        arriving, leaving = self._components.peers.arriving(), self._components.inbound.leaving()
        if arriving or leaving:
            event = AnswersProgressed(arriving=tuple(arriving), leaving=tuple(leaving))
            self._carry_out(raft, raft.step(event, now), None, now)

    def _carry_out(self, raft: Raft, effects: Sequence[Effect], arrival: Arrival | None, now: Instant) -> None:
        """Carry out all effects of one step; then tell proposers if this node no longer leads."""
        self._is_running = True
        step = Step(now=now, flushed_end_offset=raft.log.flushed_end_offset, arrival=arrival)
        for effect in effects:
            execute(self._components, effect, step)
            # The node has ended: no effect follows.
            if self._components.inbox.is_closed:
                break
        status = raft.status
        self._components.producers.lost(status.epoch if status.leads else None)
        self._components.voter_mismatch.poll(status, now)
        self._is_running = False
