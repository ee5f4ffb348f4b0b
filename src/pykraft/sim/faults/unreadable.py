"""For a while no complete snapshot can be read, on one node or on all of them; everything else on the disks works.

Only a running process meets it: one that starts reads its newest snapshot, and ends when it cannot. See
`pykraft.sim.faults.disk` for disks without room for snapshots.

Source: ours (ADR 134); Prabhakaran et al., IRON File Systems (SOSP 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.io_errors import SNAPSHOT_UNREADABLE
from pykraft.sim.machine.node import SimulatedNode
from pykraft.snapshot.files import FileKind, parse_snapshot_file


class UnreadableFaults:
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self._rng = Random(0)
        self.kinds: dict[str, Act] = {SNAPSHOT_UNREADABLE: self._begin}

    def use_dice(self, rng: Random) -> None:
        """Use this generator for the coming decision."""
        self._rng = rng

    def stop(self) -> None:
        """All snapshots can be read again."""
        for node in self._harm.facts.nodes.values():
            node.disk.io_errors.mend_kind(SNAPSHOT_UNREADABLE)

    def _begin(self) -> bool:
        facts, rng = self._harm.facts, self._rng
        if not facts.records_between:
            return False
        nodes = list(facts.nodes.values())
        nodes = nodes if rng.random() < 0.5 else [rng.choice(nodes)]
        nodes = [node for node in nodes if not node.disk.io_errors.is_planned]
        for node in nodes:
            node.disk.io_errors.on_error = self._harm.happens_once(node)
            node.disk.io_errors.plan(SNAPSHOT_UNREADABLE, rng.randrange(3), concerns=_whole_snapshots_of(node))
        self._harm.later(rng.randint(1, rng.choice(self._harm.pace.stall_us_max)), self.stop)
        return bool(nodes)


def _whole_snapshots_of(node: SimulatedNode) -> Callable[[Path], bool]:
    def concerns(path: Path) -> bool:
        file = parse_snapshot_file(path.name)
        return node.process is not None and file is not None and file.kind is FileKind.WHOLE

    return concerns
