"""Staged files are complete or not there, and one that was changed is not appended."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.protocol.records import decode_values
from pykraft.spark.sink.sink_options import BATCH_SIZE_BYTES_MAX
from pykraft.spark.sink.staged import StagedBatch, StagedFile, stage, staged_batches
from tests.spark.sink.sinks import ROWS_IN_BATCH, batches_of, rows_of


def read(folder: Path, *files: StagedFile) -> list[StagedBatch]:
    return list(staged_batches(folder, files, size_bytes_max=BATCH_SIZE_BYTES_MAX))


def test_batches_come_back_with_the_places_of_their_rows(tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    counts = {4: 3 * ROWS_IN_BATCH + 1, 2: 1}
    files = [stage(folder, partition, batches_of(partition, rows_of(partition, n))) for partition, n in counts.items()]
    told = [each for each in files if each is not None]
    assert [(each.partition, each.rows, each.batches) for each in told] == [(4, counts[4], 4), (2, 1, 1)]
    found = read(folder, *told)
    assert [value for each in found for value in decode_values(each.data)] == rows_of(4, counts[4]) + rows_of(2, 1)
    assert [each.first_row_of_partition for each in found] == [0, ROWS_IN_BATCH, 2 * ROWS_IN_BATCH, counts[4] - 1, 0]
    assert [each.first_row for each in found][-2:] == [counts[4] - 1, counts[4]]
    assert found[1].story == f"rows {ROWS_IN_BATCH} to {2 * ROWS_IN_BATCH - 1} of partition 4"


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    assert stage(tmp_path / "query" / "0.rows", 0, []) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_shared_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "elsewhere"
    with pytest.raises(UsageError, match=f"{missing} is not on this machine: set the option stagingLocation"):
        stage(missing / "query" / "0.rows", 0, batches_of(0, [b"a"]))
    assert not missing.exists()


def test_two_attempts_of_a_task_have_files_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    names = {file.name for _ in range(2) if (file := stage(folder, 3, batches_of(3, [b"a"]))) is not None}
    assert len(names) == 2


def test_a_task_that_fails_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    folder.parent.mkdir()
    folder.write_text("a file")
    with pytest.raises(StorageError, match=r"0\.rows.*: rows cannot be staged"):
        stage(folder, 0, batches_of(0, [b"a"]))


@pytest.mark.parametrize("damage", ["cut", "cut in a header", "flipped", "short", "gone"])
def test_a_damaged_file_is_an_error(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    file = stage(folder, 0, batches_of(0, rows_of(0, 3 * ROWS_IN_BATCH)))
    assert file is not None
    path = folder / file.name
    data = path.read_bytes()
    size_bytes = len(data) // 3
    match damage:
        case "cut":
            path.write_bytes(data[:-1])
        case "cut in a header":
            path.write_bytes(data[: size_bytes + 5])
        case "flipped":
            path.write_bytes(data[: size_bytes + 100] + bytes([data[size_bytes + 100] ^ 1]) + data[size_bytes + 101 :])
        case "short":
            path.write_bytes(data[:size_bytes])
        case _:
            shutil.rmtree(folder)
    if damage == "gone":
        with pytest.raises(StorageError, match="staged rows cannot be read"):
            read(folder, file)
    else:
        with pytest.raises(CorruptionError, match=rf"{path}: at position \d+: expected"):
            read(folder, file)
