"""The batch header: every field, every contradiction, the CRC against each bit, scans of cut data, bounded headers.

Runs of batches: what is one, what is none, and what each batch in it is.

Source: KIP-98 §Message Format, KIP-534; Kafka's ``DefaultRecordBatch``, ``FileLogInputStream``; KIP-82 sets no bound;
Kafka's ``DefaultRecordBatch``; runs are ours.
"""

import gzip
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol import batch as module
from pykraft.protocol.batch import (
    BATCHES_MAX,
    BATCHES_MIN,
    GROUP_BATCHES,
    HEADER_SIZE_BYTES,
    BatchHeader,
    BatchRun,
    batch_run,
    batch_starts,
    check_crc,
    crc_of,
    number_batch,
    open_batch,
    place_batch,
    read_header,
    runs_of,
    scan,
    seal_batch,
    unpack_header,
    without_control,
)
from pykraft.protocol.compression import Compression
from pykraft.protocol.records import HEADERS_MAX, decode_control, decode_records, encode_batch, encode_control_batch
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.memory import taking_less_than
from tests.protocol.test_compression import compress
from tests.protocol.test_records import record, resealed, seal


def batch(count: int = 3, base_offset: int = 10, epoch: int = 7) -> bytes:
    values = [b"value %d" % index for index in range(count)]
    return encode_batch(
        values, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=1_795_228_030_532
    ).data


