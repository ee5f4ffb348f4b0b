"""Every kind of planted damage in a log is named, in whichever parts it is checked; a batch being written is none."""

import struct
from pathlib import Path

import pytest

from pykraft.errors import CorruptionError
from pykraft.log.offline.verify import verify
from pykraft.log.offline.verify_findings import FINDINGS_MAX, Findings
from pykraft.log.offline.verify_log import CheckedSegment, LogCheck, LogSummary
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.batch import scan
from pykraft.types import Offset
from tests.log.data_directory import batch_size, damage, flip, make_node, segments, verified
from tests.log.logs import batch


def test_every_flipped_byte_of_a_log_is_found(node: Path) -> None:
    path = segments(node)[0]
    whole = path.read_bytes()
    size = batch_size(path)
    for position in range(size, 2 * size):  # all of the second batch
        flip(path, position, 0x40 if position % 2 else 1)
        found = [name for name, _ in damage(node)]
        assert path.name in found, position
        path.write_bytes(whole)


def test_a_flipped_byte_is_named_once_and_the_rest_is_still_read(node: Path) -> None:
    path = segments(node)[1]
    flip(path, batch_size(path) + 90)
    report = verified(node)
    (found,) = report.findings.damage
    assert (found.path, found.position) == (path, batch_size(path))
    assert found.expected.startswith("CRC ")
    assert "this node is the only voter" in found.advice
    assert report.partitions[0].log.end_offset == 60
    assert report.partitions[0].log.batches_count == 59


def test_a_cut_segment_is_a_gap(node: Path) -> None:
    path = segments(node)[0]
    path.write_bytes(path.read_bytes()[: 3 * batch_size(path)])
    names = [name for name, _ in damage(node)]
    assert names[-1] == segments(node)[1].name
    assert "expected a segment that begins at offset 3" not in names


def test_a_batch_that_is_missing_is_a_gap(node: Path) -> None:
    path = segments(node)[0]
    data, size = path.read_bytes(), batch_size(path)
    path.write_bytes(data[:size] + data[2 * size :])
    assert (path.name, f"{size}: offset 1 / offset 2") in damage(node)


def test_a_missing_segment_is_a_gap(node: Path) -> None:
    path = segments(node)[1]
    for each in node.glob(f"{path.stem}.*"):
        each.unlink()
    (found,) = verified(node).findings.damage
    assert found.path == segments(node)[1]
    assert found.expected == f"offset {int(path.stem)}"
    assert found.found == f"a segment that begins at offset {int(segments(node)[1].stem)}"


def test_swapped_segments_are_both_named(node: Path) -> None:
    one, two, _ = segments(node)
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    found = damage(node)
    assert (one.name, f"0: offset 0 / offset {int(two.stem)}") in found
    assert (two.name, f"0: offset {int(two.stem)} / offset 0") in found


def test_an_epoch_that_goes_back_is_named(node: Path) -> None:
    path = segments(node)[2]
    data = bytearray(path.read_bytes())
    data[12:16] = struct.pack(">i", 1)  # no CRC covers the epoch
    path.write_bytes(data)
    (found,) = verified(node).findings.damage
    assert (found.path, found.position, found.found) == (path, 0, "epoch 1")
    assert found.expected == "an epoch of at least 2"


def test_a_tail_above_the_recovery_point_is_being_written(node: Path) -> None:
    path = segments(node)[-1]
    _, data = batch(60, epoch=2, size_bytes=100)
    path.write_bytes(path.read_bytes() + data + data[:50])
    report = verified(node)
    assert report.findings.damage == []
    (note,) = report.findings.notes
    assert "50 bytes from position" in note.text
    assert "being written" in note.text
    assert report.partitions[0].log.end_offset == 61


def test_a_cut_below_the_recovery_point_is_damage(node: Path) -> None:
    path = segments(node)[-1]
    path.write_bytes(path.read_bytes()[:-20])
    assert any(name == path.name and "a batch of" in text for name, text in damage(node))
    path.write_bytes(path.read_bytes()[: -batch_size(path) + 20])
    for index in (path.with_suffix(".index"), path.with_suffix(".timeindex")):
        index.unlink()
    assert damage(node) == [
        (
            "recovery-point",
            "0: a log that reaches to offset 60, up to which it was synced once / one that ends at offset 59",
        )
    ]


def test_a_cut_last_batch_without_a_recovery_point_is_a_note(node: Path) -> None:
    (node / "recovery-point").unlink()
    (node / "quorum-state.check").unlink(missing_ok=True)
    path = segments(node)[-1]
    _, data = batch(60, epoch=2)
    whole = path.read_bytes()
    path.write_bytes(whole + data[:-1])
    assert damage(node) == []
    assert "being written" in verified(node).findings.notes[0].text
    flip(path, 80)
    assert [name for name, _ in damage(node)] == [path.name]


