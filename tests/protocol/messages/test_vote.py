"""Vote, byte by byte.

Source: KIP-595 §Vote; Kafka's VoteRequest and VoteResponse definitions.
"""

from __future__ import annotations

import pytest

from pykraft.protocol.messages.vote import REQUEST, RESPONSE
from tests.protocol.bodies import read, write

PARTITION = {
    "partition_index": 0,
    "replica_epoch": 5,
    "replica_id": 2,
    "replica_directory_id": b"R" * 16,
    "voter_directory_id": b"V" * 16,
    "last_offset_epoch": 4,
    "last_offset": 9,
    "pre_vote": True,
}


def request(partition: dict[str, object], voter_id: int = 3) -> dict[str, object]:
    topics = [{"topic_name": "t", "partitions": [partition]}]
    return {"cluster_id": "c", "voter_id": voter_id, "topics": topics}


def test_version_2_has_everything() -> None:
    raw = bytes.fromhex(
        "02 63  00000003  02 02 74  02 00000000 00000005 00000002"
        f"{b'R'.hex() * 16} {b'V'.hex() * 16} 00000004 0000000000000009 01 00  00 00"
    )
    assert write(REQUEST, 2, request(PARTITION)) == raw
    assert read(REQUEST, 2, raw)[0] == request(PARTITION)


def test_version_1_lacks_pre_vote_and_version_0_the_directory_ids() -> None:
    standard = {**PARTITION, "pre_vote": False}
    assert len(write(REQUEST, 2, request(standard))) - len(write(REQUEST, 1, request(standard))) == 1
    raw = bytes.fromhex("02 63  02 02 74  02 00000000 00000005 00000002 00000004 0000000000000009 00  00 00")
    assert write(REQUEST, 0, request(standard)) == raw
    found = {**standard, "replica_directory_id": bytes(16), "voter_directory_id": bytes(16)}
    assert read(REQUEST, 0, raw)[0] == request(found, voter_id=-1)


@pytest.mark.parametrize("version", [1, 2])
def test_an_answer_names_the_leaders_endpoint_with_a_16_bit_port(version: int) -> None:
    body = {"node_endpoints": [{"node_id": 1, "host": "h", "port": 65535}]}
    raw = bytes.fromhex("0000 01  01 00 0a 02 00000001 02 68 ffff 00")
    assert write(RESPONSE, version, body) == raw


def test_an_answer_of_a_partition() -> None:
    part = {"partition_index": 0, "error_code": 74, "leader_id": -1, "leader_epoch": 8, "vote_granted": True}
    raw = bytes.fromhex("0000 02 02 74 02 00000000 004a ffffffff 00000008 01 00 00 00")
    assert write(RESPONSE, 0, {"topics": [{"topic_name": "t", "partitions": [part]}]}) == raw
