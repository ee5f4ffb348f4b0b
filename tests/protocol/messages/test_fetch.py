"""Fetch, byte by byte, at its turning points.

Source: KIP-516, KIP-595, KIP-630, KIP-853, KIP-903, KIP-1166; Kafka's FetchRequest and FetchResponse definitions.
"""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.messages.fetch import HIGH_WATERMARK_NOT_TOLD, REQUEST, RESPONSE
from tests.protocol.bodies import read, write

TOPIC_ID = bytes(15) + b"\2"


def request(**partition: object) -> dict[str, Any]:
    part = {"fetch_offset": 7, "current_leader_epoch": 3, **partition}
    return {"max_wait_ms": 500, "topics": [{"topic": "t", "topic_id": TOPIC_ID, "partitions": [part]}]}


def response(**partition: object) -> dict[str, Any]:
    return {"responses": [{"topic": "t", "topic_id": TOPIC_ID, "partitions": [{"high_watermark": 5, **partition}]}]}


def part_of(body: dict[str, Any]) -> dict[str, Any]:
    (topic,) = body.get("topics") or body["responses"]
    (part,) = topic["partitions"]
    return dict(part)


def test_version_4_is_the_oldest() -> None:
    raw = bytes.fromhex(
        "ffffffff 000001f4 00000000 7fffffff 00  00000001 0001 74 00000001 00000000 0000000000000007 00000000"
    )
    assert write(REQUEST, 4, request()) == raw


def test_topics_have_a_name_up_to_version_12_and_an_id_from_13_on() -> None:
    assert b"\2t\2" in write(REQUEST, 12, request())
    assert TOPIC_ID not in write(REQUEST, 12, request())
    assert TOPIC_ID in write(REQUEST, 13, request())
    assert read(REQUEST, 13, write(REQUEST, 13, request()))[0]["topics"][0]["topic"] == ""


def test_the_replica_id_moves_into_a_tag_with_version_15() -> None:
    old = write(REQUEST, 14, {"replica_id": 2})
    assert old[:4] == b"\0\0\0\2"
    new = write(REQUEST, 15, {"replica_state": {"replica_id": 2}})
    assert new.endswith(bytes.fromhex("01 01 0d 00000002 ffffffffffffffff 00"))
    with pytest.raises(ProtocolError):
        write(REQUEST, 14, {"replica_state": {"replica_id": 2}})


def test_the_directory_id_needs_version_17_and_the_high_watermark_18() -> None:
    body = request(replica_directory_id=b"D" * 16, high_watermark=-1)
    assert bytes.fromhex("02 00 10" + "44" * 16 + "01 08 ffffffffffffffff") in write(REQUEST, 18, body)
    assert bytes.fromhex("01 00 10" + "44" * 16 + "00 01 01 00") in write(REQUEST, 17, body)
    assert b"DD" not in write(REQUEST, 16, body)
    assert part_of(read(REQUEST, 17, write(REQUEST, 17, body))[0])["high_watermark"] == HIGH_WATERMARK_NOT_TOLD


def test_the_last_fetched_epoch_cannot_be_told_before_version_12() -> None:
    with pytest.raises(ProtocolError, match="last_fetched_epoch"):
        write(REQUEST, 11, request(last_fetched_epoch=2))


def test_a_diverging_epoch_has_its_epoch_first_and_a_snapshot_id_its_end_offset() -> None:
    body = response(diverging_epoch={"epoch": 1, "end_offset": 2}, snapshot_id={"epoch": 3, "end_offset": 4})
    raw = write(RESPONSE, 12, body)
    assert bytes.fromhex("02 00 0d 00000001 0000000000000002 00 02 0d 0000000000000004 00000003 00") in raw


def test_an_endpoint_has_a_port_of_32_bits_and_a_rack() -> None:
    body = {"node_endpoints": [{"node_id": 1, "host": "h", "port": 9}]}
    raw = bytes.fromhex("00000000 0000 00000000 01  01 00 0d 02 00000001 02 68 00000009 00 00")
    assert write(RESPONSE, 16, body) == raw
    # An answer to an older client that was sent to the wrong node leaves the endpoint out.
    assert write(RESPONSE, 15, body) == write(RESPONSE, 15, {})


def test_the_current_leader_is_unknown_unless_told() -> None:
    part = part_of(read(RESPONSE, 18, write(RESPONSE, 18, response()))[0])
    assert part["current_leader"] == {"leader_id": -1, "leader_epoch": -1}
    assert part["snapshot_id"] == {"end_offset": -1, "epoch": -1}


def test_records_may_be_null_in_every_version() -> None:
    for version in (4, 11, 12, 18):
        for records in (None, b"", b"abc"):
            raw = write(RESPONSE, version, response(records=records))
            assert part_of(read(RESPONSE, version, raw)[0])["records"] == records
