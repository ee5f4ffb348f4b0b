"""Digests do not depend on the segments, and differ where the bytes do."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pykraft.audit.plan import SegmentTask, find_partitions, tasks_of
from pykraft.audit.segment import Digests, RangeDigest, SegmentResult, SnapshotResult, carry_out
from pykraft.log.os_fs import OsFs
from pykraft.types import KRaftVoters, Offset
from tests.audit.replicas import kafkas_replicas, our_replicas
from tests.log.data_directory import flip
from tests.spark.logs import batch, payload, write_segment


def tasks(directory: Path, *, has_journal: bool = False) -> list[SegmentTask]:
    (partition,) = find_partitions(OsFs(), directory)
    found = tasks_of(partition, offsets_a_digest=1_024, has_journal=has_journal)
    return [task for task in found if isinstance(task, SegmentTask)]


def test_a_segment_knows_timestamps_before_snapshots_and_membership_records() -> None:
    directory = next(path for path in kafkas_replicas("dynamic") if "n1" in path.parts)
    results = [carry_out(OsFs(), task) for task in tasks(directory)]
    found = [result for result in results if isinstance(result, SegmentResult)]
    known = {offset for segment in found for offset in segment.timestamps}
    assert known == {30, 63, 88, 123, 161}
    assert any(isinstance(record, KRaftVoters) for segment in found for _, record in segment.membership)


def test_a_snapshot_that_is_damaged_has_no_head(tmp_path: Path) -> None:
    directory = our_replicas(tmp_path)[0]
    (partition,) = find_partitions(OsFs(), directory)
    (task,) = (
        each for each in tasks_of(partition, offsets_a_digest=1, has_journal=False) if not isinstance(each, SegmentTask)
    )
    sound = carry_out(OsFs(), task)
    assert isinstance(sound, SnapshotResult)
    assert sound.head is not None
    flip(task.path, 70)
    damaged = carry_out(OsFs(), task)
    assert isinstance(damaged, SnapshotResult)
    assert (damaged.head, damaged.findings.damage_count) == (None, 1)


def test_records_of_the_workload_become_spans_and_one_of_another_epoch_is_damage(tmp_path: Path) -> None:
    values = [payload(at) for at in range(6)]
    content = batch(values[:3], base_offset=0) + batch(values[3:], base_offset=3)
    write_segment(tmp_path / "p-0", content)
    (task,) = tasks(tmp_path / "p-0", has_journal=True)
    found = carry_out(OsFs(), task)
    assert isinstance(found, SegmentResult)
    assert [(span.base_offset, span.first_sequence, span.count) for span in found.spans] == [(0, 0, 6)]
    write_segment(tmp_path / "p-0", batch(values, base_offset=0, epoch=9))
    (task,) = tasks(tmp_path / "p-0", has_journal=True)
    found = carry_out(OsFs(), task)
    assert isinstance(found, SegmentResult)
    assert [one.position for one in found.checked.findings.damage] == [0]


class HalfWritten(OsFs):
    """The first look at a file finds half of what its node writes."""

    def __init__(self, path: Path) -> None:
        self._path, self._whole = path, path.read_bytes()
        self._looks = 0

    def listdir(self, path: Path) -> list[str]:
        self._looks += 1
        if self._looks == 2:
            self._path.write_bytes(self._whole)
        return super().listdir(path)


def test_what_a_second_look_does_not_find_is_no_damage(tmp_path: Path) -> None:
    directory = our_replicas(tmp_path)[0]
    index = max(next(directory.glob("__*")).glob("*.timeindex"))
    task = tasks(directory)[-1]
    fs = HalfWritten(index)
    flip(index, 3)
    lasting, passing = carry_out(OsFs(), task), carry_out(fs, task)
    assert isinstance(lasting, SegmentResult)
    assert isinstance(passing, SegmentResult)
    assert {one.path for one in lasting.checked.findings.damage} == {index}
    assert passing.checked.findings.damage == []


BATCHES = [(bytes([at]) * 20, Offset(at), Offset(at + 1)) for at in range(40)]


def digests_of(parts: list[list[tuple[bytes, Offset, Offset]]], width: int = 16) -> dict[int, RangeDigest]:
    found: dict[int, RangeDigest] = {}
    for part in parts:
        digests = Digests(width)
        for content in part:
            digests.add(*content)
        for one in digests.finished():
            found[one.number] = found[one.number].plus(one) if one.number in found else one
    return found


@given(st.integers(0, 40), st.integers(0, 40))
def test_segments_of_any_size_give_the_same_digests(one: int, two: int) -> None:
    first, second = sorted((one, two))
    whole = digests_of([BATCHES])
    assert digests_of([BATCHES[:first], BATCHES[first:second], BATCHES[second:]]) == whole
    assert [digest.batches_count for digest in whole.values()] == [16, 16, 8]
    assert (whole[2].first_offset, whole[2].end_offset, whole[2].size_bytes) == (32, 40, 160)


def test_a_changed_missing_or_moved_batch_changes_the_digest_of_its_range_only() -> None:
    whole = digests_of([BATCHES])
    changed = [*BATCHES[:20], (b"other" * 4, Offset(20), Offset(21)), *BATCHES[21:]]
    missing = [*BATCHES[:20], *BATCHES[21:]]
    for log in (changed, missing):
        found = digests_of([log])
        assert [number for number in whole if found[number] != whole[number]] == [1]
