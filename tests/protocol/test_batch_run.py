"""Runs of batches: what is one, what is none, and what each batch in it is.

Source: Kafka's ``DefaultRecordBatch``; runs are ours.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pykraft.protocol import batch_run as module
from pykraft.protocol.batch import check_crc, read_header, scan, seal_batch
from pykraft.protocol.batch_run import BATCHES_MAX, GROUP_BATCHES, BatchRun, batch_run, batch_starts
from pykraft.protocol.records import encode_batch
from pykraft.types import Epoch, Offset


def log_of(counts: Sequence[int], *, epoch: int = 3, base_offset: int = 7, size: int = 20) -> list[bytes]:
    """Batches of so many records, one after the other."""
    batches = []
    for count in counts:
        values = [bytes(size)] * count
        batch = encode_batch(
            values, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=base_offset % 1_000
        )
        batches.append(batch.data)
        base_offset += count
    return batches


def run_of(log: bytes, *, at: int = 0, shift: int = 0) -> BatchRun | None:
    return batch_run(log, batch_starts(log, at), shift=shift)


def changed(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with another field and the CRC that belongs to it."""
    edited = bytearray(batch)
    struct.pack_into(layout, edited, at, value)
    struct.pack_into(">I", edited, 17, crc32c(bytes(edited[21:])))
    return bytes(edited)


@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [2, 1, 5, 1], [1] * (GROUP_BATCHES + 1), [3] * (2 * GROUP_BATCHES)])
@pytest.mark.parametrize("shift", [0, 1_000])
def test_a_run_is_what_its_batches_are(counts: list[int], shift: int) -> None:
    log = b"xyz" + b"".join(log_of(counts))
    run = run_of(log, at=3, shift=shift)
    assert run is not None
    alone = list(scan(log[3:]))
    assert [*run.headers()] == [(position + 3 + shift, header) for position, header in alone]
    assert b"".join(run.contents()) == log[3:]
    headers = [header for _, header in alone]
    assert [*run.positions] == [*(position + 3 + shift for position, _ in alone), len(log) + shift]
    assert [*run.last_offsets] == [header.last_offset for header in headers]
    assert [*run.max_timestamps] == [header.max_timestamp for header in headers]
    assert (run.base_offset, run.end_offset, run.epoch) == (7, headers[-1].end_offset, 3)
    assert (len(run), run.end) == (len(counts), len(log) + shift)


def test_a_run_is_bounded() -> None:
    log = b"".join(log_of([1] * (BATCHES_MAX + 2)))
    assert len(batch_starts(log, 0)) == BATCHES_MAX + 1
    uneven = b"".join(log_of([2, *([1] * (BATCHES_MAX + 2))]))
    assert len(batch_starts(uneven, 0)) == BATCHES_MAX + 1


@pytest.mark.parametrize("counts", [[1, 1, 1], [1, 2, 1]])
def test_only_whole_batches_count(counts: list[int]) -> None:
    batches = log_of(counts)
    log = b"".join(batches)
    whole = [sum(map(len, batches[:count])) for count in range(4)]
    for end in range(len(log) + 1):
        assert [*batch_starts(log[:end], 0)] == [position for position in whole if position <= end]


@pytest.mark.parametrize("length", [-(2**31), -13, -1, 0, 48])
@pytest.mark.parametrize("number", [0, 1])
def test_a_length_below_a_header_ends_it(length: int, number: int) -> None:
    batches = log_of([1, 2, 1])
    batches[number] = changed(batches[number], 8, ">i", length)
    starts = batch_starts(b"".join(batches), 0)
    assert [*starts] == [sum(map(len, batches[:count])) for count in range(number + 1)]


@pytest.mark.parametrize(
    ("at", "layout", "value"),
    [
        (0, ">q", 12),  # an offset that does not follow
        (0, ">q", -1),
        (0, ">q", 2**63 - 1),
        (12, ">i", 4),  # another epoch
        (12, ">i", -1),
        (16, ">b", 1),  # another magic
        (21, ">h", 0x20),  # a control batch
        (21, ">h", 2),  # a codec
        (21, ">h", 0x10),  # a transaction
        (23, ">i", -1),  # the last offset delta
        (23, ">i", 5),
        (57, ">i", 0),  # the count of records
        (57, ">i", 2),
        (57, ">i", -1),
    ],
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_anything_else_is_no_run(at: int, layout: str, value: int, number: int) -> None:
    batches = log_of([1, 1, 1])
    batches[number] = changed(batches[number], at, layout, value)
    # One batch with another base offset or epoch is sound in itself; it only does not follow the others.
    assert run_of(b"".join(batches)) is None


@pytest.mark.parametrize(("at", "value"), [(0, -1), (12, -1), (16, 1)])
def test_batches_that_agree_on_what_is_wrong_are_no_run(at: int, value: int) -> None:
    layout = {0: ">q", 12: ">i", 16: ">b"}[at]
    assert run_of(changed(log_of([1])[0], at, layout, value)) is None


def test_a_batch_has_bytes_for_its_records() -> None:
    full = seal_batch(bytes(21), count=3, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data
    empty = seal_batch(bytes(20), count=3, base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=1).data
    assert run_of(full) is not None
    assert run_of(empty) is None


def test_offsets_end_where_kafkas_do() -> None:
    last = 2**63 - 1
    assert run_of(b"".join(log_of([1, 1], base_offset=last - 1))) is not None
    (batch,) = log_of([2], base_offset=1)
    assert run_of(changed(batch, 0, ">q", last)) is None


@pytest.mark.parametrize("group", [2, GROUP_BATCHES])
def test_no_flipped_bit_is_in_a_run(group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run holds only batches that pass the checks of a single one."""
    monkeypatch.setattr(module, "GROUP_BATCHES", group)
    log = b"".join(log_of([1] * 5, size=3))
    for at in range(len(log)):
        for bit in range(8):
            flipped = bytearray(log)
            flipped[at] ^= 1 << bit
            flipped_log = bytes(flipped)
            starts = batch_starts(flipped_log, 0)
            run = batch_run(flipped_log, starts, shift=0) if len(starts) > 1 else None
            for position, header in () if run is None else run.headers():
                assert header == read_header(flipped_log, position)
                check_crc(flipped_log, position, header)


@given(st.binary(max_size=400), st.integers(0, 5))
def test_any_bytes_can_be_looked_at(content: bytes, at: int) -> None:
    starts = batch_starts(content, min(at, len(content)))
    run = batch_run(content, starts, shift=0) if len(starts) > 1 else None
    for position, header in () if run is None else run.headers():
        check_crc(content, position, header)
