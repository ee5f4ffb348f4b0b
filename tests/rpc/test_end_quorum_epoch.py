"""EndQuorumEpoch through both versions."""

from dataclasses import replace

import pytest

from pykraft.core.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from pykraft.protocol.api import ApiKey
from pykraft.types import NO_LISTENERS, Epoch, NodeId, ReplicaKey
from tests.rpc.wires import KEY_2, KEY_3, LEADER, TWO_LISTENERS, replied, sent

KEY = ApiKey.END_QUORUM_EPOCH
REQUEST = EndQuorumEpochRequest(epoch=Epoch(6), leader_id=NodeId(1), successors=(KEY_3, KEY_2), listeners=TWO_LISTENERS)
RESPONSE = EndQuorumEpochResponse(error=0, epoch=Epoch(7), leader_id=NodeId(2), listeners=LEADER)


@pytest.mark.conformance(98, 100)
def test_version_1_names_successors_by_key() -> None:
    assert sent(REQUEST, 1) == REQUEST
    assert replied(KEY, 1, RESPONSE) == RESPONSE


@pytest.mark.conformance(98, 100)
def test_version_0_names_successors_by_id() -> None:
    successors = (ReplicaKey(NodeId(3)), ReplicaKey(NodeId(2)))
    assert sent(REQUEST, 0) == replace(REQUEST, successors=successors, listeners=NO_LISTENERS)
    assert replied(KEY, 0, RESPONSE) == replace(RESPONSE, listeners=NO_LISTENERS)


@pytest.mark.parametrize("version", [0, 1])
def test_there_may_be_no_successor(version: int) -> None:
    assert sent(replace(REQUEST, successors=()), version).successors == ()
