"""UpdateFeatures, byte by byte.

Source: KIP-584, KIP-778; Kafka's UpdateFeaturesRequest and UpdateFeaturesResponse definitions.
"""

from __future__ import annotations

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.messages.update_features import REQUEST, RESPONSE
from tests.protocol.bodies import read, write

UPDATE = {"feature": "f", "max_version_level": 1}


@pytest.mark.parametrize(
    ("version", "raw"),
    [
        (0, "00000009 02 02 66 0001 00 00 00"),
        (1, "00000009 02 02 66 0001 01 00 00 00"),
        (2, "00000009 02 02 66 0001 01 00 00 00"),
    ],
)
def test_from_version_1_on_there_are_types_of_upgrades(version: int, raw: str) -> None:
    written = write(REQUEST, version, {"timeout_ms": 9, "feature_updates": [UPDATE]})
    assert written == bytes.fromhex(raw)
    assert read(REQUEST, version, written)[0]["feature_updates"][0]["max_version_level"] == 1


def test_version_0_cannot_ask_without_effect() -> None:
    with pytest.raises(ProtocolError):
        write(REQUEST, 0, {"validate_only": True})


def test_version_2_has_no_results_of_single_features() -> None:
    body = {"error_code": 95, "error_message": "no", "results": [{"feature": "f"}]}
    for version in (0, 1):
        assert write(RESPONSE, version, body) == bytes.fromhex("00000000 005f 03 6e6f 02 02 66 0000 00 00 00")
    assert write(RESPONSE, 2, body) == bytes.fromhex("00000000 005f 03 6e6f 00")
