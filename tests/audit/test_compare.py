"""What a difference means: damage, or records that a later leader replaced.

Source: KIP-595; Raft §5.3.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.audit.compare import NARROWED_MAX, is_damage, narrow_tasks
from pykraft.audit.findings import AuditReport
from pykraft.audit.narrow import ByteDifference
from pykraft.client.journal import Acknowledged
from pykraft.types import Epoch, EpochStart, Offset
from tests.audit.judged_logs import judged_log
from tests.audit.replicas import audited, written
from tests.spark.logs import batch, payload, said


def logs_of(folder: Path, *contents: list[bytes]) -> list[Path]:
    """Partition directories of replicas with these batches."""
    return [written(folder / f"n{at}", parts) for at, parts in enumerate(contents, start=1)]


def in_epoch(epoch: int, *, base_offset: int, sequence: int = 0) -> bytes:
    return batch([payload(sequence, epoch=epoch)], base_offset=base_offset, epoch=epoch)


COMMON = [in_epoch(3, base_offset=at, sequence=at) for at in range(4)]


def audit_of(folder: Path, *contents: list[bytes], acknowledged: list[Acknowledged] | None = None) -> AuditReport:
    return audited(logs_of(folder, *contents), acknowledged=acknowledged)


def test_a_tail_of_an_older_leader_is_a_note(tmp_path: Path) -> None:
    stale = [*COMMON, in_epoch(3, base_offset=4, sequence=4), in_epoch(3, base_offset=5, sequence=5)]
    newer = [*COMMON, in_epoch(4, base_offset=4), in_epoch(4, base_offset=5, sequence=1)]
    report = audit_of(tmp_path, stale, newer, newer)
    assert report.damage == []
    texts = [(note.replica[-2:], note.text) for note in report.notes if "uncommitted" in note.text]
    assert [replica for replica, _ in texts] == ["n1"]
    assert "(offset 4)" in texts[0][1]


def test_a_tail_that_was_acknowledged_is_damage(tmp_path: Path) -> None:
    stale = [*COMMON, in_epoch(3, base_offset=4, sequence=4)]
    newer = [*COMMON, in_epoch(4, base_offset=4)]
    report = audit_of(tmp_path, stale, newer, newer, acknowledged=[said(1, epoch=4, base_offset=4)])
    assert {one.replica[-2:] for one in report.damage} == {"n1"}


def test_other_bytes_in_one_epoch_are_damage(tmp_path: Path) -> None:
    other = [*COMMON[:2], in_epoch(3, base_offset=2, sequence=77), COMMON[3]]
    report = audit_of(tmp_path, COMMON, other, COMMON)
    assert [(one.replica[-2:], one.kind.value) for one in report.damage] == [("n2", "differs")]
    assert len(COMMON[0]) * 2 <= report.damage[0].position < len(COMMON[0]) * 3


def test_an_epoch_that_comes_back_is_damage_and_the_lonely_replica_is_named(tmp_path: Path) -> None:
    strange = [*COMMON[:2], in_epoch(4, base_offset=2, sequence=2), in_epoch(5, base_offset=3)]
    usual = [*COMMON[:3], in_epoch(5, base_offset=3)]
    longer = [*usual, in_epoch(5, base_offset=4, sequence=1)]
    report = audit_of(tmp_path, strange, usual, longer)
    assert {(one.replica[-2:], one.kind.value) for one in report.damage} == {("n1", "differs")}


@pytest.mark.parametrize(("epoch", "committed", "wanted"), [(None, 0, True), (3, 0, True), (2, 5, True), (2, 4, False)])
def test_the_three_rules(epoch: int | None, committed: int, wanted: bool, tmp_path: Path) -> None:
    found = ByteDifference(
        offset=Offset(4),
        path=tmp_path,
        position=7,
        reference_path=tmp_path,
        reference_position=7,
        reference_epoch=Epoch(3),
        epoch=None if epoch is None else Epoch(epoch),
    )
    first = EpochStart(epoch=Epoch(1), start_offset=Offset(0))
    other = judged_log("n1", epochs=[first, EpochStart(epoch=Epoch(2), start_offset=Offset(4))], end_offset=6)
    reference = judged_log("n2", epochs=[first, EpochStart(epoch=Epoch(3), start_offset=Offset(4))], end_offset=6)
    assert is_damage(found, other, reference, Offset(committed)) is wanted
    again = EpochStart(epoch=Epoch(3), start_offset=Offset(5))
    back = judged_log("n1", epochs=[*other.epochs, again], end_offset=6)
    assert is_damage(found, back, reference, Offset(0))


def test_only_some_ranges_of_a_log_are_narrowed() -> None:
    one, two = (judged_log(name, end_offset=200, salt=salt) for salt, name in enumerate(("n1", "n2")))
    assert len(narrow_tasks([one, two], 1)) == NARROWED_MAX
    assert narrow_tasks([one, one], 1) == []
