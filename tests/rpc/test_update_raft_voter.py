"""UpdateRaftVoter."""

from dataclasses import replace

import pytest

from pykraft.core.messages import UpdateVoterRequest, UpdateVoterResponse
from pykraft.protocol.api import ApiKey
from pykraft.types import NO_LISTENERS, Epoch, NodeId, VersionRange
from tests.rpc.wires import KEY_3, LEADER, TWO_LISTENERS, replied, sent

KEY = ApiKey.UPDATE_RAFT_VOTER
REQUEST = UpdateVoterRequest(epoch=Epoch(4), voter=KEY_3, listeners=TWO_LISTENERS, kraft_version=VersionRange(0, 1))
RESPONSE = UpdateVoterResponse(error=0, epoch=Epoch(4), leader_id=NodeId(1), listeners=LEADER)


@pytest.mark.conformance(98, 100)
def test_requests() -> None:
    assert sent(REQUEST, 0) == REQUEST


@pytest.mark.conformance(98, 100)
@pytest.mark.parametrize(
    "message",
    [
        RESPONSE,
        replace(RESPONSE, listeners=NO_LISTENERS),
        replace(RESPONSE, error=6, leader_id=None, listeners=NO_LISTENERS),
    ],
)
def test_answers_with_and_without_leader_and_endpoint(message: UpdateVoterResponse) -> None:
    assert replied(KEY, 0, message) == message


@pytest.mark.conformance(98)
def test_an_endpoint_without_a_leader_is_not_told() -> None:
    assert replied(KEY, 0, replace(RESPONSE, leader_id=None)).listeners == NO_LISTENERS
