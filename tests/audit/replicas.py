"""Three replicas of ours, the recordings of Kafka's, audits of them in this process, judged logs and a report."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from pykraft.audit.directory_audit import AuditResult, AuditTask, DirectoryAudit, JudgedLog, run_audits, run_task
from pykraft.audit.findings import AuditedLog, AuditKind, AuditReport
from pykraft.audit.segment import RangeDigest
from pykraft.client.serde import bytes_serde
from pykraft.local.journal import Acknowledged
from pykraft.log.offline.verify_log import LogSummary
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Election, Epoch, EpochStart, NodeId, Offset
from tests.log.data_directory import GOLDEN, make_node
from tests.snapshot.snapshots import id_of
from tests.spark.logs import write_segment


def run_here(tasks: Sequence[AuditTask]) -> list[AuditResult]:
    """Carry out the tasks one after the other, and in another order than they have."""
    results = {number: run_task(OsFs(), tasks[number]) for number in reversed(range(len(tasks)))}
    return [results[number] for number in range(len(tasks))]


def audited(directories: Sequence[Path], *, acknowledged: Sequence[Acknowledged] | None = None) -> AuditReport:
    """The report of an audit in this process."""
    audit = DirectoryAudit(OsFs(), directories, acknowledged=acknowledged)
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


def some_report(places: int = 1) -> AuditReport:
    """A log with this many damaged places and a note; the text would be markup."""
    report = AuditReport()
    report.logs.append(
        AuditedLog(
            replica="n1",
            path=Path("/data/n1/log-0"),
            start_offset=Offset(0),
            end_offset=Offset(9),
            epochs_count=1,
            segments_count=1,
            batches_count=3,
            size_bytes=700,
            snapshots_count=0,
        )
    )
    for at in range(places):
        path = Path("/data/n1/log-0/<script>.log")
        report.add(AuditKind.DAMAGED, "n1", path, at, expected="CRC 1", found="CRC 2", advice="look")
    report.add_note("n1", Path("/data/n1/x.deleted"), "is left over")
    return report


def judged_log(
    name: str,
    *,
    epochs: Sequence[EpochStart] = (),
    end_offset: int = 0,
    salt: int = 0,
    recovery_point: int = 0,
    producers_offset: int = 0,
) -> JudgedLog:
    """A log of one segment, with a digest of each offset; ``salt`` makes the digests differ."""
    digests = {
        at: RangeDigest(
            number=at,
            first_offset=Offset(at),
            end_offset=Offset(at + 1),
            batches_count=1,
            size_bytes=80,
            total=at + salt,
        )
        for at in range(end_offset)
    }
    return JudgedLog(
        replica=name,
        path=Path("/data") / name,
        segments=[(Offset(0), 80 * end_offset)],
        start_offset=Offset(0),
        end_offset=Offset(end_offset),
        epochs=epochs,
        is_sound=True,
        digests=digests,
        snapshot_ends=[],
        summary=LogSummary(),
        recovery_point=Offset(recovery_point),
        producers_offset=Offset(producers_offset),
    )
