"""RemoveRaftVoter."""

import pytest

from pykraft.core.messages import ChangeVoterResponse, RemoveVoterRequest
from pykraft.protocol.api import ApiKey
from tests.rpc.wires import KEY_3, replied, sent

KEY = ApiKey.REMOVE_RAFT_VOTER
REQUEST = RemoveVoterRequest(voter=KEY_3)


@pytest.mark.conformance(100)
def test_requests_and_answers() -> None:
    assert sent(REQUEST, 0) == REQUEST
    message = ChangeVoterResponse(error=127, error_message="no")
    assert replied(KEY, 0, message) == message
