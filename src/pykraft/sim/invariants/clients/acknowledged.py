"""No acknowledged value is lost: it is committed at the offset that the client was told.

Checked whenever a batch is delivered for the first time, and again when the run is over and every node has everything.

Source: Raft paper §8; Durability of Vanlightly's specification of KRaft; Jepsen's checker for sets.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants.invariant import Invariant, Operation


class AcknowledgedIsCommitted(Invariant):
    """Every acknowledged value is committed at the acknowledged offset."""

    def _begin(self) -> None:
        self._acknowledged: dict[int, bytes] = {}
        self._committed: dict[int, bytes] = {}

    def decided(self, operation: Operation) -> None:
        """Remember an acknowledgment, and compare it with the batches already delivered."""
        if operation.answer is not OperationOutcome.COMMITTED:
            return
        assert operation.base_offset is not None
        for offset, value in enumerate(operation.values, start=operation.base_offset):
            self._acknowledged[offset] = value
            self._compare(offset, self._committed.get(offset, value))

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        """Compare the delivered values with the acknowledged ones."""
        for offset, value in enumerate(values, start=base_offset):
            self._committed[offset] = value
            self._compare(offset, value)

    def ended(self) -> None:
        """Every acknowledged value must have been delivered."""
        for offset in self._acknowledged.keys() - self._committed.keys():
            raise self.violated(f"the value acknowledged at offset {offset} is not there")

    def _compare(self, offset: int, committed: bytes) -> None:
        acknowledged = self._acknowledged.get(offset, committed)
        if acknowledged != committed:
            seen = f"the value {_shown(acknowledged)} was acknowledged at offset {offset}"
            raise self.violated(f"{seen}, {_shown(committed)} is committed there")


def _shown(value: bytes) -> str:
    return value[:13].decode("ascii", "replace")
