"""DescribeQuorum, byte by byte.

Source: KIP-595 §DescribeQuorum; Kafka's DescribeQuorumRequest and DescribeQuorumResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.describe_quorum import REQUEST, RESPONSE
from tests.protocol.bodies import read, write

REPLICA = {
    "replica_id": 1,
    "replica_directory_id": b"D" * 16,
    "log_end_offset": 9,
    "last_fetch_timestamp": 2,
    "last_caught_up_timestamp": 3,
}
TIMES = "0000000000000002 0000000000000003"


def answer(version: int) -> bytes:
    part = {"leader_id": 1, "leader_epoch": 2, "high_watermark": 8, "current_voters": [REPLICA], "observers": []}
    nodes = [{"node_id": 1, "listeners": [{"name": "C", "host": "h", "port": 9093}]}]
    return write(RESPONSE, version, {"topics": [{"topic_name": "t", "partitions": [part]}], "nodes": nodes})


def test_the_request_is_the_same_in_all_versions() -> None:
    body = {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0}]}]}
    for version in range(3):
        assert write(REQUEST, version, body).hex() == "020274020000000000" + "0000"


def test_version_0_has_offsets_only() -> None:
    head = "0000 02 02 74 02 00000000 0000 00000001 00000002 0000000000000008"
    assert answer(0) == bytes.fromhex(f"{head} 02 00000001 0000000000000009 00 01 00 00 00")
    assert answer(1) == bytes.fromhex(f"{head} 02 00000001 0000000000000009 {TIMES} 00 01 00 00 00")


def test_version_2_has_messages_directory_ids_and_nodes() -> None:
    head = "0000 01 02 02 74 02 00000000 0000 01 00000001 00000002 0000000000000008"
    voter = "02 00000001" + "44" * 16 + f"0000000000000009 {TIMES} 00"
    assert answer(2) == bytes.fromhex(f"{head} {voter} 01 00 00  02 00000001 02 02 43 02 68 2385 00 00 00")


def test_what_older_versions_lack_reads_as_unknown() -> None:
    voter = read(RESPONSE, 0, answer(0))[0]["topics"][0]["partitions"][0]["current_voters"][0]
    assert voter == {
        "replica_id": 1,
        "replica_directory_id": bytes(16),
        "log_end_offset": 9,
        "last_fetch_timestamp": -1,
        "last_caught_up_timestamp": -1,
    }
