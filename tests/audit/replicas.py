"""Three replicas of ours, the recordings of Kafka's, and audits of them in this process."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from pykraft.audit.directory_audit import AuditResult, AuditTask, DirectoryAudit, run_audits, run_task
from pykraft.audit.findings import AuditReport
from pykraft.client.serde import bytes_serde
from pykraft.local.journal import Acknowledged
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Election, Epoch, NodeId
from tests.log.data_directory import GOLDEN, make_node
from tests.snapshot.snapshots import id_of
from tests.spark.logs import write_segment

PART_SIZE_BYTES = 16_000
"""Several parts of a segment of Kafka's."""


def run_here(tasks: Sequence[AuditTask]) -> list[AuditResult]:
    """Carry out the tasks one after the other, and in another order than they have."""
    results = {number: run_task(OsFs(), tasks[number]) for number in reversed(range(len(tasks)))}
    return [results[number] for number in range(len(tasks))]


def audited(
    directories: Sequence[Path],
    *,
    acknowledged: Sequence[Acknowledged] | None = None,
    part_size_bytes: int = PART_SIZE_BYTES,
) -> AuditReport:
    """The report of an audit in this process."""
    audit = DirectoryAudit(OsFs(), directories, acknowledged=acknowledged, part_size_bytes=part_size_bytes)
    (report,) = run_audits([audit], run_here)
    return report


def our_replicas(folder: Path) -> list[Path]:
    """Log directories of three voters: three segments, two epochs, a snapshot of the first."""
    first = folder / "n1"
    partition = make_node(first)
    writer = SnapshotWriter(OsFs(), partition, id_of(30, 1), bytes_serde, last_contained_log_timestamp=1_000_029)
    writer.append([b"state", b"more"])
    writer.freeze()
    others = [folder / "n2", folder / "n3"]
    for other in others:
        shutil.copytree(first, other)
    return [first, *others]


def kafkas_replicas(recording: str) -> list[Path]:
    """Log directories of the nodes of a recording."""
    return sorted(GOLDEN.glob(f"{recording}/disk/*/data"))


def written(partition: Path, batches: Sequence[bytes]) -> Path:
    """A partition directory with one segment of these batches, whose node knows an election in epoch 9."""
    write_segment(partition, b"".join(batches))
    store = ElectionStore(OsFs(), partition)
    store.write(Election(epoch=Epoch(9), leader_id=NodeId(1)), voters=(NodeId(1), NodeId(2)), kraft_version=0)
    store.close()
    return partition
