"""FetchSnapshot, byte by byte.

Source: KIP-630 §FetchSnapshot; Kafka's FetchSnapshotRequest and FetchSnapshotResponse definitions.
"""

from __future__ import annotations

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.messages.fetch_snapshot import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_a_request_names_the_snapshot_by_end_offset_and_epoch() -> None:
    part = {
        "current_leader_epoch": 3,
        "snapshot_id": {"end_offset": 9, "epoch": 2},
        "position": 100,
        "replica_directory_id": b"D" * 16,
    }
    body = {"replica_id": 1, "max_bytes": 512, "topics": [{"name": "t", "partitions": [part]}], "cluster_id": "c"}
    head = "00000001 00000200 02 02 74 02 00000000 00000003 0000000000000009 00000002 00 0000000000000064"
    assert write(REQUEST, 1, body) == bytes.fromhex(head + "01 00 10" + "44" * 16 + "00" + "01 00 02 02 63")
    assert write(REQUEST, 0, body) == bytes.fromhex(head + "00 00" + "01 00 02 02 63")


def test_an_error_has_empty_records_never_null_ones() -> None:
    raw = write(RESPONSE, 0, {"topics": [{"name": "t", "partitions": [{"error_code": 98}]}]})
    part = "00000000 0062 0000000000000000 00000000 00 0000000000000000 0000000000000000 01 00"
    assert raw == bytes.fromhex(f"00000000 0000 02 02 74 02 {part} 00 00")
    null = raw.replace(bytes.fromhex("01 00 00 00"), bytes.fromhex("00 00 00 00"))
    with pytest.raises(
        ProtocolError, match=r"topics\[\].partitions\[\].unaligned_records: the bytes before .* length -1"
    ):
        read(RESPONSE, 0, null)


def test_an_absent_leader_reads_as_zero() -> None:
    raw = write(RESPONSE, 1, {"topics": [{"partitions": [{}]}]})
    part = read(RESPONSE, 1, raw)[0]["topics"][0]["partitions"][0]
    assert part["current_leader"] == {"leader_id": 0, "leader_epoch": 0}
