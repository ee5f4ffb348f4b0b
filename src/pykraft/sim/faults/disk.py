"""Disks that say that they do not work: the node ends with that error, and starts again when the disk does.

An error lasts until the disk is mended, so a node may try to start in vain meanwhile. A stall is no error: nothing
is done for a while, and then everything.

Source: Prabhakaran et al., IRON File Systems (SOSP 2005); fsyncgate (PostgreSQL 2018).
"""

from __future__ import annotations

from functools import partial

from pykraft.sim.faults.harm import RECOVERING, Act, Harm
from pykraft.sim.trouble import DISK_FULL, READ_ERROR, SYNC_ERROR, WRITE_ERROR


class DiskFaults:
    """One table of kinds."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.kinds: dict[str, Act] = {
            **{kind: partial(self._fail, kind) for kind in (READ_ERROR, WRITE_ERROR, SYNC_ERROR, DISK_FULL)},
            "disk stalled": self._stall,
        }

    def stop(self) -> None:
        """All disks work."""
        for node in self._harm.world.nodes.values():
            node.disk.trouble.mend()

    def _fail(self, kind: str) -> bool:
        node, operations = self._harm.any_node(), self._harm.rng.randrange(self._harm.pace.operations_max)
        seen: set[str] = set()

        def tell(given: str) -> None:
            if given not in seen:
                seen.add(given)
                self._harm.happened(given, node, role=None if node.process is not None else RECOVERING)

        node.disk.trouble.on_error = tell
        node.disk.trouble.plan(kind, operations)
        self._harm.later(self._harm.within(self._harm.pace.repair_us_max), node.disk.trouble.mend)
        return True

    def _stall(self) -> bool:
        node = self._harm.any_node()
        duration_us = self._harm.within(self._harm.pace.stall_us_max)
        self._harm.happened("disk stalled", node)
        self._harm.note(node, f"has a disk that does nothing for {duration_us / 1e3:.0f} ms")
        node.disk.trouble.stalled_until_us = self._harm.world.clock.now_us + duration_us
        return True
