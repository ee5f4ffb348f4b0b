"""Ends processes while snapshots change the disk: during writing, download, log cleaning, or replacement of the log.

Such moments are short, and a random crash rarely hits one. So this fault waits until one has come: the first operation
on a file of the kind, or the turn of the ordered lane that removes the log before a snapshot. A few operations later
the process is killed or loses power.

Source: ALICE (OSDI 2014); the steps of `pykraft.snapshot.writer`, `pykraft.log.log.Log.begin_anew_at` and
``delete_before``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pykraft.core.effects import InstallSnapshot, MoveLogStart
from pykraft.log.lane import Job
from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.fault_kinds import SNAPSHOT
from pykraft.snapshot.files import FileKind, parse_snapshot_file

TAKING, DOWNLOAD, INSTALL, CLEANING = SNAPSHOT
OPERATIONS_MAX: Final = {TAKING: 6, DOWNLOAD: 12, INSTALL: 16, CLEANING: 8}


class SnapshotFaults:
    """The kinds of faults around snapshots."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self._planned: dict[int, dict[str, tuple[int, bool]]] = {}
        """By node and kind: after how many operations, and whether by a power loss."""
        self.kinds: dict[str, Act] = {kind: partial(self._plan, kind) for kind in SNAPSHOT}

    def stop(self) -> None:
        """Cancel what was planned."""
        self._planned.clear()
        for node in self._harm.facts.nodes.values():
            node.disk.on_operation = None

    def performs(self, node: SimulatedNode, jobs: Sequence[Job]) -> None:
        """The ordered lane of a node is about to carry out these jobs."""
        for job in jobs:
            if isinstance(job, InstallSnapshot):
                self._harm.happened("snapshot installed", node)
                self._reached(node, INSTALL)
            elif isinstance(job, MoveLogStart):
                self._harm.happened("log cleaned", node)
                self._reached(node, CLEANING)

    def _plan(self, kind: str) -> bool:
        rng, node = self._harm.rng, self._harm.any_node()
        if not self._harm.facts.records_between:
            return False
        planned = self._planned.setdefault(int(node.node_id), {})
        planned[kind] = (rng.randrange(OPERATIONS_MAX[kind]), rng.random() < 0.5)
        node.disk.on_operation = partial(self._operates, node)
        return True

    def _operates(self, node: SimulatedNode, path: Path) -> None:
        """A file or a name is about to change."""
        file = parse_snapshot_file(path.name)
        if file is None:
            return
        if file.kind is not FileKind.PART:
            self._reached(node, CLEANING)
        else:
            self._reached(node, TAKING if file.leader_epoch is None else DOWNLOAD)

    def _reached(self, node: SimulatedNode, kind: str) -> None:
        planned = self._planned.get(int(node.node_id), {}).pop(kind, None)
        if planned is not None:
            operations, loses_power = planned
            node.disk.interrupt_within(operations, loses_power=loses_power, kind=kind)
