"""Every committed value was proposed by a client.

Source: ours; Jepsen's checker for sets (unexpected elements).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import Invariant, Operation


class NoPhantoms(Invariant):
    """No value is delivered that no client proposed."""

    def _begin(self) -> None:
        self._proposed: set[bytes] = set()

    def proposed(self, operation: Operation) -> None:
        """Remember the proposed values."""
        self._proposed.update(operation.values)

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        """Compare the delivered values with the proposed ones."""
        for offset, value in enumerate(values, start=base_offset):
            if value not in self._proposed:
                raise self.violated(f"offset {offset} holds {value[:24]!r}, which nobody proposed")
