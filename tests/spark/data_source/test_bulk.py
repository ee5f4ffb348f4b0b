"""The bulk parser finds exactly the batches that the protocol's own decoder reads."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import ProtocolError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, scan
from pykraft.protocol.records import decode_values
from pykraft.spark.data_source import bulk
from pykraft.spark.data_source.bulk import WORD, blocks_of, bodies_size_bytes, find_values, stretches
from pykraft.spark.data_source.headers import headers_of
from tests.spark.data_source.test_decode import sealed
from tests.spark.logs import batch

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True, scope="module", params=[0, 10**9], ids=["blocks", "positions"])
def few_are_enough(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two records are compared together, too; always in blocks, or never."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "TOGETHER_MIN", 2)
        patch.setattr(bulk, "BLOCK_MIN", request.param)
        yield


def values_of(data: bytes) -> list[list[bytes] | None]:
    """The values of each batch; None where it was not found."""
    batches = list(scan(data, verify_crc=False))
    values = find_values(data, headers_of(data))
    assert len(values.starts) == len(values.sizes) == sum(header.records_count for _, header in batches)
    result: list[list[bytes] | None] = []
    row = 0
    for (_, header), is_found in zip(batches, values.are_found.tolist(), strict=True):
        rows = range(row, row + header.records_count)
        places = [(int(values.starts[each]), int(values.sizes[each])) for each in rows]
        result.append([data[start : start + size] for start, size in places] if is_found else None)
        row = rows.stop
    return result


def log(*lists: list[bytes]) -> bytes:
    """A batch of each list."""
    parts: list[bytes] = []
    for values in lists:
        parts.append(batch(values, base_offset=len(parts) * 100_000))
    return b"".join(parts)


def alike(size: int, count: int) -> list[bytes]:
    """Different values of one size."""
    return [place.to_bytes(8, "little")[:size].ljust(size, b".") for place in range(count)]


@pytest.mark.parametrize("size", [1, 3, 57, 58, 59, 63, 64, 100, 8_180, 8_191, 8_192, 70_000])
@pytest.mark.parametrize("count", [2, 63, 64, 65, 130])
def test_values_of_one_size_are_found(size: int, count: int) -> None:
    values = alike(size, count)
    data = log(values)
    assert values_of(data) == [values]


@pytest.mark.parametrize("count", [8_191, 8_192, 8_193, 20_000])
def test_offset_deltas_of_three_bytes_are_found(count: int) -> None:
    values = alike(2, count)
    data = log(values, alike(2, 70))
    assert values_of(data) == [values, alike(2, 70)]


def test_sizes_are_found_side_by_side_and_a_mixture_is_left() -> None:
    lists = [alike(5, 3), [b"a", b"bb", b"c"], alike(6, 70), alike(5, 100), [b"aa", b"b", b"ccc"]]
    data = log(*lists)
    assert values_of(data) == [lists[0], None, lists[2], lists[3], None]


def test_too_few_of_one_size_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "TOGETHER_MIN", 5)
    data = log(alike(3, 4), alike(4, 2), alike(4, 3))
    assert [each is not None for each in values_of(data)] == [False, True, True]


def test_nothing_is_found_in_nothing() -> None:
    assert values_of(b"") == []


SIZES = st.lists(st.lists(st.sampled_from([1, 2, 2, 2, 60, 70]), min_size=1, max_size=6), min_size=1, max_size=5)


@given(sizes=SIZES)
def test_what_is_found_is_what_the_decoder_reads(sizes: list[list[int]]) -> None:
    data = log(*([bytes([65 + at]) * size for at, size in enumerate(each)] for each in sizes))
    batches = list(scan(data))
    for (position, header), values in zip(batches, values_of(data), strict=True):
        if values is not None:
            assert values == decode_values(data[position : position + header.size_bytes])


CHANGED_TOGETHER = 100


@pytest.mark.parametrize("size", [1, 60])
@pytest.mark.parametrize("xor", [1, 0x80])
def test_no_byte_around_a_value_may_be_another(size: int, xor: int) -> None:
    """Also when the CRC was made for it: then the decoder decides. Each byte is another one in a batch of its own."""
    values = alike(size, 70)
    sound = log(values)
    every_place = range(HEADER_SIZE_BYTES, len(sound))
    for begin in range(0, len(every_place), CHANGED_TOGETHER):
        places = every_place[begin : begin + CHANGED_TOGETHER]
        log_of_each = [sound, *(changed(sound, at, xor) for at in places)]
        first, *others = values_of(b"".join(log_of_each))
        assert first == values
        for at, other, piece in zip(places, others, log_of_each[1:], strict=True):
            assert other in (None, decoded(piece)), at


def changed(data: bytes, at: int, xor: int) -> bytes:
    """A batch with another byte there, and the CRC for it."""
    made = bytearray(data)
    made[at] ^= xor
    return sealed(bytes(made))


def decoded(data: bytes) -> list[bytes] | None:
    """The values of a batch; None if the decoder refuses it."""
    try:
        return decode_values(data)
    except ProtocolError:
        return None


SIZE = 5


def blocks_log(counts: list[int]) -> bytes:
    """A batch of so many records each, with values that tell their place."""
    return b"".join(
        batch([b"%02d%03d" % (number, place) for place in range(count)], base_offset=1_000 * number)
        for number, count in enumerate(counts)
    )


@pytest.mark.parametrize(
    ("counts", "blocks"),
    [([3], [(0, 1)]), ([3, 3, 3], [(0, 3)]), ([3, 3, 4, 4, 3], [(0, 2), (2, 2), (4, 1)]), ([70, 70], [(0, 2)])],
)
def test_batches_that_are_alike_are_a_block(counts: list[int], blocks: list[tuple[int, int]]) -> None:
    data = blocks_log(counts)
    bodies = np.array([position + HEADER_SIZE_BYTES for position, _ in scan(data)])
    found = blocks_of(np.arange(len(counts)), bodies, np.array(counts), SIZE)
    assert [(block.first, block.batches) for block in found] == blocks
    for block in found:
        values = np.empty(block.batches * block.records, dtype=f"V{SIZE}")
        block.copy_values(data, values)
        numbers = range(block.first, block.first + block.batches)
        wanted = [b"%02d%03d" % (number, place) for number in numbers for place in range(block.records)]
        assert [bytes(value) for value in values] == wanted
        assert [data[start : start + SIZE] for start in block.starts().tolist()] == wanted
        assert block.are_as_written(data).all()


def test_what_is_not_a_neighbor_or_lies_elsewhere_begins_another_block() -> None:
    data = blocks_log([3, 3, 3, 3, 3])
    bodies = np.array([position + HEADER_SIZE_BYTES for position, _ in scan(data)])
    members = np.array([0, 1, 3, 4])
    found = blocks_of(members, bodies[members], np.full(4, 3), SIZE)
    assert [(block.first, block.batches) for block in found] == [(0, 2), (3, 2)]
    moved = bodies + np.array([0, 0, 7, 7, 7])
    found = blocks_of(np.arange(5), moved, np.full(5, 3), SIZE)
    assert [block.first for block in found][:2] == [0, 2]
    assert {(block.body, block.distance) for block in found if block.batches > 1} <= {
        (int(moved[block.first]), int(bodies[1] - bodies[0])) for block in found
    }


def test_a_batch_with_another_byte_is_not_as_written() -> None:
    data = bytearray(blocks_log([70, 70, 70]))
    position, header = list(scan(bytes(data)))[1]
    data[position + header.size_bytes - 1] ^= 1
    bodies = np.array([at + HEADER_SIZE_BYTES for at, _ in scan(bytes(data), verify_crc=False)])
    (block,) = blocks_of(np.arange(3), bodies, np.full(3, 70), SIZE)
    assert block.are_as_written(bytes(data)).tolist() == [True, False, True]


COUNTS = (1, 63, 64, 65, 8_192, 8_193)
HEAD_SIZES = (1, 5, 56, 57, 63, 64, 8_183, 8_192)


@pytest.mark.parametrize("size", HEAD_SIZES)
def test_bodies_are_as_long_as_written_ones(size: int) -> None:
    written = [len(batch([bytes(size)] * count, base_offset=0)) - HEADER_SIZE_BYTES for count in COUNTS]
    assert bodies_size_bytes(np.array(COUNTS), np.full(len(COUNTS), size)).tolist() == written


@pytest.mark.parametrize("size", HEAD_SIZES)
def test_heads_are_the_written_bytes(size: int) -> None:
    body = batch([b"v" * size] * 200, base_offset=0)[HEADER_SIZE_BYTES:]
    covered = 0
    for stretch in stretches(200, size):
        deltas = np.arange(stretch.first_delta, stretch.end_delta)
        begins = stretch.begin + (deltas - stretch.first_delta) * stretch.record_size_bytes
        values = begins + stretch.head_size_bytes
        assert all(body[at : at + size + 1] == b"v" * size + b"\0" for at in values.tolist())
        for at, mask, words in stretch.head_words(deltas):
            found = [int.from_bytes(body[begin + at : begin + at + WORD], "little") & mask for begin in begins.tolist()]
            assert words.tolist() == found
        covered += len(deltas)
    assert covered == 200
