"""The answer to the leader's ApiVersions, whether an addition or an update waits for it."""

from collections.abc import Sequence

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply
from pykraft.core.events import SendFailed
from pykraft.core.raft import on_send_failed
from pykraft.core.replica import Replica
from pykraft.errors import ErrorCode
from pykraft.types import Offset, VersionRange
from tests.core.on.voters.test_voter_changes import dynamic, leading
from tests.core.replicas import NOW, answer, ask, done, key, replica, sent
from tests.core.said import add_voter, update_voter

BOTH = VersionRange(0, 1)
REQUESTS = [pytest.param(add_voter(), 4, id="added"), pytest.param(update_voter(), 2, id="updated")]


def asked(request: messages.Request, node_id: int) -> Replica:
    """A leader that waits for this node."""
    made = dynamic()
    leading(made).progress.of(key(4)).fetched(Offset(10), Offset(10), NOW)
    assert sent(ask(made, request)) == [(node_id, "ApiVersionsRequest")]
    return made


def errors(found: Sequence[Effect]) -> list[int]:
    replies = [effect.message for effect in found if isinstance(effect, Reply)]
    kinds = messages.ChangeVoterResponse | messages.UpdateVoterResponse
    return [message.error for message in replies if isinstance(message, kinds)]


@pytest.mark.conformance(131, 134)
@pytest.mark.parametrize(("request_", "node_id"), REQUESTS)
@pytest.mark.parametrize(
    ("error", "levels", "expected"),
    [
        (35, BOTH, ErrorCode.REQUEST_TIMED_OUT),
        (0, None, ErrorCode.INVALID_REQUEST),
        (0, VersionRange(0, 0), ErrorCode.INVALID_REQUEST),
        (0, VersionRange(2, 3), ErrorCode.INVALID_REQUEST),
    ],
)
def test_without_the_level_in_force_nothing_is_written(
    request_: messages.Request, node_id: int, error: int, levels: VersionRange | None, expected: ErrorCode
) -> None:
    made = asked(request_, node_id)
    before = made.voters
    found = answer(made, messages.ApiVersionsResponse(error=error, kraft_version=levels), peer_id=node_id)
    assert errors(found) == [expected]
    assert made.voters == before
    assert leading(made).change is None
    assert made.connections.is_backing_off(node_id) == bool(error)


@pytest.mark.conformance(131, 134)
@pytest.mark.parametrize(("request_", "node_id"), REQUESTS)
def test_what_another_node_tells_is_not_the_answer(request_: messages.Request, node_id: int) -> None:
    made = asked(request_, node_id)
    before = made.voters
    assert answer(made, messages.ApiVersionsResponse(error=0, kraft_version=BOTH), peer_id=3) == []
    on_send_failed(made, SendFailed(peer_id=3, correlation_id=0, error=8), NOW)
    assert done(made) == []
    assert made.voters == before
    assert leading(made).change is not None


@pytest.mark.conformance(131, 134)
@pytest.mark.parametrize(("request_", "node_id"), REQUESTS)
def test_a_node_that_cannot_be_reached(request_: messages.Request, node_id: int) -> None:
    made = asked(request_, node_id)
    on_send_failed(made, SendFailed(peer_id=node_id, correlation_id=0, error=8), NOW)
    assert errors(done(made)) == [ErrorCode.REQUEST_TIMED_OUT]
    assert leading(made).change is None


@pytest.mark.parametrize(("request_", "node_id"), REQUESTS)
def test_a_second_answer_changes_nothing(request_: messages.Request, node_id: int) -> None:
    made = asked(request_, node_id)
    told = messages.ApiVersionsResponse(error=0, kraft_version=BOTH)
    answer(made, told, peer_id=node_id)
    before = made.voter_history.voters_offset
    assert answer(made, told, peer_id=node_id) == []
    assert made.voter_history.voters_offset == before == 10


def test_who_does_not_lead_has_asked_nobody() -> None:
    assert answer(replica(), messages.ApiVersionsResponse(error=0, kraft_version=BOTH), peer_id=4) == []