def test_damage_is_found_without_indexes_too(node: Path) -> None:
    path = segments(node)[0]
    path.with_suffix(".index").unlink()
    path.with_suffix(".timeindex").unlink()
    size = batch_size(path)
    data = path.read_bytes()
    path.write_bytes(data[: size + 90] + b"?" + data[size + 91 :])
    assert [each for each in damage(node) if "CRC" in each[1]] == damage(node) != []
    path.write_bytes(data[: size + 8] + b"\xff" * 60 + data[size + 68 :])
    (found,) = verified(node).findings.damage
    assert (found.path, found.position) == (path, size)


def test_a_hole_between_segments_above_the_recovery_point_is_a_tail(node: Path) -> None:
    first, second, third = segments(node)
    RecoveryPoint.create(OsFs(), node, Offset(int(second.stem))).close()
    for each in node.glob(f"{second.stem}.*"):
        each.unlink()
    report = verified(node)
    assert report.findings.damage == []
    (note,) = report.findings.notes
    assert note.path == third
    assert f"expected offset {int(second.stem)}, found a segment that begins at offset {int(third.stem)}" in note.text
    assert report.partitions[0].log.size_bytes == first.stat().st_size


def test_progress_is_told_within_a_segment_too(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.log.offline.verify_log.PROGRESS_SIZE_BYTES", 1_000)
    # A run of batches ends with its chunk at the latest.
    monkeypatch.setattr("pykraft.log.scan.CHUNK_SIZE_BYTES", 500)
    seen: list[int] = []
    verify(OsFs(), node, on_progress=seen.append)
    assert sum(seen) == sum(path.stat().st_size for path in segments(node))
    assert len(seen) > 2 * len(segments(node))
    assert max(seen) < 1_000 + 500 + 2 * batch_size(segments(node)[0])


def test_a_log_without_segments_is_empty(tmp_path: Path) -> None:
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    report = verified(tmp_path)
    assert (report.findings.damage, report.findings.notes) == ([], [])
    assert report.partitions[0].log == LogSummary()


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path)


def checked(node: Path, path: Path) -> CheckedSegment:
    later = [other for other in segments(node) if other > path]
    check = LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None)
    return check.run_segment(Offset(int(path.stem)), path.stat().st_size, later)


def joined(node: Path, paths: list[Path]) -> tuple[LogSummary, list[tuple[str, int]]]:
    findings = Findings()
    check = LogCheck(OsFs(), node, findings, on_progress=lambda _: None)
    summary = check.join(OsFs().listdir(node), [checked(node, path) for path in paths])
    return summary, [(one.path.name, one.position) for one in findings.damage]


def test_sound_segments_are_the_whole_log(node: Path) -> None:
    whole = LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None)
    wanted = whole.run(OsFs().listdir(node), [Offset(int(path.stem)) for path in segments(node)])
    assert joined(node, segments(node)) == (wanted, [])


def test_a_segment_that_does_not_continue_the_one_before_is_damage(node: Path) -> None:
    first, _, third, *_ = segments(node)
    assert (third.name, 0) in joined(node, [first, third])[1]


def test_an_epoch_that_goes_back_between_two_segments_is_damage(node: Path) -> None:
    (node / "leader-epoch-checkpoint").unlink()
    path = segments(node)[-1]
    content = bytearray(path.read_bytes())
    for position, _ in scan(bytes(content)):
        content[position + 12 : position + 16] = bytes(4)
    path.write_bytes(content)
    assert (path.name, 0) in joined(node, segments(node))[1]


def test_what_a_node_wrote_since_the_plan_is_not_checked(node: Path) -> None:
    path = segments(node)[-1]
    check = LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None)
    *_, (last, _) = scan(path.read_bytes())
    flip(path, last + 90)
    assert check.run_segment(Offset(int(path.stem)), last, []).findings.damage == []


PATH = Path("file")


def test_what_is_kept_is_bounded_and_what_is_counted_is_not() -> None:
    findings = Findings()
    for at in range(FINDINGS_MAX + 5):
        findings.add_damage(PATH, at, expected="a", found="b", advice="c")
        findings.add_note(PATH, "d")
    assert (findings.damage_count, findings.notes_count) == (FINDINGS_MAX + 5, FINDINGS_MAX + 5)
    assert (len(findings.damage), len(findings.notes)) == (FINDINGS_MAX, FINDINGS_MAX)
    both = Findings()
    both.extend(findings)
    both.extend(findings)
    assert (both.damage_count, len(both.damage), len(both.notes)) == (2 * FINDINGS_MAX + 10, FINDINGS_MAX, FINDINGS_MAX)


def test_an_error_without_a_repair_gets_one() -> None:
    findings = Findings()
    findings.add_error(CorruptionError(PATH, position=3, expected="a", found="b"))
    findings.add_error(CorruptionError(PATH, position=3, expected="a", found="b", repair="c"))
    assert [one.advice for one in findings.damage] == ["restore the file from a copy", "c"]
