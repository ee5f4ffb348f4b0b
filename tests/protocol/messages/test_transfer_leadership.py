"""TransferLeadership, byte by byte.

Source: Raft dissertation §3.10.
"""

from __future__ import annotations

from pykraft.protocol.messages.transfer_leadership import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_the_request_names_the_target_and_how_long_to_wait() -> None:
    body = {"cluster_id": "c", "target_id": 3, "timeout_ms": 1_000}
    raw = bytes.fromhex("02 63 00000003 000003e8 00")
    assert write(REQUEST, 0, body) == raw
    assert read(REQUEST, 0, raw)[0] == body


def test_the_answer_names_the_leader() -> None:
    body = {"error_code": 7, "error_message": "no", "leader_id": 1, "leader_epoch": 6}
    assert write(RESPONSE, 0, body) == bytes.fromhex("0007 03 6e6f 00000001 00000006 00")
    assert write(RESPONSE, 0, {}) == bytes.fromhex("0000 00 ffffffff 00000000 00")
