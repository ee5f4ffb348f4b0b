"""UnregisterController, byte by byte.

Source: KIP-1312; Kafka's UnregisterControllerRequest and UnregisterControllerResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.unregister_controller import REQUEST, RESPONSE
from tests.protocol.bodies import read, write


def test_the_request_names_the_controller() -> None:
    raw = bytes.fromhex("00000009 00")
    assert write(REQUEST, 0, {"controller_id": 9}) == raw
    assert read(REQUEST, 0, raw)[0] == {"controller_id": 9}


def test_the_answer_has_a_message() -> None:
    assert write(RESPONSE, 0, {"error_code": 136, "error_message": "no"}) == bytes.fromhex("00000000 0088 03 6e6f 00")
