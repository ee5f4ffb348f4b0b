"""The work of a plan: a few reads for each segment, whatever the segment's size, and no more tasks than segments.

A stream out of one quorum into another, under kill -9: each record is in the second quorum once.
"""

from pathlib import Path

import pytest

from pykraft.log.os_fs import OsFs
from pykraft.object_storage.files import Files
from pykraft.spark.data_source import file_plan
from tests.spark.large_plan import GIB, plan, write_sparse
from tests.spark.sink_rounds import problems_of, run

pytestmark = pytest.mark.spark

READS_PER_SEGMENT = 45
"""Two headers, two entries of an index of one entry, and looking for the last one; the newest segment is small."""


def test_a_large_log_costs_a_few_reads_for_each_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    class Counted:
        def __init__(self, path: Path) -> None:
            self._file = OsFs().open(path)

        def pread(self, length: int, position: int) -> bytes:
            reads.append(length)
            return self._file.pread(length, position)

        def size(self) -> int:
            return self._file.size()

        def close(self) -> None:
            self._file.close()

    monkeypatch.setattr(Files, "open", lambda fs, path: Counted(path))
    found = {}
    for count in (8, 512):
        write_sparse(tmp_path / f"p-{count}", count)
        reads.clear()
        found[count] = (len(plan(tmp_path / f"p-{count}")), len(reads), sum(reads))
    # 8 GiB are split into strides of 64 MiB, of which a batch of 512 MiB is one; 512 GiB into strides of 128 MiB.
    assert [tasks for tasks, _, _ in found.values()] == [2 * 8 + 1, 2 * 512 + 1]
    for count, (_, reads_count, size_bytes) in found.items():
        assert 0 < reads_count <= READS_PER_SEGMENT * (count + 1)
        assert size_bytes < count * 64 * 1024


def test_a_split_of_a_very_large_log_is_a_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_plan, "TASKS", 4)
    write_sparse(tmp_path / "p-0", 8)
    splits = plan(tmp_path / "p-0")
    assert [split.end_position - split.position for split in splits[:-1]] == [GIB] * 8
    assert len({split.path for split in splits}) == len(splits) == 8 + 1
    assert len(plan(tmp_path / "p-0", minPartitions="1000")) == 2 * 8 + 1, "a batch is never split"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_round_over_a_directory_that_moves(tmp_path: Path) -> None:
    """Every second round of the command restores it, too, as the round over directories into tables does."""
    assert run(tmp_path, rounds=1, throughput=20, seed=2, has_directories=True) == []


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ([b"a", b"b", b"c"], None),
        ([b"a", b"c"], "missing: 1 record, the first one is b'b'"),
        ([b"a", b"b", b"b", b"c"], "doubled: 1 record, the first one is b'b'"),
        ([b"a", b"b", b"c", b"d"], "foreign: 1 record"),
        ([b"a", b"c", b"b"], "the records are in another order"),
    ],
)
def test_what_is_wrong_is_told(found: list[bytes], problem: str | None) -> None:
    problems = problems_of([b"a", b"b", b"c"], found)
    assert len(problems) == (problem is not None)
    assert all(each.startswith(problem or "") for each in problems)
