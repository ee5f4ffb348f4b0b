"""AddRaftVoter, byte by byte.

Source: KIP-853 §AddRaftVoter; Kafka's AddRaftVoterRequest and AddRaftVoterResponse definitions.
"""

from __future__ import annotations

import pytest

from pykraft.protocol.messages.add_raft_voter import REQUEST, RESPONSE
from tests.protocol.bodies import read, write

BODY = {
    "cluster_id": None,
    "timeout_ms": 1000,
    "voter_id": 9,
    "voter_directory_id": b"D" * 16,
    "listeners": [{"name": "C", "host": "h", "port": 9093}],
    "ack_when_committed": True,
}
RAW = bytes.fromhex("00 000003e8 00000009" + "44" * 16 + "02 02 43 02 68 2385 00")


def test_version_0_always_waits_for_the_commit() -> None:
    assert write(REQUEST, 0, BODY) == RAW + b"\0"
    assert read(REQUEST, 0, RAW + b"\0")[0] == BODY


@pytest.mark.parametrize("waits", [True, False])
def test_version_1_says_whether_to_wait(waits: bool) -> None:
    body = {**BODY, "ack_when_committed": waits}
    assert write(REQUEST, 1, body) == RAW + bytes([waits, 0])
    assert read(REQUEST, 1, RAW + bytes([waits, 0]))[0] == body


def test_the_answer_has_a_message() -> None:
    for version in (0, 1):
        raw = write(RESPONSE, version, {"error_code": 126, "error_message": "no"})
        assert raw == bytes.fromhex("00000000 007e 03 6e6f 00")
        assert write(RESPONSE, version, {}) == bytes.fromhex("00000000 0000 00 00")
