"""AddRaftVoter through both versions."""

from dataclasses import replace

import pytest

from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import ApiKey
from pykraft.types import NodeId, ReplicaKey
from tests.rpc.wires import KEY_3, TWO_LISTENERS, replied, sent

KEY = ApiKey.ADD_RAFT_VOTER
REQUEST = AddVoterRequest(voter=KEY_3, listeners=TWO_LISTENERS, timeout_ms=1000)


@pytest.mark.conformance(98, 100)
def test_both_versions() -> None:
    assert sent(REQUEST, 0) == REQUEST
    assert sent(replace(REQUEST, ack_when_committed=False), 1) == replace(REQUEST, ack_when_committed=False)


@pytest.mark.conformance(100)
def test_version_0_cannot_ask_for_an_early_answer() -> None:
    with pytest.raises(ProtocolError) as caught:
        sent(replace(REQUEST, ack_when_committed=False), 0)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_key_without_directory_or_with_a_negative_id_reaches_the_core() -> None:
    for voter in (ReplicaKey(NodeId(3)), ReplicaKey(NodeId(-1))):
        assert sent(replace(REQUEST, voter=voter), 1).voter == voter


@pytest.mark.conformance(100)
@pytest.mark.parametrize("message", [ChangeVoterResponse(error=0), ChangeVoterResponse(error=126, error_message="no")])
def test_answers(message: ChangeVoterResponse) -> None:
    assert replied(KEY, 1, message) == message
