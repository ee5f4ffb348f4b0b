"""The tables of handlers: of each request, of each response, and of each event that is neither RPC, storage nor timer.

Two small handlers stand here, too: DescribeQuorum, and the progress of answers in transit. Before a deadline takes
effect, the host reports how far such answers have come. An answer that moves fast enough (`pykraft.core.answer_pace`)
extends the deadlines of its sender or receiver:

1. A follower waits on for the leader's answer, and does not campaign meanwhile.
2. A leader counts the voter that takes its answer for check quorum. That voter is alive, but it cannot fetch again
   before it has the whole answer. A large answer that has left may still be on its way.

Source: Kafka ``KafkaRaftClient.handleRequest`` and ``handleResponse``; KIP-595 §DescribeQuorum, KIP-836, KIP-853; ours
(ADR 036); KIP-595 §Leader progress timeout says what the deadlines are for.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pykraft.core import events, messages
from pykraft.core.departure import note_denial_of_leader
from pykraft.core.events import AnswersProgressed, RequestReceived, ResponseReceived, SendFailed
from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.messages import DescribedReplica, DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.core.on import download, quorum_epoch
from pykraft.core.on.corruption import on_corruption_found
from pykraft.core.on.early_campaign import on_leader_refused
from pykraft.core.on.fetch_request import note_sign_of_life, on_fetch_request
from pykraft.core.on.fetch_response import on_commit_heard, on_fetch_response
from pykraft.core.on.following import check_not_refused, hear_whole
from pykraft.core.on.proof import on_survey_unsupported
from pykraft.core.on.propose import on_appends_scheduled, on_proposed, on_resign_requested, on_shutdown_requested
from pykraft.core.on.read import on_read_requested
from pykraft.core.on.requests import reply
from pykraft.core.on.snapshot import on_snapshot_frozen, on_snapshots_expired
from pykraft.core.on.transfer import on_transfer_leadership_request, on_transfer_requested
from pykraft.core.on.vote import on_vote_request, on_vote_response, on_vote_unsupported
from pykraft.core.on.voters.add_voter import on_add_voter_request, on_remove_voter_request
from pykraft.core.on.voters.asked_levels import on_api_versions_response, on_asked_node_failed
from pykraft.core.on.voters.auto_join import on_change_voter_response, on_update_unsupported, on_update_voter_response
from pykraft.core.on.voters.update_voter import on_update_voter_request
from pykraft.core.on.voters.upgrade import on_update_features_request, on_upgrade_requested
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Instant, VoterSet


def on_answers_progressed(replica: Replica, event: AnswersProgressed, now: Instant) -> None:
    """Extend the deadlines of peers whose answers move fast enough."""
    # 1. Answers that arrive here.
    for arriving in event.arriving:
        moves = replica.connections.progressed(
            arriving.peer_id, arriving.correlation_id, arriving.received_bytes, arriving.size_bytes, now.mono_ms
        )
        state = replica.state
        if moves and isinstance(state, Follower) and arriving.peer_id == state.leader_id:
            replica.state = state.hears(now, replica.config.fetch_timeout_ms)
    leader = replica.state
    if not isinstance(leader, Leader):
        return
    # 2. Our answers that are on their way to voters.
    for leaving in event.leaving:
        for voter in leader.progress.voters.values():
            answer = voter.answer
            if answer is None or answer.request_id != leaving.request_id:
                continue
            if answer.pace.sent(leaving.sent_bytes, leaving.size_bytes, now.mono_ms):
                note_sign_of_life(replica, leader, voter.key, now)


HANDLERS: Mapping[type[events.Event], Callable[[Replica, Any, Instant], None]] = {
    events.AnswersProgressed: on_answers_progressed,
    events.ConnectionLost: quorum_epoch.on_connection_lost,
    events.Proposed: on_proposed,
    events.AppendsScheduled: on_appends_scheduled,
    events.CorruptionFound: on_corruption_found,
    events.DownloadAdvanced: download.on_download_advanced,
    events.DownloadFailed: download.on_download_failed,
    events.SnapshotFrozen: on_snapshot_frozen,
    events.SnapshotsExpired: on_snapshots_expired,
    events.ResignRequested: on_resign_requested,
    events.UpgradeRequested: on_upgrade_requested,
    events.TransferRequested: on_transfer_requested,
    events.ReadRequested: on_read_requested,
    events.CommitHeard: on_commit_heard,
    events.ShutdownRequested: on_shutdown_requested,
}


def on_local_event(replica: Replica, event: events.Event, now: Instant) -> None:
    HANDLERS[type(event)](replica, event, now)


def on_describe_quorum_request(
    replica: Replica, event: RequestReceived, message: DescribeQuorumRequest, now: Instant
) -> None:
    """List voters and observers with their fetch offsets; the leader itself counts as caught up now.

    Of a static voter the nodes have all endpoints that it told this leader, where Kafka's leader names one (ADR 082).

    Effects: Reply.
    Errors: NOT_LEADER_OR_FOLLOWER.
    Source: KIP-595 §DescribeQuorum, KIP-836; KafkaRaftClient.handleDescribeQuorumRequest.
    """
    leader = replica.state
    if not isinstance(leader, Leader):
        refused = DescribeQuorumResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, asked_as=message.asked_as)
        reply(replica, event.request_id, refused)
        return
    assert replica.local.key is not None
    # A leader that is removing itself is in neither list.
    voters = leader.progress.voters
    own = DescribedReplica(
        # At level 0 no voter has a directory id in the answer, as in Kafka.
        key=voters[leader.leader_id].key if leader.leader_id in voters else replica.local.key,
        log_end_offset=replica.log.end_offset,
        last_fetch_timestamp=now.wall_ms,
        last_caught_up_timestamp=now.wall_ms,
    )
    told = leader.volatile_voters.voters if replica.kraft_version == 0 else ()
    response = DescribeQuorumResponse(
        error=ErrorCode.NONE,
        asked_as=message.asked_as,
        leader_id=leader.leader_id,
        epoch=leader.epoch,
        high_watermark=leader.high_watermark,
        voters=tuple(own if node_id == leader.leader_id else _row(voters[node_id]) for node_id in sorted(voters)),
        observers=tuple(_row(observer) for observer in leader.progress.observers(now)),
        nodes=VoterSet.of((*replica.voters.voters, *told)).voters,
    )
    reply(replica, event.request_id, response)


def _row(seen: ReplicaProgress) -> DescribedReplica:
    return DescribedReplica(
        key=seen.key,
        log_end_offset=-1 if seen.end_offset is None else seen.end_offset,
        last_fetch_timestamp=seen.fetched_wall_ms,
        last_caught_up_timestamp=seen.caught_up_wall_ms,
    )


REQUEST_HANDLERS: Mapping[type[messages.Request], Callable[[Replica, RequestReceived, Any, Instant], None]] = {
    messages.VoteRequest: on_vote_request,
    messages.BeginQuorumEpochRequest: quorum_epoch.on_begin_quorum_epoch_request,
    messages.EndQuorumEpochRequest: quorum_epoch.on_end_quorum_epoch_request,
    messages.FetchRequest: on_fetch_request,
    messages.FetchSnapshotRequest: download.on_fetch_snapshot_request,
    messages.UpdateVoterRequest: on_update_voter_request,
    messages.DescribeQuorumRequest: on_describe_quorum_request,
    messages.AddVoterRequest: on_add_voter_request,
    messages.RemoveVoterRequest: on_remove_voter_request,
    messages.UpdateFeaturesRequest: on_update_features_request,
    messages.TransferLeadershipRequest: on_transfer_leadership_request,
}

RESPONSE_HANDLERS: Mapping[type[messages.Response], Callable[[Replica, ResponseReceived, Any, Instant], None]] = {
    messages.VoteResponse: on_vote_response,
    messages.BeginQuorumEpochResponse: quorum_epoch.on_begin_quorum_epoch_response,
    messages.EndQuorumEpochResponse: quorum_epoch.on_end_quorum_epoch_response,
    messages.FetchResponse: on_fetch_response,
    messages.FetchSnapshotResponse: download.on_fetch_snapshot_response,
    messages.UpdateVoterResponse: on_update_voter_response,
    messages.ChangeVoterResponse: on_change_voter_response,
    messages.ApiVersionsResponse: on_api_versions_response,
}


def on_request(replica: Replica, event: RequestReceived, now: Instant) -> None:
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
