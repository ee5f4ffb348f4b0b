"""Produce, byte by byte: a batch goes in, the offset of its first record and the leader come out.

Source: Kafka's ProduceRequest and ProduceResponse definitions; KIP-951.
"""

from __future__ import annotations

from pykraft.protocol.messages.produce import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_the_request_holds_one_batch() -> None:
    topic = {"name": "t", "partition_data": [{"index": 0, "records": b"ab"}]}
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 9, "topic_data": [topic]}
    raw = bytes.fromhex("00 ffff 00000009 02 02 74 02 00000000 03 6162 00 00 00")
    assert write(REQUEST, 12, body) == raw
    found, _ = read(REQUEST, 12, raw)
    assert bytes(found["topic_data"][0]["partition_data"][0]["records"]) == b"ab"


def test_the_answer_names_the_leader_from_version_10_on() -> None:
    partition = {
        "index": 0,
        "error_code": 6,
        "base_offset": -1,
        "error_message": "no",
        "current_leader": {"leader_id": 2, "leader_epoch": 5},
    }
    node = {"node_id": 2, "host": "h", "port": 9, "rack": None}
    body = {"responses": [{"name": "t", "partition_responses": [partition]}], "node_endpoints": [node]}
    new, _ = read(RESPONSE, 10, write(RESPONSE, 10, body))
    assert new["responses"][0]["partition_responses"][0]["current_leader"] == {"leader_id": 2, "leader_epoch": 5}
    assert new["node_endpoints"] == [node]
    old, _ = read(RESPONSE, 9, write(RESPONSE, 9, body))
    assert old["node_endpoints"] == []
    assert old["responses"][0]["partition_responses"][0]["error_message"] == "no"