def patched(data: bytes, position: int, layout: str, *values: int) -> bytes:
    """The batch with other bytes at this position; its CRC is not made right again."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, *values)
    return bytes(changed)


def test_a_header_tells_all_it_holds() -> None:
    data = batch()
    header = read_header(data)
    assert header == BatchHeader(
        base_offset=Offset(10),
        size_bytes=len(data),
        epoch=Epoch(7),
        magic=2,
        crc=crc_of(data, 0, header),
        attributes=0,
        last_offset_delta=2,
        base_timestamp=1_795_228_030_532,
        max_timestamp=1_795_228_030_532,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=3,
    )
    assert (header.last_offset, header.end_offset, header.batch_length) == (12, 13, len(data) - 12)
    assert header.compression is Compression.NONE
    assert not any((header.is_control, header.is_transactional, header.is_log_append_time))
    assert header.delete_horizon_ms is None


def test_attributes_tell_what_kind_of_batch_it_is() -> None:
    header = read_header(patched(batch(), 21, ">h", 0x78 | Compression.ZSTD))
    assert header.compression is Compression.ZSTD
    assert header.is_control
    assert header.is_transactional
    assert header.is_log_append_time
    assert header.delete_horizon_ms == header.base_timestamp


def test_a_header_is_found_at_any_position_of_any_buffer() -> None:
    data = b"before" + batch()
    assert read_header(memoryview(data), 6) == read_header(bytearray(data), 6) == read_header(data[6:])


@pytest.mark.parametrize("size_bytes", range(HEADER_SIZE_BYTES))
def test_a_cut_header_is_refused(size_bytes: int) -> None:
    with pytest.raises(ProtocolError, match=f"cut off: {size_bytes} of 61 bytes") as caught:
        read_header(batch()[:size_bytes])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("position", "layout", "value", "problem"),
    [
        (8, ">i", 48, "at byte 5 says that 48 bytes follow its length, but its header alone has 49"),
        (8, ">i", -1, "says that -1 bytes follow its length"),
        (16, ">b", 1, "has magic 1; only 2 is read"),
    ],
)
def test_what_hides_the_next_batch_is_corrupt(position: int, layout: str, value: int, problem: str) -> None:
    data = b"12345" + patched(batch(), position, layout, value)
    for read in (read_header, unpack_header):
        with pytest.raises(ProtocolError, match=problem) as caught:
            read(data, 5)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("position", "layout", "value", "problem"),
    [
        (0, ">q", -1, "has the offsets -1 to "),
        (0, ">q", 2**63 - 1, "which no batch can have"),
        (12, ">i", -2, "epoch -2"),
        (21, ">h", 5, "codec 5"),
        (23, ">i", -1, "which no batch can have"),
        (57, ">i", -1, "claims -1 records for the offsets "),
        (57, ">i", 4, "claims 4 records for the offsets "),
        (23, ">i", 1, "claims 3 records for the offsets "),
    ],
)
def test_contradictions_are_invalid_but_can_be_shown(position: int, layout: str, value: int, problem: str) -> None:
    data = patched(batch(), position, layout, value)
    with pytest.raises(ProtocolError, match=problem) as caught:
        read_header(data)
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert unpack_header(data).size_bytes == len(data)


def test_a_count_that_cannot_fit_is_refused_before_anything_is_read() -> None:
    huge = patched(patched(batch(), 23, ">i", 2**31 - 1), 57, ">i", 2**31 - 1)
    with pytest.raises(ProtocolError, match="2,147,483,647 records in 42 bytes; one takes at least 7"):
        read_header(huge)
    compressed = patched(huge, 21, ">h", Compression.LZ4)
    assert read_header(compressed).records_count == 2**31 - 1


def test_the_last_offset_there_is() -> None:
    assert read_header(batch(count=1, base_offset=2**63 - 1)).last_offset == 2**63 - 1


def test_a_missing_epoch_and_a_cleaned_batch_are_read() -> None:
    assert read_header(patched(batch(), 12, ">i", -1)).epoch == -1
    assert read_header(patched(batch(), 57, ">i", 0)).records_count == 0


def test_the_crc_sees_every_bit_that_it_covers() -> None:
    data = batch()
    check_crc(data, 0, read_header(data))
    for bit in range(17 * 8, len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ProtocolError, match="has CRC") as caught:
            check_crc(flipped, 0, unpack_header(flipped))
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_leader_may_change_offset_and_epoch_under_the_same_crc() -> None:
    moved = patched(patched(batch(), 0, ">q", 99), 12, ">i", 8)
    check_crc(moved, 0, read_header(moved))


def test_the_crc_of_a_cut_batch_is_not_taken() -> None:
    data = batch()
    with pytest.raises(ProtocolError, match=f"at byte 0 is cut off: 1 of {len(data)} bytes are missing") as caught:
        check_crc(data[:-1], 0, read_header(data))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.conformance(116, 143)
@given(st.lists(st.integers(1, 4), max_size=4), st.data())
def test_a_scan_finds_whole_batches_and_stops_before_a_cut_one(counts: list[int], draw: st.DataObject) -> None:
    batches = [batch(count) for count in counts]
    data = b"".join(batches)
    size_bytes = draw.draw(st.integers(0, len(data)))
    ends = [sum(map(len, batches[: index + 1])) for index in range(len(batches))]
    found = [(position, position + header.size_bytes) for position, header in scan(data[:size_bytes])]
    assert [end for _, end in found] == [end for end in ends if end <= size_bytes]
    assert [start for start, _ in found] == [0, *ends][: len(found)]


@pytest.mark.conformance(116)
def test_a_scan_raises_at_the_first_bad_batch_after_yielding_the_good_ones() -> None:
    good, bad = batch(), patched(batch(), 30, ">b", 1)
    found: list[int] = []
    with pytest.raises(ProtocolError, match=f"at byte {len(good)} .*has CRC"):
        found.extend(position for position, _ in scan(good + bad + good))
    assert found == [0]
    assert [position for position, _ in scan(good + bad + good, verify_crc=False)] == [0, len(good), 2 * len(good)]


def test_open_takes_exactly_one_batch() -> None:
    data = batch()
    header, body = open_batch(memoryview(data))
    assert (header, body) == (read_header(data), data[HEADER_SIZE_BYTES:])
    with pytest.raises(ProtocolError, match=f"takes {len(data)} bytes, found {len(data) + 1}"):
        open_batch(data + b"\x00")
    with pytest.raises(ProtocolError, match="cut off"):
        open_batch(data[:-1])


def test_open_without_the_crc_still_wants_the_whole_batch() -> None:
    damaged = patched(batch(), 17, ">I", 0)
    assert open_batch(damaged, verify_crc=False)[1] == batch()[HEADER_SIZE_BYTES:]
    with pytest.raises(ProtocolError, match="found"):
        open_batch(damaged[:-1], verify_crc=False)


def test_a_count_that_the_decompressed_records_cannot_hold_is_refused() -> None:
    body = gzip.compress(b"six by")
    data = seal_batch(body, count=1, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0).data
    with pytest.raises(ProtocolError, match="1 record in 6 bytes; one takes at least 7"):
        open_batch(patched(data, 21, ">h", Compression.GZIP), verify_crc=False)


def test_a_batch_gets_the_numbers_of_a_producer_and_a_new_crc() -> None:
    plain = encode_batch([b"a", b"b"], base_offset=Offset(5), epoch=Epoch(3), timestamp_ms=1_000).data
    batch = bytearray(plain)
    number_batch(batch, producer_id=2**40, producer_epoch=32_767, base_sequence=2**31 - 1)
    before, after = read_header(plain), read_header(batch)
    check_crc(batch, 0, after)
    assert after.crc != before.crc
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (2**40, 32_767, 2**31 - 1)
    assert (bytes(batch[:17]), bytes(batch[21:43]), bytes(batch[57:])) == (plain[:17], plain[21:43], plain[57:])


def test_a_batch_gets_its_place_without_a_new_crc() -> None:
    header, data = encode_batch([b"a", b"b"], base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=7)
    placed = place_batch(header, memoryview(data), base_offset=Offset(12), epoch=Epoch(3))
    assert read_header(placed.data) == placed.header
    assert (placed.header.base_offset, placed.header.epoch, placed.header.crc) == (12, 3, header.crc)
    check_crc(placed.data, 0, placed.header)
    assert placed.data[16:] == data[16:]


IS_CONTROL = 0x20
"""In a batch's attributes."""
HEADER = b"\x00\x01"
"""The smallest one: no name, no value."""


