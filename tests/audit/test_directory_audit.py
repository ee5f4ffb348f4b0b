"""Healthy replicas pass, and each planted damage is named with replica, file and byte.

What a difference means: damage, or records that a later leader replaced.

Parts that are put together are judged as the whole log is, and snapshots are compared with the log.

A log without its end is reported, and of a log and its checkpoint the one that is alone.

A judged log knows whether it reached further once; acknowledged records that it lost are named by file and byte.
"""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from pykraft.audit import directory_audit
from pykraft.audit.directory_audit import DirectoryAudit, run_audits, run_here
from pykraft.audit.findings import AuditReport
from pykraft.audit.narrow import ByteDifference
from pykraft.audit.plan import AuditedPartition, SnapshotTask
from pykraft.client.serde import bytes_serde
from pykraft.errors import StorageError, UsageError
from pykraft.local.journal import Acknowledged, RecordSpan
from pykraft.log.offline.verify import PartitionReport, verify
from pykraft.log.offline.verify_log import LogSummary
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import encode_meta
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Epoch, EpochStart, Offset
from tests.audit.planted import PLANTS, Planted, plant_all
from tests.audit.replicas import audited, judged_log, kafkas_replicas, our_replicas, written
from tests.log.data_directory import META
from tests.snapshot.snapshots import id_of
from tests.spark.logs import batch, payload, said

DAMAGES, SHARES = 300, 5
RECORDINGS = ("static", "dynamic", "raft")
SEED = 20261123


def is_named(planted: Planted) -> bool:
    report = audited(planted.directories)
    others = {one.replica for one in report.damage} - {str(planted.replica)}
    named = [one.position for one in report.damage if one.path == planted.path]
    return not others and any(planted.first <= position <= planted.last for position in named)


