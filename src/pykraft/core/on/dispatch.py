"""Two tables: the handler of each request and of each response.

Source: Kafka ``KafkaRaftClient.handleRequest`` and ``handleResponse``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.core import messages
from pykraft.core.departure import note_denial_of_leader
from pykraft.core.events import RequestReceived, ResponseReceived, SendFailed
from pykraft.core.on.begin_epoch import on_begin_quorum_epoch_request, on_begin_quorum_epoch_response
from pykraft.core.on.download import on_fetch_snapshot_response
from pykraft.core.on.early_campaign import on_leader_refused
from pykraft.core.on.end_epoch import on_end_quorum_epoch_request, on_end_quorum_epoch_response
from pykraft.core.on.fetch_request import on_fetch_request
from pykraft.core.on.fetch_response import on_fetch_response
from pykraft.core.on.fetch_snapshot import on_fetch_snapshot_request
from pykraft.core.on.following import check_not_refused, hear_whole
from pykraft.core.on.operators import OPERATOR_HANDLERS
from pykraft.core.on.proof import on_survey_unsupported
from pykraft.core.on.vote import on_vote_request, on_vote_response, on_vote_unsupported
from pykraft.core.on.voters.asked_levels import on_api_versions_response, on_asked_node_failed
from pykraft.core.on.voters.auto_join import on_change_voter_response, on_update_unsupported, on_update_voter_response
from pykraft.core.on.voters.update_voter import on_update_voter_request
from pykraft.core.replica import Replica
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Instant

REQUEST_HANDLERS: Mapping[type[messages.Request], Callable[[Replica, RequestReceived, Any, Instant], None]] = {
    messages.VoteRequest: on_vote_request,
    messages.BeginQuorumEpochRequest: on_begin_quorum_epoch_request,
    messages.EndQuorumEpochRequest: on_end_quorum_epoch_request,
    messages.FetchRequest: on_fetch_request,
    messages.FetchSnapshotRequest: on_fetch_snapshot_request,
    messages.UpdateVoterRequest: on_update_voter_request,
    **OPERATOR_HANDLERS,
}

RESPONSE_HANDLERS: Mapping[type[messages.Response], Callable[[Replica, ResponseReceived, Any, Instant], None]] = {
    messages.VoteResponse: on_vote_response,
    messages.BeginQuorumEpochResponse: on_begin_quorum_epoch_response,
    messages.EndQuorumEpochResponse: on_end_quorum_epoch_response,
    messages.FetchResponse: on_fetch_response,
    messages.FetchSnapshotResponse: on_fetch_snapshot_response,
    messages.UpdateVoterResponse: on_update_voter_response,
    messages.ChangeVoterResponse: on_change_voter_response,
    messages.ApiVersionsResponse: on_api_versions_response,
}


def on_request(replica: Replica, event: RequestReceived, now: Instant) -> None:
    """Pass a request to its handler."""
    REQUEST_HANDLERS[type(event.message)](replica, event, event.message, now)


def on_response(replica: Replica, event: ResponseReceived, now: Instant) -> None:
    """Pass a response to its handler; a top-level error is handled here.

    Errors: ProtocolError for a response that this replica never asks for, and for one of `following.REFUSALS`.
    """
    # The peer answers, so a process listens there again.
    replica.refused_by.discard(event.peer_id)
    replica.epoch_budget.answered(event.peer_id)
    hear_whole(replica, event.peer_id)
    if isinstance(event.message, messages.TopLevelError):
        check_not_refused(event.message.error)
        replica.connections.back_off(event.peer_id, now.mono_ms)
        _on_error(replica, event.peer_id, event.message.error, now)
        return
    handler = RESPONSE_HANDLERS.get(type(event.message))
    if handler is None:
        raise ProtocolError(f"a {type(event.message).__name__} answers no request of this node")
    handler(replica, event, event.message, now)


def on_send_failed(replica: Replica, event: SendFailed, now: Instant) -> None:
    """No response will come. The peer is backing off already."""
    if event.is_refused:
        # The peer's machine answers, and no process listens there.
        replica.refused_by.add(event.peer_id)
        on_leader_refused(replica, event.peer_id, now)
        note_denial_of_leader(replica, event.peer_id, now)
    _on_error(replica, event.peer_id, event.error, now)


def _on_error(replica: Replica, peer_id: int, error: int, now: Instant) -> None:
    """React to the two errors with a fallback; every other request is sent again after the back-off."""
    # If this peer was to become a voter, or has told a new endpoint, that change fails.
    on_asked_node_failed(replica, peer_id)
    # The peer may not know PreVote (then start the standard election) or UpdateRaftVoter (then do not repeat it).
    if error == ErrorCode.UNSUPPORTED_VERSION:
        on_vote_unsupported(replica, now)
        on_survey_unsupported(replica)
        on_update_unsupported(replica)