def batch_of_headers(count: int, *, attributes: int) -> bytes:
    """One record, compressed, whose key and value are those of a LeaderChange, so that only the headers are unusual."""
    key, value = b"\x00\x00\x00\x02", bytes(8)
    whole = record(b"\x00", 0, 0, len(key), key, len(value), value, count, HEADER * count)
    return resealed(seal(b"?"), attributes=attributes, body=compress(Compression.ZSTD, whole))


@pytest.mark.parametrize(
    ("decode", "attributes"), [(decode_control, IS_CONTROL | Compression.ZSTD), (decode_records, Compression.ZSTD)]
)
def test_a_small_batch_of_headers_takes_little_memory(decode: Callable[[bytes], object], attributes: int) -> None:
    """Four million headers took 319 MiB and 3.4 s."""
    batch = batch_of_headers(4_000_000, attributes=attributes)
    assert len(batch) < 1_010

    def refuse() -> None:
        with pytest.raises(ProtocolError) as caught:
            decode(batch)
        assert caught.value.code is ErrorCode.INVALID_RECORD

    taking_less_than(50_000_000, refuse)  # the expanded bytes, a few times


def test_headers_are_bounded_for_the_whole_batch() -> None:
    most = record(b"\x00", 0, 0, -1, 3, b"abc", HEADERS_MAX, HEADER * HEADERS_MAX)
    [found] = decode_records(seal(most))
    assert len(found.headers) == HEADERS_MAX
    one_more = record(b"\x00", 0, 1, -1, 3, b"abc", 1, HEADER)
    with pytest.raises(ProtocolError, match=f"record 1 of the batch has 1 headers, 0 of {HEADERS_MAX} for a batch"):
        decode_records(seal(most, one_more))


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


@given(
    st.lists(st.tuples(st.sampled_from(["plain", "plain", "plain", "control", "epoch", "gap"]), st.integers(1, 9))),
    st.none() | st.integers(0, 2_000),
    st.none() | st.integers(0, 2_000),
)
def test_runs_are_the_batches_that_a_scan_finds(
    kinds: list[tuple[str, int]], cut: int | None, flipped: int | None
) -> None:
    offset, epoch, log = 0, 1, bytearray()
    for kind, count in kinds:
        offset, epoch = offset + (kind == "gap"), epoch + (kind == "epoch")
        place: Any = {"base_offset": Offset(offset), "epoch": Epoch(epoch), "timestamp_ms": offset}
        for _ in range(count):
            is_control = kind == "control"
            log += (
                encode_control_batch([KRaftVersion(1)], **place) if is_control else encode_batch([b"x"], **place)
            ).data
            offset += 1
            place["base_offset"] = Offset(offset)
    if flipped is not None and flipped < len(log):
        log[flipped] ^= 4
    content = bytes(log[:cut])
    alone: list[tuple[int, BatchHeader]] = []
    runs: list[BatchRun] = []
    errors: list[str] = []
    try:
        alone.extend(scan(memoryview(content)))
    except ProtocolError as error:
        errors.append(str(error))
    try:
        runs.extend(runs_of(memoryview(content)))
    except ProtocolError as error:
        errors.append(str(error))
    assert [each for run in runs for each in run.headers()] == alone
    assert errors in ([], [errors[0] if errors else ""] * 2)
    for run in runs:
        assert {header.epoch for _, header in run.headers()} == {run.epoch}
        assert b"".join(run.contents()) == run.data == content[run.positions[0] : run.end]
        assert run.size_bytes == len(run.data)
        for begin in range(len(run)):
            part = run.part(begin, len(run))
            assert [*part.headers()] == [*run.headers()][begin:]
            first, *_ = part.headers()
            assert (part.base_offset, part.end_offset) == (first[1].base_offset, run.end_offset)
    if cut is None and flipped is None and kinds and all(kind == "plain" for kind, _ in kinds):
        assert len(runs) == 1 or len(alone) < BATCHES_MIN


def test_control_batches_are_left_out_of_buffers_of_whole_batches() -> None:
    def placed(at: int, *, is_control: bool) -> bytes:
        place: Any = {"base_offset": Offset(at), "epoch": Epoch(1), "timestamp_ms": 0}
        one = encode_control_batch([KRaftVersion(1)], **place) if is_control else encode_batch([b"x"], **place)
        return bytes(one.data)

    kinds = [False, True, False, False, True, True, False, True]
    batches = [placed(at, is_control=kind) for at, kind in enumerate(kinds)]
    right = b"".join(each for each, kind in zip(batches, kinds, strict=True) if not kind)
    for cut in range(1, len(kinds)):
        kept, end = without_control([b"".join(batches[:cut]), b"".join(batches[cut:])])
        assert (b"".join(map(bytes, kept)), end) == (right, len(kinds))
    only, end = without_control([batches[1]])
    assert (only, end) == ([], 2)
