"""RemoveRaftVoter, byte by byte.

Source: KIP-853 §RemoveRaftVoter; Kafka's RemoveRaftVoterRequest and RemoveRaftVoterResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.remove_raft_voter import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_the_request_names_the_replica_key() -> None:
    body = {"cluster_id": "c", "voter_id": 9, "voter_directory_id": b"D" * 16}
    raw = bytes.fromhex("02 63 00000009" + "44" * 16 + "00")
    assert write(REQUEST, 0, body) == raw
    assert read(REQUEST, 0, raw)[0] == body


def test_the_answer_has_a_message() -> None:
    assert write(RESPONSE, 0, {"error_code": 127, "error_message": "no"}) == bytes.fromhex("00000000 007f 03 6e6f 00")
