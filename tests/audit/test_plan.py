"""A plan follows from names and sizes, and stays small.

Source: ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.audit.plan import (
    DIGEST_OFFSETS_MIN,
    DIGESTS_MAX,
    AuditedPartition,
    PartTask,
    SnapshotTask,
    digest_offsets,
    find_partitions,
    tasks_of,
)
from pykraft.errors import UsageError
from pykraft.log.os_fs import OsFs
from pykraft.types import Offset
from tests.audit.replicas import our_replicas

GIB = 1024**3


def test_each_part_of_each_segment_and_each_snapshot_is_a_task(tmp_path: Path) -> None:
    (partition,) = find_partitions(OsFs(), our_replicas(tmp_path)[0])
    tasks = list(tasks_of(partition, part_size_bytes=1_000, offsets_a_digest=1_024, has_journal=False))
    parts = [task for task in tasks if isinstance(task, PartTask)]
    assert {task.base_offset for task in parts} == set(partition.base_offsets)
    assert len(parts) == sum(-(-size // 1_000) for _, size in partition.segments)
    assert {task.probes for task in parts} == {(Offset(30),)}
    assert [task.path.name for task in tasks if isinstance(task, SnapshotTask)] == [
        "00000000000000000030-0000000001.checkpoint"
    ]


def test_an_empty_segment_is_a_task(tmp_path: Path) -> None:
    partition = AuditedPartition(replica="n1", path=tmp_path, names=(), segments=((Offset(0), 0),))
    assert len(list(tasks_of(partition, offsets_a_digest=1, has_journal=False))) == 1


def test_ten_tebibytes_are_planned_from_their_listing(tmp_path: Path) -> None:
    segments = tuple((Offset(at * 10_000_000), GIB) for at in range(10 * 1024))
    partition = AuditedPartition(replica="n1", path=tmp_path, names=(), segments=segments)
    width = digest_offsets(OsFs(), [partition])
    assert 10 * 1024 * 10_000_000 / width < DIGESTS_MAX * 1.01
    assert sum(1 for _ in tasks_of(partition, offsets_a_digest=width, has_journal=False)) == 10 * 1024 * 16


def test_a_small_log_has_wide_digests(tmp_path: Path) -> None:
    partitions = find_partitions(OsFs(), our_replicas(tmp_path)[0])
    assert digest_offsets(OsFs(), partitions) == DIGEST_OFFSETS_MIN
    assert digest_offsets(OsFs(), []) == DIGEST_OFFSETS_MIN


def test_another_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a log directory"):
        find_partitions(OsFs(), tmp_path)
