"""UpdateRaftVoter, byte by byte.

Source: KIP-853 §UpdateRaftVoter; Kafka's UpdateRaftVoterRequest and UpdateRaftVoterResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.update_raft_voter import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_the_request_tells_listeners_and_range() -> None:
    body = {
        "cluster_id": "c",
        "current_leader_epoch": 4,
        "voter_id": 9,
        "voter_directory_id": b"D" * 16,
        "listeners": [{"name": "C", "host": "h", "port": 9093}],
        "kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1},
    }
    raw = bytes.fromhex("02 63 00000004 00000009" + "44" * 16 + "02 02 43 02 68 2385 00 0000 0001 00 00")
    assert write(REQUEST, 0, body) == raw
    assert read(REQUEST, 0, raw)[0] == body


def test_the_answer_names_the_leader_with_a_32_bit_port() -> None:
    leader = {"leader_id": 1, "leader_epoch": 5, "host": "h", "port": 70000}
    raw = bytes.fromhex("00000000 0000 01 00 0f 00000001 00000005 02 68 00011170 00")
    assert write(RESPONSE, 0, {"current_leader": leader}) == raw


def test_an_absent_leader_is_unknown() -> None:
    raw = bytes.fromhex("00000000 0006 00")
    assert write(RESPONSE, 0, {"error_code": 6}) == raw
    found = read(RESPONSE, 0, raw)[0]["current_leader"]
    assert found == {"leader_id": -1, "leader_epoch": -1, "host": "", "port": 0}
