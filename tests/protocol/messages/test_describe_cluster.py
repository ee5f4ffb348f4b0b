"""DescribeCluster, byte by byte.

Source: KIP-700, KIP-919, KIP-1073; Kafka's DescribeClusterRequest and DescribeClusterResponse definitions.
"""

from __future__ import annotations

import pytest

from pykraft.errors import ProtocolError
from pykraft.protocol.messages.describe_cluster import REQUEST, RESPONSE
from tests.protocol.bodies import write


def test_requests_of_all_versions() -> None:
    assert write(REQUEST, 0, {}) == bytes.fromhex("00 00")
    assert write(REQUEST, 1, {"endpoint_type": 2}) == bytes.fromhex("00 02 00")
    assert write(REQUEST, 2, {"endpoint_type": 2, "include_fenced_brokers": True}) == bytes.fromhex("00 02 01 00")
    with pytest.raises(ProtocolError, match="endpoint_type"):
        write(REQUEST, 0, {"endpoint_type": 2})


def test_an_answer_has_ports_of_32_bits() -> None:
    body = {
        "endpoint_type": 2,
        "cluster_id": "c",
        "controller_id": 1,
        "brokers": [{"broker_id": 1, "host": "h", "port": 9093}],
    }
    raw = bytes.fromhex("00000000 0000 00 02 02 63 00000001 02 00000001 02 68 00002385 00 00 00 80000000 00")
    assert write(RESPONSE, 2, body) == raw
