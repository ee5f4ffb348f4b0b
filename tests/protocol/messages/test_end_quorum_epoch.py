"""EndQuorumEpoch, byte by byte.

Source: KIP-595 §EndQuorumEpoch; Kafka's EndQuorumEpochRequest and EndQuorumEpochResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.end_quorum_epoch import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def request(**partition: object) -> dict[str, object]:
    part = {"partition_index": 0, "leader_id": 1, "leader_epoch": 6, **partition}
    return {"cluster_id": "c", "topics": [{"topic_name": "t", "partitions": [part]}]}


def test_version_0_names_successors_by_id() -> None:
    raw = bytes.fromhex("0001 63 00000001 0001 74 00000001 00000000 00000001 00000006 00000002 00000003 00000002")
    assert write(REQUEST, 0, request(preferred_successors=[3, 2])) == raw
    part = read(REQUEST, 0, raw)[0]["topics"][0]["partitions"][0]
    assert part["preferred_successors"] == [3, 2]
    assert part["preferred_candidates"] == []


def test_version_1_names_candidates_by_replica_key() -> None:
    raw = bytes.fromhex("02 63 02 02 74 02 00000000 00000001 00000006 02 00000003" + "44" * 16 + "00 00 00" + "01 00")
    candidates = [{"candidate_id": 3, "candidate_directory_id": b"D" * 16}]
    assert write(REQUEST, 1, request(preferred_candidates=candidates)) == raw
    part = read(REQUEST, 1, raw)[0]["topics"][0]["partitions"][0]
    assert part["preferred_candidates"] == candidates
    assert part["preferred_successors"] == []


def test_the_answer_is_that_of_begin_quorum_epoch() -> None:
    part = {"partition_index": 0, "error_code": 0, "leader_id": -1, "leader_epoch": 7}
    body = {"topics": [{"topic_name": "t", "partitions": [part]}]}
    assert write(RESPONSE, 1, body).hex() == "000002027402" + "000000000000ffffffff00000007" + "000000"
