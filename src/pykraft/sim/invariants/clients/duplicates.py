"""No value is committed twice.

Clients of a world never propose a value twice, so a duplicate comes from a node.

Source: ours; Jepsen's checker for sets (duplicates); KIP-98 for the story (a retried append).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import Invariant


class NoDuplicates(Invariant):
    """Each value has one offset."""

    def _begin(self) -> None:
        self._offsets: dict[bytes, int] = {}

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        """Compare with the offset where the value was before."""
        for offset, value in enumerate(values, start=base_offset):
            known = self._offsets.setdefault(value, offset)
            if known != offset:
                shown = value[:13].decode("ascii", "replace")
                raise self.violated(f"the value {shown} is committed at offset {known}, and at {offset} again")
