"""ApiVersions, byte by byte; version 5 has no twin to compare with.

Source: KIP-35, KIP-511, KIP-584, KAFKA-17011; Kafka's ApiVersionsRequest and ApiVersionsResponse definitions.
"""

from __future__ import annotations

from pykraft.protocol.messages.api_versions import REQUEST, RESPONSE
from tests.protocol.bodies import read, write

CLIENT = {"client_software_name": "py", "client_software_version": "1"}
API_KEYS = [{"api_key": 18, "min_version": 0, "max_version": 5}]
FEATURES = {
    "supported_features": [{"name": "kraft.version", "min_version": 0, "max_version": 1}],
    "finalized_features_epoch": 3,
    "finalized_features": [{"name": "kraft.version", "max_version_level": 1, "min_version_level": 0}],
    "zk_migration_ready": True,
}
NAME = "0e" + b"kraft.version".hex()


def test_requests_are_empty_below_version_3() -> None:
    for version in range(3):
        assert write(REQUEST, version, CLIENT) == b""
    assert write(REQUEST, 3, CLIENT) == bytes.fromhex("03 7079 02 31 00")


def test_version_5_says_whom_the_client_believes_to_talk_to() -> None:
    body = {**CLIENT, "cluster_id": "c", "node_id": 4}
    raw = bytes.fromhex("03 7079 02 31 02 63 00000004 00")
    assert write(REQUEST, 5, body) == raw
    assert read(REQUEST, 5, raw)[0] == body
    assert write(REQUEST, 4, body) == bytes.fromhex("03 7079 02 31 00")
    assert write(REQUEST, 5, CLIENT) == bytes.fromhex("03 7079 02 31 00 ffffffff 00")


def test_answers_grow_with_the_versions() -> None:
    body = {"api_keys": API_KEYS, **FEATURES}
    old = "0000 00000001 0012 0000 0005"
    assert write(RESPONSE, 0, body) == bytes.fromhex(old)
    assert write(RESPONSE, 1, body) == write(RESPONSE, 2, body) == bytes.fromhex(old + "00000000")
    new = (
        f"0000 02 0012 0000 0005 00 00000000 04 00 14 02 {NAME} 0000 0001 00"
        f"01 08 0000000000000003  02 14 02 {NAME} 0001 0000 00  03 01 01"
    )
    for version in (3, 4, 5):
        assert write(RESPONSE, version, body) == bytes.fromhex(new)
        assert read(RESPONSE, version, bytes.fromhex(new))[0] == {"error_code": 0, "throttle_time_ms": 0, **body}
