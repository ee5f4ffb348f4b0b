"""Checks of one replica that need more than its batches: where the log once ended, and which of two files is wrong.

Source: ours; Kafka's ``ProducerStateManager`` and ``LeaderEpochFileCache`` write the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pykraft.audit.findings import AuditKind, AuditReport
from pykraft.audit.judged import JudgedLog
from pykraft.log.fs import Fs
from pykraft.log.offline.verify_files import check_epochs
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_index import ADVICE as INDEX_ADVICE
from pykraft.log.scan import REPAIR
from pykraft.log.small_files import epoch_checkpoint
from pykraft.types import EpochStart

EPOCHS_TOLD: Final = 4


def tell_missing_end(log: JudgedLog, report: AuditReport) -> None:
    """Report a log that lost its end without a trace in its batches.

    Our node notes how far it synced. Kafka writes a file where a segment ends and where a node stops, and removes it
    when the log is truncated.
    """
    if (missing := log.missing_end) is not None:
        path, _, size_bytes = log.segment_of(log.end_offset)
        report.add(
            AuditKind.DAMAGED,
            log.replica,
            path,
            size_bytes,
            expected=f"offset {missing[0]}, which the log once reached, as {missing[1]} says",
            found=f"the end of the log at offset {log.end_offset}",
            advice=REPAIR,
        )


def blame_checkpoint(fs: Fs, log: JudgedLog, report: AuditReport) -> None:
    """A log that contradicts its epoch checkpoint has the bytes of another replica: then the checkpoint is wrong.

    Errors: StorageError.
    """
    findings = Findings()
    check_epochs(fs, log.path, log.summary, log.snapshot_ends, findings)
    if findings.notes and fs.exists(path := log.path / epoch_checkpoint.FILE_NAME):
        # It may be behind the log where nothing contradicts it; but here it does.
        listed = epoch_checkpoint.read_epochs(fs, path)
        position = epoch_checkpoint.position_of(listed, log.epochs)
        findings.add_damage(path, position, expected=_told(log.epochs), found=_told(listed), advice=INDEX_ADVICE)
    for one in findings.damage:
        report.add(
            AuditKind.DAMAGED,
            log.replica,
            one.path,
            one.position,
            expected=one.expected,
            found=one.found,
            advice=one.advice,
        )


def _told(epochs: Sequence[EpochStart]) -> str:
    return ", ".join(f"epoch {entry.epoch} from offset {entry.start_offset} on" for entry in epochs[-EPOCHS_TOLD:])
