"""What clients do in a world: they write and read registers at every node that leads, and remember the answers.

A client calls every node that believes it leads, so a leader that has been replaced without knowing it gets calls, too.
The history records calls and answers, and oracles hear of each.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from pykraft.errors import BufferFullError
from pykraft.host.producers import Committed, ProposalOutcome, Rejected
from pykraft.sim.clients.application import Application
from pykraft.sim.clients.prepared_appends import PreparedAppends
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.history import READ, WRITE, Operation, OperationOutcome, value_of
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Offset

READ_PROBABILITY = 0.1


class SimulatedWorkload:
    """Calls every node that leads, again and again."""

    def __init__(
        self,
        facts: Facts,
        watch: Watch,
        rng: Random,
        prepared: PreparedAppends,
        dice: Callable[[str], Random],
    ) -> None:
        """``dice`` returns the random generator of the named part of the world."""
        self.history = facts.history
        self.acknowledged = 0
        """Number of acknowledged values."""
        self.acknowledged_end_offset = 0
        self.proposed = 0
        self._facts = facts
        self._watch = watch
        self._rng = rng
        self._prepared = prepared
        self._work = facts.scenario.work
        self._applications: dict[int, Application] = {}
        self._dice = dice
        self._snapshot_dice: dict[int, Random] = {}
        self._asking_dice: dict[int, Random] = {}

    def begin(self) -> None:
        """Schedule the first proposals."""
        self._facts.clock.after(self._work.period_us, self._turn)

    def started(self, node: SimulatedNode) -> None:
        """See `Users`: the application listens from the first record or snapshot on."""
        node_id = int(node.node_id)
        self._applications[node_id] = application = Application(
            self._facts,
            self._watch,
            node,
            snapshot_dice=self._snapshot_dice.setdefault(node_id, self._dice(f"snapshots {node_id}")),
            asking_dice=self._asking_dice.setdefault(node_id, self._dice(f"asking {node_id}")),
        )
        asked = self.history.asked_node_ids
        (asked.add if application.is_asked else asked.discard)(node_id)
        application.listen()

    def over(self) -> None:
        """See `Users`: the oracles check the history."""

    def _turn(self) -> None:
        for node in self._facts.nodes.values():
            process = node.process
            if process is not None and process.host.status.leads and not process.is_paused:
                # A proposal changes the node's state, so the oracles must look at it after this event.
                self._watch.touch(node)
                for _ in range(self._proposals_in_a_row()):
                    self._call(node)
        period_us = self._work.period_us
        self._facts.clock.after(self._rng.randint(period_us // 2, period_us * 2), self._turn)

    def _call(self, node: SimulatedNode) -> None:
        process, application = node.process, self._applications[int(node.node_id)]
        assert process is not None
        is_prepared = self._prepared.is_next(node)
        operation = Operation(
            number=len(self.history.operations),
            node_id=int(node.node_id),
            epoch=process.host.status.epoch,
            values=self._next_values(),
            invoked_us=self._facts.clock.now_us,
            invoked_mono_ms=node.clock.instant.mono_ms,
            is_alive=lambda: process.is_running,
            is_prepared=is_prepared,
        )
        self.history.operations.append(operation)
        if operation.is_read:
            application.reads[operation.values[0]] = operation
        self._watch.proposed(operation)

        def accepted(base_offset: Offset) -> None:
            operation.base_offset = base_offset
            self._watch.accepted(operation)

        process.host.propose(
            operation.values,
            epoch=process.host.status.epoch,
            now=node.clock.instant,
            on_outcome=lambda outcome: self._decided(operation, outcome),
            on_accepted=accepted,
            is_prepared=is_prepared,
        )

    def _proposals_in_a_row(self) -> int:
        most = self._work.proposals_max
        return 1 if most == 1 else self._rng.randint(1, most)

    def _decided(self, operation: Operation, outcome: ProposalOutcome) -> None:
        operation.answered_us = self._facts.clock.now_us
        if isinstance(outcome, Committed):
            operation.answer, operation.base_offset = OperationOutcome.COMMITTED, outcome.base_offset
            self.acknowledged += len(operation.values)
            self.acknowledged_end_offset = max(self.acknowledged_end_offset, operation.end_offset)
        else:
            operation.answer = OperationOutcome.REJECTED if isinstance(outcome, Rejected) else OperationOutcome.UNKNOWN
            # The error of a leadership transfer is a subclass, so compare the exact type.
            operation.lacked_room = isinstance(outcome, Rejected) and type(outcome.error) is BufferFullError
        self._watch.decided(operation)

    def _next_values(self) -> tuple[bytes, ...]:
        if self._rng.random() < READ_PROBABILITY:
            return (self._next_value(READ),)
        return tuple(self._next_value(WRITE) for _ in range(self._rng.randint(1, self._work.values_max)))

    def _next_value(self, kind: bytes) -> bytes:
        self.proposed += 1
        return value_of(self.proposed, kind, self._rng.randrange(0, self._work.value_size_bytes_max))
