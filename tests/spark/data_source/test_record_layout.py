"""Sizes and heads of records are those of batches that the protocol writes."""

from __future__ import annotations

import numpy as np
import pytest

from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.spark.data_source.record_layout import WORD, bodies_size_bytes, stretches
from tests.spark.logs import batch

COUNTS = (1, 63, 64, 65, 8_192, 8_193)
SIZES = (1, 5, 56, 57, 63, 64, 8_183, 8_192)


@pytest.mark.parametrize("size", SIZES)
def test_bodies_are_as_long_as_written_ones(size: int) -> None:
    written = [len(batch([bytes(size)] * count, base_offset=0)) - HEADER_SIZE_BYTES for count in COUNTS]
    assert bodies_size_bytes(np.array(COUNTS), size).tolist() == written


@pytest.mark.parametrize("size", SIZES)
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
