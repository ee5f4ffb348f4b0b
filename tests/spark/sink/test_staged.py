"""Staged files are complete or not there, and one that was changed is not appended."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.protocol.records import Record, decode_records, decode_values, read_header
from pykraft.spark.sink import staged
from pykraft.spark.sink.sink_options import BATCH_SIZE_BYTES_MAX
from tests.spark.sink.sinks import ROWS_IN_BATCH, batches_of, rows_of


def read(folder: Path, *files: staged.StagedFile) -> list[staged.StagedBatch]:
    return list(staged.staged_batches(folder, files, size_bytes_max=BATCH_SIZE_BYTES_MAX))


def test_batches_come_back_with_the_places_of_their_rows(tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    counts = {4: 3 * ROWS_IN_BATCH + 1, 2: 1}
    files = [
        staged.stage(folder, partition, batches_of(partition, rows_of(partition, n))) for partition, n in counts.items()
    ]
    told = [each for each in files if each is not None]
    assert [(each.partition, each.rows, each.batches) for each in told] == [(4, counts[4], 4), (2, 1, 1)]
    found = read(folder, *told)
    assert [value for each in found for value in decode_values(each.data)] == rows_of(4, counts[4]) + rows_of(2, 1)
    assert [each.first_row_of_partition for each in found] == [0, ROWS_IN_BATCH, 2 * ROWS_IN_BATCH, counts[4] - 1, 0]
    assert [each.first_row for each in found][-2:] == [counts[4] - 1, counts[4]]
    assert found[1].story == f"rows {ROWS_IN_BATCH} to {2 * ROWS_IN_BATCH - 1} of partition 4"


def test_a_task_without_rows_stages_nothing(tmp_path: Path) -> None:
    assert staged.stage(tmp_path / "query" / "0.rows", 0, []) is None
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_shared_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "elsewhere"
    with pytest.raises(UsageError, match=f"{missing} is not on this machine: set the option stagingLocation"):
        staged.stage(missing / "query" / "0.rows", 0, batches_of(0, [b"a"]))
    assert not missing.exists()


def test_two_attempts_of_a_task_have_files_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    names = {file.name for _ in range(2) if (file := staged.stage(folder, 3, batches_of(3, [b"a"]))) is not None}
    assert len(names) == 2


def test_a_task_that_fails_says_where(tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    folder.parent.mkdir()
    folder.write_text("a file")
    with pytest.raises(StorageError, match=r"0\.rows.*: rows cannot be staged"):
        staged.stage(folder, 0, batches_of(0, [b"a"]))


@pytest.mark.parametrize("damage", ["cut", "cut in a header", "flipped", "short", "gone"])
def test_a_damaged_file_is_an_error(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "query" / "0.rows"
    file = staged.stage(folder, 0, batches_of(0, rows_of(0, 3 * ROWS_IN_BATCH)))
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
        with pytest.raises(StorageError, match="cannot open: No such file"):
            read(folder, file)
    else:
        with pytest.raises(CorruptionError, match=rf"{path}: at position \d+: expected"):
            read(folder, file)


TIME_MS = 1_700_000_000_000
SIZE_BYTES_MAX = 2_048
BLOBS = st.none() | st.binary(max_size=200) | st.just(b"x" * 200)


def records(batches: list[tuple[bytes, int]]) -> list[Record]:
    found: list[Record] = []
    for batch, count in batches:
        header = read_header(batch)
        assert header.size_bytes == len(batch) <= SIZE_BYTES_MAX
        assert header.records_count == count == header.last_offset_delta + 1
        assert (header.base_timestamp, header.max_timestamp) == (TIME_MS, TIME_MS)
        found += decode_records(batch)
    return found


@given(st.lists(st.tuples(BLOBS, BLOBS), max_size=300), st.booleans(), st.integers(1, 50))
def test_each_row_is_in_one_batch_and_in_its_place(
    rows: list[tuple[bytes | None, bytes | None]], has_keys: bool, step: int
) -> None:
    maker = staged.BatchMaker(partition=1, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    made: list[tuple[bytes, int]] = []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        keys = [key for key, _ in part] if has_keys else None
        made += maker.add([value for _, value in part], keys)
    made += maker.rest()
    assert list(maker.rest()) == []
    found = [(record.key, record.value) for record in records(made)]
    assert found == [(key if has_keys else None, value) for key, value in rows]
    assert maker.rows == len(rows)


HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=9), "value": BLOBS}), max_size=3)
TIMES_US = st.none() | st.integers(0, 2**52)


@given(st.lists(st.tuples(BLOBS, HEADERS, TIMES_US), min_size=1, max_size=100))
def test_headers_and_times_are_in_the_records(rows: list[tuple[Any, Any, int | None]]) -> None:
    values, headers, times_us = zip(*rows, strict=True)
    made = list(batches_of(1, values, headers=headers, times_us=times_us, size_bytes_max=SIZE_BYTES_MAX))
    found: list[Record] = []
    for data, _ in made:
        assert len(data) <= SIZE_BYTES_MAX
        batch = decode_records(data)
        header = read_header(data)
        assert header.max_timestamp == max(record.timestamp_ms for record in batch)
        assert header.base_timestamp == batch[0].timestamp_ms
        found += batch
    expected = [
        (value, tuple((each["key"], each["value"]) for each in head or ()), TIME_MS if time is None else time // 1_000)
        for value, head, time in rows
    ]
    assert [(record.value, record.headers, record.timestamp_ms) for record in found] == expected


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"times_us": [0, -1]}, "row 1 of partition 0 .* has a time before 1970"),
        ({"headers": [[], [{"key": None, "value": b"a"}]]}, "row 1 of partition 0 .* has a header without a key"),
        ({"headers": [[], [None]]}, "row 1 of partition 0 .* has a header without a key"),
    ],
)
def test_what_clients_could_not_read_is_refused(more: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        list(batches_of(0, [b"a", b"b"], **more))


def test_a_batch_is_as_full_as_it_may_be() -> None:
    maker = staged.BatchMaker(partition=1, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    made = list(maker.add([b"x" * 100] * 50, None))
    assert {count for _, count in made} == {16}
    assert len(made) == 3


def test_a_row_that_does_not_fit_is_named() -> None:
    largest = SIZE_BYTES_MAX - 61 - staged.RECORD_OVERHEAD_BYTES_MAX
    maker = staged.BatchMaker(partition=7, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    assert [count for _, count in maker.add([b"a", b"x" * largest, b"b"], None)] == [1, 1]
    problem = rf"row 3 of partition 7 \(both from 0\) takes {largest + 1 + staged.RECORD_OVERHEAD_BYTES_MAX} bytes"
    with pytest.raises(UsageError, match=problem):
        list(maker.add([b"x" * (largest + 1)], None))
    maker = staged.BatchMaker(partition=7, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    with pytest.raises(UsageError, match="row 0 of partition 7"):
        list(maker.add([b"x" * largest], [b"k"]))
