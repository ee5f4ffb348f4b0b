"""A producer's batch is whole, and its header has the producer's numbers."""

from __future__ import annotations

from pykraft.protocol.batch import check_crc, read_header
from pykraft.protocol.records import decode_values
from pykraft.sim.clients.producer_batch import producer_batch


def test_a_batch_has_its_producers_numbers_and_a_right_crc() -> None:
    data = producer_batch((b"a", b"b"), producer_id=2**40, producer_epoch=3, base_sequence=7, timestamp_ms=9)
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 7)
    assert decode_values(data) == [b"a", b"b"]
