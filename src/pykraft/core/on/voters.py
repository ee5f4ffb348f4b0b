"""AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter in a static quorum (``kraft.version`` 0).

Members come from the configuration, so additions and removals are refused with the reason. UpdateRaftVoter
is acknowledged: Java followers send it to every new leader and repeat it until they hear NONE.

Source: KIP-853 §AddRaftVoter, §RemoveRaftVoter, §UpdateRaftVoter; seen with Kafka 4.3.1.
"""

from __future__ import annotations

from pykraft.core.events import RequestReceived
from pykraft.core.messages import (
    AddVoterRequest,
    ChangeVoterResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.requests import leader_only_error, reply
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import ZERO_UUID, Instant, Listeners, ReplicaKey

STATIC_QUORUM = "the voters are static (kraft.version 0): change controller.quorum.voters on every node instead"


def on_change_voter_request(
    replica: Replica, event: RequestReceived, message: AddVoterRequest | RemoveVoterRequest, now: Instant
) -> None:
    """Refuse a change of membership: here, for now, or for good.

    Effects: Reply.
    Errors: NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST, REQUEST_TIMED_OUT while the high
    watermark is unknown, UNSUPPORTED_VERSION.
    Source: KIP-853; AddVoterHandler and RemoveVoterHandler.
    """
    del now
    listeners = message.listeners if isinstance(message, AddVoterRequest) else None
    error = leader_only_error(replica, replica.epoch) or _voter_error(replica, message.voter, listeners)
    text = None
    if not error and replica.high_watermark is None:
        error, text = ErrorCode.REQUEST_TIMED_OUT, "nothing of this epoch is committed yet: try again"
    if not error:
        error, text = ErrorCode.UNSUPPORTED_VERSION, STATIC_QUORUM
    reply(replica, event.request_id, ChangeVoterResponse(error=error, error_message=text))


def on_update_voter_request(
    replica: Replica, event: RequestReceived, message: UpdateVoterRequest, now: Instant
) -> None:
    """Acknowledge a voter's listeners and range; it counts as a sign of life.

    Effects: Reply.
    Errors: the leader-only ones, INVALID_REQUEST, REQUEST_TIMED_OUT, VOTER_NOT_FOUND.
    Source: KIP-853 §UpdateRaftVoter; UpdateVoterHandler.
    """
    error = leader_only_error(replica, message.epoch) or _voter_error(replica, message.voter, message.listeners)
    supported = message.kraft_version
    if not error and not 0 <= supported.min_version <= supported.max_version:
        error = ErrorCode.INVALID_REQUEST
    if not error and replica.high_watermark is None:
        error = ErrorCode.REQUEST_TIMED_OUT
    if not error and supported.min_version > replica.kraft_version:
        error = ErrorCode.INVALID_REQUEST
    if not error and replica.voters.get(message.voter.id) is None:
        error = ErrorCode.VOTER_NOT_FOUND
    if not error:
        assert isinstance(replica.state, Leader)
        note_sign_of_life(replica, replica.state, message.voter, now)
    response = UpdateVoterResponse(
        error=error,
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        listeners=replica.reply_listeners(event.listener),
    )
    reply(replica, event.request_id, response)


def _voter_error(replica: Replica, voter: ReplicaKey, listeners: Listeners | None) -> ErrorCode:
    is_known = voter.id >= 0 and voter.directory_id not in (None, ZERO_UUID)
    can_be_dialed = listeners is None or listeners.get(replica.local.default_listener) is not None
    return ErrorCode.NONE if is_known and can_be_dialed else ErrorCode.INVALID_REQUEST
