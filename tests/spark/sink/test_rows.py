"""Rows become batches in their order; a row that does not fit is named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import UsageError
from pykraft.protocol.records import Record, decode_records, read_header
from pykraft.spark.sink.rows import RECORD_OVERHEAD_BYTES_MAX, BatchMaker

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
    maker = BatchMaker(partition=1, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
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


def test_a_batch_is_as_full_as_it_may_be() -> None:
    maker = BatchMaker(partition=1, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    made = list(maker.add([b"x" * 100] * 50, None))
    assert {count for _, count in made} == {16}
    assert len(made) == 3


def test_a_row_that_does_not_fit_is_named() -> None:
    largest = SIZE_BYTES_MAX - 61 - RECORD_OVERHEAD_BYTES_MAX
    maker = BatchMaker(partition=7, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    assert [count for _, count in maker.add([b"a", b"x" * largest, b"b"], None)] == [1, 1]
    problem = rf"row 3 of partition 7 \(both from 0\) takes {largest + 1 + RECORD_OVERHEAD_BYTES_MAX} bytes"
    with pytest.raises(UsageError, match=problem):
        list(maker.add([b"x" * (largest + 1)], None))
    maker = BatchMaker(partition=7, size_bytes_max=SIZE_BYTES_MAX, timestamp_ms=TIME_MS)
    with pytest.raises(UsageError, match="row 0 of partition 7"):
        list(maker.add([b"x" * largest], [b"k"]))
