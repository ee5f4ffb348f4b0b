"""Every kind of planted damage in a log is named, in whichever parts it is checked; a batch being written is no damage.

Source: ours, after Kafka's ``LogLoader`` and ``LogSegment.recover``.
"""

import struct
from contextlib import closing
from pathlib import Path

import pytest

from pykraft.errors import CorruptionError
from pykraft.log.offline.verify import verify
from pykraft.log.offline.verify_findings import FINDINGS_MAX, Findings
from pykraft.log.offline.verify_index import OffsetIndexCheck, TimeIndexCheck
from pykraft.log.offline.verify_log import CheckedPart, LogCheck, LogPart, LogSummary, SegmentCheck
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


def check(path: Path, first: int, last: int) -> list[tuple[str, int]]:
    """Findings of a part that has the batches with these numbers, the last one excluded."""
    fs, findings, base = OsFs(), Findings(), Offset(int(path.stem))
    batches = list(scan(path.read_bytes()))
    start, end = batches[first][0], batches[last][0]
    index_path, times_path = path.with_suffix(".index"), path.with_suffix(".timeindex")
    with closing(fs.open(path)) as file, closing(fs.open(index_path)) as index, closing(fs.open(times_path)) as times:
        segment = SegmentCheck(path, file, end)
        segment.index = OffsetIndexCheck(index_path, index, base, findings)
        segment.times = TimeIndexCheck(times_path, times, base, findings)
        segment.begin_at(start, batches[first][1].base_offset)
        for position, header in batches[first:last]:
            segment.saw(position, header)
        segment.end_part()
        assert segment.seen_until == end
    return [(one.path.suffix, one.position) for one in findings.damage]


def test_each_part_has_its_own_entries(tmp_path: Path) -> None:
    path = segments(make_node(tmp_path))[1]
    assert check(path, 4, 12) == []
    # The fourth entry is about the eighth batch, or a later one.
    flip(path.with_suffix(".index"), 3 * 8 + 3)
    flip(path.with_suffix(".timeindex"), 3 * 12 + 7)
    parts = [check(path, first, first + 4) for first in range(0, 20, 4)]
    found = [one for part in parts for one in part]
    assert (".index", 24) in found
    assert (".timeindex", 36) in found
    assert check(path, 0, 4) == []


def test_an_entry_within_the_last_batch_is_found_by_its_part(tmp_path: Path) -> None:
    path = segments(make_node(tmp_path))[1]
    batches = list(scan(path.read_bytes()))
    index = path.with_suffix(".index")
    content = bytearray(index.read_bytes())
    # The first entry points into the middle of the fourth batch.
    content[4:8] = (batches[3][0] + 5).to_bytes(4, "big")
    index.write_bytes(content)
    assert (".index", 0) in check(path, 0, 4)
    assert (".index", 0) not in check(path, 4, 8)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path)


def parts_of(node: Path, batches_a_part: int = 5) -> list[LogPart]:
    found: list[LogPart] = []
    for path in segments(node):
        batches = list(scan(path.read_bytes()))
        starts = batches[::batches_a_part]
        ends = [position for position, _ in starts[1:]] + [path.stat().st_size]
        found += [
            LogPart(base_offset=Offset(int(path.stem)), start=position, end=end, offset=header.base_offset)
            for (position, header), end in zip(starts, ends, strict=True)
        ]
    return found


def checked(node: Path, part: LogPart) -> CheckedPart:
    later = [path for path in segments(node) if int(path.stem) > part.base_offset]
    return LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None).run_part(part, later)


def joined(node: Path, parts: list[CheckedPart]) -> tuple[LogSummary, list[tuple[str, int]]]:
    findings = Findings()
    names = OsFs().listdir(node)
    summary = LogCheck(OsFs(), node, findings, on_progress=lambda _: None).join(names, parts)
    return summary, [(one.path.name, one.position) for one in findings.damage]


def test_sound_parts_are_the_whole_log(node: Path) -> None:
    whole = LogCheck(OsFs(), node, Findings(), on_progress=lambda _: None)
    names = OsFs().listdir(node)
    wanted = whole.run(names, [Offset(int(path.stem)) for path in segments(node)])
    parts = parts_of(node)
    assert len(parts) > len(segments(node))
    assert joined(node, [checked(node, part) for part in parts]) == (wanted, [])
    assert {checked(node, part).max_timestamp for part in parts} > {1_000_004, 1_000_059}


def test_a_part_that_does_not_continue_the_one_before_is_damage(node: Path) -> None:
    parts = parts_of(node)
    results = [checked(node, part) for part in parts if part != parts[2]]
    _, damage = joined(node, results)
    assert (segments(node)[0].name, parts[3].start) in damage


def test_an_epoch_that_goes_back_between_two_parts_is_damage(node: Path) -> None:
    parts = parts_of(node)
    (node / "leader-epoch-checkpoint").unlink()
    first = next(at for at, part in enumerate(parts) if part.offset > 30 and part.start > 0)
    path = node / f"{parts[first].base_offset:020d}.log"
    content = bytearray(path.read_bytes())
    for position, header in scan(bytes(content)):
        if header.base_offset >= parts[first].offset:
            content[position + 12 : position + 16] = (1).to_bytes(4, "big")
    path.write_bytes(content)
    _, damage = joined(node, [checked(node, part) for part in parts])
    assert (path.name, parts[first].start) in damage


def test_what_parts_say_twice_is_told_once(node: Path) -> None:
    flip(segments(node)[0].with_suffix(".index"), 3)
    _, damage = joined(node, [checked(node, part) for part in parts_of(node)])
    assert len(damage) == len(set(damage)) > 0


def test_a_low_entry_of_the_time_index_is_noticed_where_parts_meet(node: Path) -> None:
    path = segments(node)[0]
    parts = [part for part in parts_of(node) if part.base_offset == 0]
    results = [checked(node, part) for part in parts]
    assert results[1].first_time_entry is not None
    low = CheckedPart(
        part=results[1].part,
        summary=results[1].summary,
        findings=results[1].findings,
        is_offset_known=True,
        is_over=False,
        epoch=results[1].epoch,
        max_timestamp=results[1].max_timestamp,
        first_time_entry=(12, 7),
    )
    rest = [checked(node, part) for part in parts_of(node)[len(parts) :]]
    _, damage = joined(node, [results[0], low, *results[2:], *rest])
    assert damage == [(path.with_suffix(".timeindex").name, 12)]


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
