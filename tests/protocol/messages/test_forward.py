"""Forward, byte by byte.

Source: ours (ADR 070).
"""

from __future__ import annotations

from pykraft.protocol.messages.forward import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_the_request_has_the_records() -> None:
    body = {"cluster_id": "c", "records": b"hi"}
    raw = bytes.fromhex("02 63 03 6869 00")
    assert write(REQUEST, 0, body) == raw
    assert read(REQUEST, 0, raw)[0] == body


def test_the_answer_has_an_offset_and_names_the_leader() -> None:
    body = {"error_code": 7, "error_message": "no", "leader_id": 1, "leader_epoch": 6, "offset": 9}
    assert write(RESPONSE, 0, body) == bytes.fromhex("0007 03 6e6f 00000001 00000006 0000000000000009 00")
    assert read(RESPONSE, 0, write(RESPONSE, 0, body))[0] == body
