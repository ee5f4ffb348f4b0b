"""Headers that are read one by one, up to the first that is cut or wrong."""

from __future__ import annotations

import pytest

from pykraft.protocol.batch import scan
from pykraft.spark.data_source.headers.scanned import scanned_headers
from tests.spark.logs import three_batches

BATCHES = three_batches()
LOG = b"".join(BATCHES)


def test_whole_batches_are_found_with_their_places() -> None:
    found, pairs = scanned_headers(LOG), list(scan(LOG))
    assert len(found) == len(pairs) == 3
    assert list(found.pairs()) == pairs
    assert (found.pair(0), found.pair(-1)) == (pairs[0], pairs[2])
    assert found.run(0) is None


@pytest.mark.parametrize("end", [BATCHES[2][:-1], BATCHES[2][:30], b"!" * 80, b"!", b""])
def test_what_is_cut_or_no_batch_ends_them(end: bytes) -> None:
    assert [at for at, _ in scanned_headers(BATCHES[0] + BATCHES[1] + end).pairs()] == [0, len(BATCHES[0])]
