"""TransferLeadership.

Source: Raft dissertation §3.10.
"""

import pytest

from pykraft.core.messages import TransferLeadershipRequest, TransferLeadershipResponse
from pykraft.protocol.api import ApiKey
from pykraft.types import Epoch, NodeId
from tests.rpc.wires import replied, sent

KEY = ApiKey.TRANSFER_LEADERSHIP
REQUEST = TransferLeadershipRequest(target_id=NodeId(3), timeout_ms=1_000)


@pytest.mark.parametrize("leader_id", [None, NodeId(3)])
def test_requests_and_answers(leader_id: NodeId | None) -> None:
    assert sent(REQUEST, 0) == REQUEST
    message = TransferLeadershipResponse(error=7, error_message="no", leader_id=leader_id, epoch=Epoch(6))
    assert replied(KEY, 0, message) == message
