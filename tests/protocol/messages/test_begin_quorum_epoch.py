"""BeginQuorumEpoch, byte by byte.

Source: KIP-595 §BeginQuorumEpoch; Kafka's BeginQuorumEpochRequest and BeginQuorumEpochResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.begin_quorum_epoch import REQUEST, RESPONSE
from tests.protocol.bodies import read, write

BODY = {
    "cluster_id": None,
    "voter_id": 3,
    "topics": [
        {
            "topic_name": "t",
            "partitions": [{"partition_index": 0, "voter_directory_id": b"V" * 16, "leader_id": 1, "leader_epoch": 6}],
        }
    ],
    "leader_endpoints": [{"name": "C", "host": "h", "port": 9093}],
}


def test_version_0_is_not_flexible_and_knows_neither_voter_nor_endpoints() -> None:
    raw = bytes.fromhex("ffff 00000001 0001 74 00000001 00000000 00000001 00000006")
    assert write(REQUEST, 0, BODY) == raw
    found = read(REQUEST, 0, raw)[0]
    assert found["voter_id"] == -1
    assert found["leader_endpoints"] == []
    assert found["topics"][0]["partitions"][0]["voter_directory_id"] == bytes(16)


def test_version_1_has_them() -> None:
    raw = bytes.fromhex(
        "00 00000003 02 02 74 02 00000000" + "56" * 16 + "00000001 00000006 00 0002 02 43 02 68 2385 00 00"
    )
    assert write(REQUEST, 1, BODY) == raw
    assert read(REQUEST, 1, raw)[0] == BODY


def test_answers_of_both_versions() -> None:
    part = {"partition_index": 0, "error_code": 125, "leader_id": 2, "leader_epoch": 7}
    body = {"topics": [{"topic_name": "t", "partitions": [part]}]}
    assert write(RESPONSE, 0, body).hex() == "0000000000010001740000000100000000007d0000000200000007"
    assert write(RESPONSE, 1, body).hex() == "000002027402" + "00000000007d0000000200000007" + "000000"
