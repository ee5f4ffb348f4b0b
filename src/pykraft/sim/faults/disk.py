"""Open disk faults: the node ends with the error, and starts again when the disk works.

A disk that has no room for snapshots, but for the log, ends no node (`NodesStayUp`).

An error lasts until the disk is repaired, so a node may try to start in vain meanwhile. A stall is not an error: the
disk does nothing for a while, and then everything at once.

Source: Prabhakaran et al., IRON File Systems (SOSP 2005); fsyncgate (PostgreSQL 2018).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pykraft.sim.faults.harm import RECOVERING, Act, Harm
from pykraft.sim.machine.io_errors import DISK_FULL, NO_SNAPSHOT_ROOM, READ_ERROR, SYNC_ERROR, WRITE_ERROR
from pykraft.sim.machine.node import SimulatedNode
from pykraft.snapshot.files import FileKind, parse_snapshot_file

PART_SYNC_ERROR: Final = "part fsync error"


class DiskFaults:
    """The kinds of open disk faults."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.kinds: dict[str, Act] = {
            **{kind: partial(self._fail, kind) for kind in (READ_ERROR, WRITE_ERROR, SYNC_ERROR, DISK_FULL)},
            "disk stalled": self._stall,
            PART_SYNC_ERROR: self._fail_part,
            NO_SNAPSHOT_ROOM: self._fill,
        }

    def stop(self) -> None:
        """Repair all disks."""
        for node in self._harm.facts.nodes.values():
            node.disk.io_errors.mend()

    def _fail(self, kind: str) -> bool:
        node, operations = self._harm.any_node(), self._harm.rng.randrange(self._harm.pace.operations_max)
        node.disk.io_errors.on_error = self._harm.happens_once(node)
        node.disk.io_errors.plan(kind, operations)
        self._harm.later(self._harm.within(self._harm.pace.repair_us_max), node.disk.io_errors.mend)
        return True

    def _fail_part(self) -> bool:
        """Fail the next sync of a snapshot that is being fetched, and of no other file."""
        node = self._harm.any_node()
        io_errors = node.disk.io_errors
        if not self._harm.facts.records_between or io_errors.is_planned:
            return False

        # The node removes such a part. Only a process that is killed before leaves it to the next one.
        is_killed = self._harm.rng.random() < 0.5

        def fails(_: str) -> None:
            self._harm.happened(PART_SYNC_ERROR, node, role=None if node.process is not None else RECOVERING)
            self._harm.facts.clock.after(0, io_errors.mend)
            if is_killed:
                node.disk.interrupt_within(0, loses_power=False)

        io_errors.on_error = fails
        # The kernel then takes lost pages for clean, which shows only if the download continues after a restart and the
        # power is lost later.
        io_errors.plan(SYNC_ERROR, 0, concerns=_is_fetched_part)
        return True

    def _fill(self) -> bool:
        """Leave the log room but no snapshot, on one node or, as on equal machines, on all of them."""
        if not self._harm.facts.records_between:
            return False
        rng = self._harm.rng
        nodes = [*self._harm.facts.nodes.values()] if rng.random() < 0.5 else [self._harm.any_node()]
        nodes = [node for node in nodes if not node.disk.io_errors.is_planned]
        for node in nodes:
            node.disk.io_errors.on_error = partial(self._found_no_room, self._harm.happens_once(node), node)
            node.disk.io_errors.plan(NO_SNAPSHOT_ROOM, rng.randrange(3), concerns=_is_growing_snapshot)
        self._harm.later(self._harm.within(self._harm.pace.stall_us_max), lambda: self._give_room(nodes))
        return bool(nodes)

    def _give_room(self, nodes: Sequence[SimulatedNode]) -> None:
        for node in nodes:
            node.disk.io_errors.mend_kind(NO_SNAPSHOT_ROOM)

    def _found_no_room(self, count: Callable[[str], None], node: SimulatedNode, given: str) -> None:
        """Remember that this process has to say so (`FailedSnapshotsAreTold`)."""
        if given == NO_SNAPSHOT_ROOM and node.process is not None:
            self._harm.facts.claims.snapshotless_ids.add(int(node.node_id))
        count(given)

    def _stall(self) -> bool:
        node = self._harm.any_node()
        duration_us = self._harm.within(self._harm.pace.stall_us_max)
        self._harm.hit("disk stalled", node, f"has a disk that does nothing for {duration_us / 1e3:.0f} ms")
        node.disk.io_errors.stalled_until_us = self._harm.facts.clock.now_us + duration_us
        return True


def _is_growing_snapshot(path: Path) -> bool:
    file = parse_snapshot_file(path.name)
    return file is not None and file.kind is FileKind.PART


def _is_fetched_part(path: Path) -> bool:
    file = parse_snapshot_file(path.name)
    return file is not None and file.kind is FileKind.PART and file.leader_epoch is not None
