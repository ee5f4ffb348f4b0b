"""Intact directories pass, Kafka's too; files that do not belong there are reported.

Source: ours; Kafka has ``kafka-dump-log --index-sanity-check`` for one file at a time, and no tool for a directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import StorageError, UsageError
from pykraft.log.offline.verify import VerifyReport, total_size_bytes, verify
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import encode_meta
from tests.log.data_directory import FIRST, GOLDEN, META, damage, flip, look, segments


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/*/data")), ids=lambda path: str(path.relative_to(GOLDEN)))
def test_what_kafka_wrote_is_sound(path: Path) -> None:
    report = look(path)
    assert report.findings.damage == []
    (partition,) = report.partitions
    assert partition.log.batches_count > 30
    assert partition.recovery_point is None
    assert all("left over" in note.text or "meta.properties" in note.text for note in report.findings.notes)


def test_what_pykraft_wrote_is_sound(node: Path) -> None:
    for directory in (node, node.parent):
        report = look(directory)
        assert (report.findings.damage, report.findings.notes) == ([], [])
        (partition,) = report.partitions
        assert partition.log.end_offset == partition.recovery_point == 60
        assert partition.log.segments_count == 3
        assert [entry.epoch for entry in partition.log.epochs] == [1, 2]


def test_it_writes_nothing(node: Path) -> None:
    def state() -> dict[str, tuple[int, bytes]]:
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in node.iterdir()}

    before = state()
    look(node.parent)
    assert state() == before


def test_progress_adds_up_to_all_bytes(node: Path) -> None:
    seen: list[int] = []
    verify(OsFs(), node.parent, on_progress=seen.append)
    assert sum(seen) == total_size_bytes(OsFs(), node.parent) == total_size_bytes(OsFs(), node) > 10_000


def test_leftovers_and_strange_names_are_notes_and_a_swap_is_not(node: Path) -> None:
    for name in (f"{FIRST}.log.deleted", "quorum-state.tmp", "00000000000000000010-0000000001.checkpoint.part"):
        (node / name).write_bytes(b"x")
    (node / "core.1234").write_bytes(b"x")
    (node / "00000000000000000010-0000000001.checkpoint.damaged").write_bytes(b"x")
    (node.parent / "my notes").mkdir()
    report = look(node.parent)
    assert report.findings.damage == []
    texts = {note.path.name: note.text for note in report.findings.notes}
    assert len(texts) == 6
    assert "set aside" in texts["00000000000000000010-0000000001.checkpoint.damaged"]
    assert "left over" in texts["quorum-state.tmp"]
    assert "nothing reads it" in texts["core.1234"]
    assert "nothing reads it" in texts["my notes"]
    (node / f"{FIRST}.log.swap").write_bytes(b"x")
    assert [name for name, _ in damage(node)] == [f"{FIRST}.log.swap"]


def test_a_node_in_quarantine_is_told_and_an_unreadable_note_of_it_is_damage(node: Path) -> None:
    (node / "quarantine").write_bytes(b"?")
    report = look(node)
    assert [Path(note.path).name for note in report.findings.notes] == ["quarantine"]
    assert "does not vote" in str(report.findings.notes[0])
    assert [name for name, _ in damage(node)] == ["quarantine"]


def test_a_log_that_starts_late_needs_a_snapshot(kafkas: Path) -> None:
    for path in kafkas.glob("*.checkpoint"):
        path.unlink()
    assert damage(kafkas)[0][1].startswith("0: a snapshot that reaches to offset 63")


def test_a_damaged_producer_snapshot_bootstrap_and_meta_are_named(kafkas: Path) -> None:
    flip(kafkas / "00000000000000000106.snapshot", 3)
    flip(kafkas.parent / "bootstrap.checkpoint", 70)
    (kafkas.parent / "meta.properties").write_text("version=1\n")
    names = [name for name, _ in damage(kafkas.parent)]
    assert names == ["bootstrap.checkpoint", "meta.properties", "00000000000000000106.snapshot"]


def test_partitions_of_other_topics_are_not_looked_at(node: Path) -> None:
    other = node.parent / "orders-3"
    other.mkdir()
    (other / f"{FIRST}.log").write_bytes(b"garbage")
    report = look(node.parent)
    assert report.findings.damage == []
    assert [note.path for note in report.findings.notes] == [other]


def test_a_directory_that_is_just_formatted_is_sound(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_bytes(encode_meta(META))
    assert look(tmp_path) == VerifyReport()


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="it holds nothing; give an entry"):
        look(tmp_path)
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(UsageError, match="neither a log directory"):
        look(tmp_path)
    with pytest.raises(StorageError):
        look(tmp_path / "absent")


def test_a_truncation_meanwhile_is_looked_at_again(node: Path) -> None:
    """The first look finds damage; then the node, which was truncating, has finished in a new epoch."""
    path = segments(node)[0]
    whole = path.read_bytes()
    flip(path, 80)

    def repair(count: int) -> None:
        if path.read_bytes() != whole:
            path.write_bytes(whole)
            checkpoint = (node / "leader-epoch-checkpoint").read_bytes().replace(b"0\n2\n", b"0\n3\n") + b"3 60\n"
            (node / "leader-epoch-checkpoint").write_bytes(checkpoint)

    report = verify(OsFs(), node, on_progress=repair)
    assert report.findings.damage == []
