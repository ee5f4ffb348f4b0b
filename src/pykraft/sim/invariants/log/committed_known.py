"""No node forgets at a start what it knew to be committed.

It remembers a lower bound, so that it can tell a leader that has lost records. Only a majority that lost its records
would show that it does not.

Source: ours (ADR 128).
"""

from __future__ import annotations

from pykraft.log.small_files.recovery_point import FILE_NAME
from pykraft.log.small_files.slots import parse_slots
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class CommittedStaysKnown(Invariant):
    """What a node's ``recovery-point`` calls committed before a start, the node knows after it, as far as its log goes.

    A disk that lies may have lost the file, or what it speaks of.
    """

    def _begin(self) -> None:
        self._known: dict[int, int] = {}

    def starting(self, node: SimulatedNode) -> None:
        """Read the file."""
        content = node.disk.content(node.config.partition_directory / FILE_NAME)
        slots = parse_slots(bytes(content)) if content is not None else ()
        _, _, committed = slots[-1].payload.partition(b" ") if slots else (b"", b"", b"")
        self._known[int(node.node_id)] = int(committed or b"0")

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Compare with what the node knows once it has started."""
        known, status = self._known.pop(int(node.node_id), 0), node.status
        if not known or status is None or node.is_damaged or node.disk.is_rotten:
            return
        after = status.committed_end_offset
        if after < min(known, status.log_end_offset):
            seen = f"node {node.node_id} knew that everything below {known} is committed"
            raise self.violated(f"{seen}, and after its start below {after}")