@pytest.mark.parametrize("share", range(SHARES))
def test_all_planted_damages_are_named(share: int, tmp_path: Path) -> None:
    sources = [our_replicas(tmp_path / "ours"), *map(kafkas_replicas, RECORDINGS)]
    planted = list(plant_all(sources, tmp_path / "copies", DAMAGES // SHARES, SEED + share))
    assert [str(one) for one in planted if not is_named(one)] == []


@pytest.mark.parametrize("size_bytes_max", [2**40, -1], ids=["one process", "a process for each core"])
def test_this_machine_finds_the_same_in_one_process_and_in_many(
    size_bytes_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_audit, "ONE_PROCESS_SIZE_BYTES_MAX", size_bytes_max)
    sources = [our_replicas(tmp_path / "ours"), *map(kafkas_replicas, RECORDINGS)]
    several = [one.directories for one in plant_all(sources, tmp_path / "copies", 2 * len(PLANTS), SEED)]
    reports = run_audits([DirectoryAudit(OsFs(), each) for each in several], run_here)
    assert reports == [audited(each) for each in several]
    assert all(report.damage for report in reports)


def test_an_error_of_a_worker_is_raised_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_audit, "ONE_PROCESS_SIZE_BYTES_MAX", -1)
    gone = SnapshotTask(path=tmp_path / "00000000000000000030-0000000001.checkpoint")
    with pytest.raises(StorageError, match=gone.path.stem):
        run_here([gone])


@pytest.mark.parametrize("recording", RECORDINGS)
def test_what_kafka_wrote_is_sound(recording: str) -> None:
    report = audited(kafkas_replicas(recording))
    assert report.damage == []
    assert len(report.logs) >= 3


def test_what_pykraft_wrote_is_sound(tmp_path: Path) -> None:
    report = audited(our_replicas(tmp_path))
    assert (report.damage, report.notes) == ([], [])
    assert {(log.start_offset, log.end_offset, log.batches_count) for log in report.logs} == {(0, 60, 60)}


def test_a_partition_of_one_replica_only_is_told(tmp_path: Path) -> None:
    ours = our_replicas(tmp_path)[0]
    kafkas = tmp_path / "kafkas"
    shutil.copytree(kafkas_replicas("static")[0], kafkas)
    shutil.copy(ours / "meta.properties", kafkas)
    report = audited([ours, kafkas])
    assert [note.text for note in report.notes] == ["is in no other directory: nothing to compare with"] * 2


def test_a_directory_that_is_just_formatted_has_no_log(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(encode_meta(META))
    report = audited([tmp_path])
    assert (report.logs, report.damage) == ([], [])


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
    assert directory_audit.is_damage(found, other, reference, Offset(committed)) is wanted
    again = EpochStart(epoch=Epoch(3), start_offset=Offset(5))
    back = judged_log("n1", epochs=[*other.epochs, again], end_offset=6)
    assert directory_audit.is_damage(found, back, reference, Offset(0))


def test_only_some_ranges_of_a_log_are_narrowed() -> None:
    one, two = (judged_log(name, end_offset=200, salt=salt) for salt, name in enumerate(("n1", "n2")))
    assert len(directory_audit.narrow_tasks([one, two], 1)) == directory_audit.NARROWED_MAX
    assert directory_audit.narrow_tasks([one, one], 1) == []


@pytest.mark.parametrize("seed", [300, 1_500])
def test_segments_are_judged_as_the_whole_is(seed: int, tmp_path: Path) -> None:
    sources = [our_replicas(tmp_path / "ours"), kafkas_replicas("static"), kafkas_replicas("dynamic")]
    for planted in plant_all(sources, tmp_path / "copies", 20, seed):
        whole = verify(OsFs(), planted.replica, on_progress=lambda _: None)
        report = audited([planted.replica])
        wanted = {(one.path, one.position) for one in whole.findings.damage}
        # Only the audit knows what the files of a log that is too short say.
        found = {(one.path, one.position) for one in report.damage if "once reached" not in one.expected}
        assert found == wanted


def test_a_snapshot_with_another_timestamp_than_the_log_is_damage(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    partition = next(directories[2].glob("__*"))
    writer = SnapshotWriter(OsFs(), partition, id_of(20, 1), bytes_serde, last_contained_log_timestamp=1_000_018)
    writer.freeze()
    (found,) = audited(directories).damage
    assert (found.path.name, found.position) == ("00000000000000000020-0000000001.checkpoint", 0)
    assert found.expected == "timestamp 1000019 of offset 19 in the log"


def test_a_snapshot_with_other_voters_than_the_log_is_damage(tmp_path: Path) -> None:
    source = next(path for path in kafkas_replicas("dynamic") if "n2" in path.parts)
    copy = tmp_path / "n2"
    shutil.copytree(source, copy)
    partition = next(copy.glob("__*"))
    writer = SnapshotWriter(
        OsFs(), partition, id_of(50, 1), bytes_serde, last_contained_log_timestamp=0, kraft_version=1
    )
    writer.freeze()
    found = [one.expected for one in audited([copy]).damage if one.path.name.startswith("00000000000000000050-")]
    assert any(text.startswith("the KRaftVoters record of the log before offset 50") for text in found)


def test_the_end_of_the_last_segment_is_named() -> None:
    report = AuditReport()
    directory_audit.report_missing_end(judged_log("n1", end_offset=9), report)
    assert report.is_sound
    directory_audit.report_missing_end(judged_log("n1", end_offset=9, recovery_point=12), report)
    (found,) = report.damage
    assert (found.path.name, found.position) == ("00000000000000000000.log", 720)
    assert "offset 12" in found.expected


def test_a_checkpoint_that_contradicts_the_log_of_all_is_wrong(tmp_path: Path) -> None:
    directories = our_replicas(tmp_path)
    checkpoint = next(directories[1].glob("__*")) / "leader-epoch-checkpoint"
    for content in ("0\n2\n1 0\n2 70\n", "0\n2\n1 0\n2 31\n", "0\n2\n1 0\n3 30\n"):
        checkpoint.write_text(content)
        report = audited(directories)
        assert {one.replica for one in report.damage} == {str(directories[1])}
        assert checkpoint in {one.path for one in report.damage}


def test_a_segment_is_found_by_offset(tmp_path: Path) -> None:
    segments = ((Offset(10), 100), (Offset(20), 50))
    names = ("00000000000000000033.snapshot", "00000000000000000015-0000000001.checkpoint")
    partition = AuditedPartition(replica="n1", path=tmp_path, names=names, segments=segments)
    summary = LogSummary(start_offset=Offset(10), end_offset=Offset(30))
    log = directory_audit.judged(partition, PartitionReport(path=tmp_path, log=summary), [])
    found = [log.segment_of(Offset(offset))[1:] for offset in (0, 10, 19, 20, 99)]
    assert found == [(10, 100), (10, 100), (10, 100), (20, 50), (20, 50)]
    assert log.snapshot_ends == [15]
    assert log.missing_end == (33, "00000000000000000033.snapshot")


def test_the_file_that_says_most_is_named() -> None:
    assert judged_log("n1", end_offset=9, recovery_point=9).missing_end is None
    found = judged_log("n1", end_offset=9, recovery_point=12, producers_offset=11).missing_end
    assert found == (12, "recovery-point")


CONTENT = [batch([payload(2 * at), payload(2 * at + 1)], base_offset=2 * at) for at in range(4)]


def write_journal(path: Path, acknowledged: list[Acknowledged], end: str = "") -> Path:
    lines = [json.dumps({"event": "ack", **asdict(one), "run": one.run.hex()}) for one in acknowledged]
    path.write_text("".join(f"{line}\n" for line in lines) + end)
    return path


def span(base_offset: int, count: int, *, shift: int = 0) -> RecordSpan:
    claim = said(1).claim
    return RecordSpan(claim=claim, first_sequence=base_offset - shift, base_offset=Offset(base_offset), count=count)


def lost(spans: list[RecordSpan], start: int = 0, end: int = 100) -> list[tuple[int, int]]:
    return list(directory_audit.lost_in([said(10)], spans, Offset(start), Offset(end)))


def test_what_continues_is_joined_and_a_last_line_may_be_cut(tmp_path: Path) -> None:
    acknowledged = [said(2), said(3, first_sequence=2, base_offset=2), said(1, first_sequence=5, base_offset=9)]
    found = directory_audit.read_acknowledged([write_journal(tmp_path / "journal", acknowledged, end='{"event": "ac')])
    assert [(one.base_offset, one.count) for one in found] == [(0, 5), (9, 1)]
    with pytest.raises(UsageError, match="line 2"):
        directory_audit.read_acknowledged([write_journal(tmp_path / "journal", [said(2)], end="no event\n")])


def test_gaps_are_what_no_span_covers_at_its_offset() -> None:
    assert lost([span(0, 10)]) == []
    assert lost([span(0, 4), span(6, 4)]) == [(4, 2)]
    assert lost([span(3, 4)]) == [(0, 3), (7, 3)]
    assert lost([span(0, 10, shift=1)]) == [(0, 10)]
    assert lost([]) == [(0, 10)]


def test_what_lies_outside_of_a_log_is_not_lost_in_it() -> None:
    assert lost([span(3, 4)], start=3, end=7) == []
    assert lost([], start=10) == []


def test_a_lost_record_is_named_by_its_batch(tmp_path: Path) -> None:
    changed = [*CONTENT[:2], batch([payload(90), payload(91)], base_offset=4), CONTENT[3]]
    directories = [
        written(tmp_path / name, parts) for name, parts in (("n1", CONTENT), ("n2", changed), ("n3", CONTENT))
    ]
    report = audited(directories, acknowledged=[said(8)])
    (found,) = (one for one in report.damage if one.kind.value == "lost")
    assert (found.replica, found.position) == (str(directories[1]), len(b"".join(CONTENT[:2])))
    assert found.expected == "2 acknowledged records from offset 4 on"
    assert report.acknowledged == 8


def test_records_beyond_the_end_of_all_logs_are_lost(tmp_path: Path) -> None:
    directories = [written(tmp_path / name, CONTENT) for name in ("n1", "n2")]
    (found,) = audited(directories, acknowledged=[said(11)]).damage
    assert found.expected == "3 acknowledged records from offset 8 on"
    assert found.position == len(b"".join(CONTENT))
    assert audited(directories, acknowledged=[said(8)]).is_sound


def test_a_replica_that_is_behind_has_lost_nothing(tmp_path: Path) -> None:
    contents = (CONTENT, CONTENT, CONTENT[:2])
    directories = [written(tmp_path / f"n{at}", parts) for at, parts in enumerate(contents)]
    report = audited(directories, acknowledged=[said(8)])
    assert report.is_sound
    assert [note.text for note in report.notes if "before" in note.text] == [
        f"ends at offset 4, 4 records before {directories[0]}"
    ]


def test_all_below_the_end_of_what_was_acknowledged_is_committed() -> None:
    assert directory_audit.acknowledged_end([]) == 0
    assert directory_audit.acknowledged_end([said(1), said(10), said(2)]) == said(10).end_offset
