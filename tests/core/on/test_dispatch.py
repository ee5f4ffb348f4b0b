"""The handler tables are complete, and a top-level error reaches no handler.

Source: Kafka ``KafkaRaftClient.handleRequest`` and ``handleResponse``.
"""

from __future__ import annotations

from typing import get_args

import pytest

from pykraft.core import messages
from pykraft.core.events import SendFailed, ShutdownRequested
from pykraft.core.on.dispatch import REQUEST_HANDLERS, RESPONSE_HANDLERS, on_send_failed
from pykraft.core.on.propose import on_shutdown_requested
from pykraft.core.state import Candidate, Prospective
from pykraft.errors import ErrorCode, ProtocolError
from tests.core.replicas import NOW, answer, prospective, replica


@pytest.mark.conformance("H56")
def test_every_request_has_a_handler() -> None:
    answered_by_the_host = {messages.ApiVersionsRequest}
    assert set(REQUEST_HANDLERS) == set(get_args(messages.Request)) - answered_by_the_host


def test_an_answer_to_what_is_never_asked_is_the_peers_fault() -> None:
    never_asked = set(get_args(messages.Response)) - set(RESPONSE_HANDLERS) - {messages.TopLevelError}
    assert messages.DescribeQuorumResponse in never_asked
    with pytest.raises(ProtocolError, match="DescribeQuorumResponse"):
        answer(replica(), messages.DescribeQuorumResponse(error=0))


@pytest.mark.parametrize(
    ("error", "falls_back"),
    [(ErrorCode.UNSUPPORTED_VERSION, True), (ErrorCode.BROKER_NOT_AVAILABLE, False), (199, False)],
)
def test_only_missing_support_for_pre_votes_says_something(error: int, falls_back: bool) -> None:
    told = replica(prospective())
    answer(told, messages.TopLevelError(error=error))
    assert isinstance(told.state, Candidate if falls_back else Prospective)
    assert told.connections.is_backing_off(2) != falls_back
    failed = replica(prospective())
    on_send_failed(failed, SendFailed(peer_id=2, correlation_id=0, error=error), NOW)
    assert isinstance(failed.state, Candidate if falls_back else Prospective)


@pytest.mark.parametrize("is_refused", [False, True])
def test_peers_that_refuse_connections_are_noted_until_they_answer_or_a_shutdown_begins(is_refused: bool) -> None:
    made = replica(prospective())
    failure = SendFailed(peer_id=2, correlation_id=0, error=ErrorCode.BROKER_NOT_AVAILABLE, is_refused=is_refused)
    on_send_failed(made, failure, NOW)
    assert made.refused_by == ({2} if is_refused else set())
    answer(made, messages.TopLevelError(error=ErrorCode.BROKER_NOT_AVAILABLE))
    assert made.refused_by == set()
    made.refused_by.add(3)
    on_shutdown_requested(made, ShutdownRequested(timeout_ms=9), NOW)
    assert made.refused_by == set()
