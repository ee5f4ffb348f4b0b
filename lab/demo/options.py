"""The size of the demo, checked against this machine before anything starts.

Invariant: the nodes accept every load that is accepted here.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import UsageError
from pykraft.server.workload import TELLING_SIZE_BYTES_MIN, Load

SECONDS_MIN = 2
SECONDS_MAX = 86_400
NODES_MAX = 9
FREE_SIZE_BYTES_MIN = 256 * 1024 * 1024
"""Free space needed beside the logs: for Spark's files, the nodes' output and the journal."""
_RECORD_OVERHEAD_BYTES = 16
_TABLES_COPIES = 3
"""The tables of batches and of records, and Spark's copies of them; each no larger than the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The options of the command line. ``throughput`` is in records per second. Errors: UsageError."""

    seconds: float = 20.0
    nodes: int = 3
    throughput: int = 5_000
    record_size_bytes: int = 256
    kill_leader: bool = False

    def __post_init__(self) -> None:
        if not SECONDS_MIN <= self.seconds <= SECONDS_MAX:
            raise UsageError(f"--seconds {self.seconds:g}: give {SECONDS_MIN} to {SECONDS_MAX}")
        if not 1 <= self.nodes <= NODES_MAX:
            raise UsageError(f"--nodes {self.nodes}: give 1 to {NODES_MAX}")
        if self.kill_leader and self.nodes < 3:
            raise UsageError(f"--kill-leader needs --nodes 3 or more: {self.nodes} cannot elect a leader without one")
        if self.throughput < 1:
            raise UsageError(f"--throughput {self.throughput}: give records per second, at least 1")
        if self.record_size_bytes < TELLING_SIZE_BYTES_MIN:
            needs = f"give at least {TELLING_SIZE_BYTES_MIN} bytes, so that each record can be identified"
            raise UsageError(f"--record-size {self.record_size_bytes}: {needs}")
        Load(
            records_per_s=self.throughput, record_size_bytes=self.record_size_bytes
        )  # rejects what a node would reject

    def check_disk(self, folder: Path) -> None:
        """Reject a demo that does not fit on the disk. Errors: UsageError."""
        record_size_bytes = self.record_size_bytes + _RECORD_OVERHEAD_BYTES
        copies = self.nodes + _TABLES_COPIES
        needed = int(FREE_SIZE_BYTES_MIN + copies * self.seconds * self.throughput * record_size_bytes)
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise UsageError(f"{folder}: {free >> 20} MiB are free, the demo needs {needed >> 20} MiB; use --data DIR")
