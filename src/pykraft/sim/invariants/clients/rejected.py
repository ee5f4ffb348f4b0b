"""A rejected value is never in the log, because the client may propose it again.

An unknown outcome must be reported as unknown. A client that takes it for a rejection would propose the value twice.

Source: ours (`pykraft.host.producers.Rejected`); the story is that of every database driver that retried a timeout.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants.invariant import Invariant, Operation


class RejectedStaysOut(Invariant):
    """No value is both rejected and committed, in either order."""

    def _begin(self) -> None:
        self._rejected: set[bytes] = set()
        self._committed: set[bytes] = set()

    def decided(self, operation: Operation) -> None:
        """Remember a rejection."""
        if operation.answer is OperationOutcome.REJECTED:
            self._rejected.update(operation.values)
            self._compare(operation.values)

    def committed(self, _base_offset: int, values: Sequence[bytes]) -> None:
        """Compare the delivered values with the rejected ones."""
        self._committed.update(values)
        self._compare(values)

    def _compare(self, values: Sequence[bytes]) -> None:
        for value in values:
            if value in self._rejected and value in self._committed:
                raise self.violated(f"the value {value[:13].decode('ascii', 'replace')} was rejected and is committed")
