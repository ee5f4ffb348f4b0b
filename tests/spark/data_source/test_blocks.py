"""A block is batches in a row that are alike; its positions and values are those of the records."""

from __future__ import annotations

import numpy as np
import pytest

from pykraft.protocol.batch import HEADER_SIZE_BYTES, scan
from pykraft.spark.data_source.blocks import blocks_of
from tests.spark.logs import batch

SIZE = 5


def log(counts: list[int]) -> bytes:
    """A batch of so many records each, with values that tell their place."""
    return b"".join(
        batch([b"%02d%03d" % (number, place) for place in range(count)], base_offset=1_000 * number)
        for number, count in enumerate(counts)
    )


@pytest.mark.parametrize(
    ("counts", "blocks"),
    [
        ([3], [(0, 1)]),
        ([3, 3, 3], [(0, 3)]),
        ([3, 3, 4, 4, 3], [(0, 2), (2, 2), (4, 1)]),
        ([70, 70], [(0, 2)]),
    ],
)
def test_batches_that_are_alike_are_a_block(counts: list[int], blocks: list[tuple[int, int]]) -> None:
    data = log(counts)
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
    data = log([3, 3, 3, 3, 3])
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
    data = bytearray(log([70, 70, 70]))
    position, header = list(scan(bytes(data)))[1]
    data[position + header.size_bytes - 1] ^= 1
    bodies = np.array([at + HEADER_SIZE_BYTES for at, _ in scan(bytes(data), verify_crc=False)])
    (block,) = blocks_of(np.arange(3), bodies, np.full(3, 70), SIZE)
    assert block.are_as_written(bytes(data)).tolist() == [True, False, True]
