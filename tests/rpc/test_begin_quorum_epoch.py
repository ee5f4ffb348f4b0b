"""BeginQuorumEpoch through both versions."""

from dataclasses import replace

import pytest

from pykraft.core.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from pykraft.protocol.api import ApiKey
from pykraft.types import NO_LISTENERS, Endpoint, Epoch, Listeners, NodeId
from tests.rpc.wires import KEY_3, LEADER, TWO_LISTENERS, asked, body_of, replied, sent

KEY = ApiKey.BEGIN_QUORUM_EPOCH
REQUEST = BeginQuorumEpochRequest(epoch=Epoch(6), leader_id=NodeId(1), voter=KEY_3, listeners=TWO_LISTENERS)
RESPONSE = BeginQuorumEpochResponse(error=125, epoch=Epoch(6), leader_id=NodeId(1), listeners=LEADER)


@pytest.mark.conformance(98, 100)
def test_version_1_carries_everything() -> None:
    assert sent(REQUEST, 1) == REQUEST
    assert replied(KEY, 1, RESPONSE) == RESPONSE


@pytest.mark.conformance(98, 100)
def test_version_0_carries_neither_voter_nor_endpoints() -> None:
    assert sent(REQUEST, 0) == replace(REQUEST, voter=None, listeners=NO_LISTENERS)
    assert replied(KEY, 0, RESPONSE) == replace(RESPONSE, listeners=NO_LISTENERS)


@pytest.mark.conformance(98)
def test_listener_names_become_upper_case_and_the_last_of_two_counts() -> None:
    endpoints = [
        {"name": "controller", "host": "a", "port": 1},
        {"name": "Controller", "host": "b", "port": 2},
        {"name": "SILENT", "host": "", "port": 3},
    ]
    found = asked(KEY, 1, {**body_of(REQUEST, 1), "leader_endpoints": endpoints})
    assert isinstance(found, BeginQuorumEpochRequest)
    assert found.listeners == Listeners((("CONTROLLER", Endpoint("b", 2)),))
