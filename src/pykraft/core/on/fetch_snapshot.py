"""FetchSnapshot at the leader: serve bytes of a snapshot.

Source: KIP-630 §FetchSnapshot.
"""

from __future__ import annotations

from pykraft.core.effects import ReplySnapshot
from pykraft.core.events import RequestReceived
from pykraft.core.leader.serving import ANSWER_SIZE_BYTES_MAX, watch_answer
from pykraft.core.messages import NONE, FetchSnapshotRequest, FetchSnapshotResponse
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.requests import leader_only_error, reply
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import NO_IO, Instant


def on_fetch_snapshot_request(
    replica: Replica, event: RequestReceived, message: FetchSnapshotRequest, now: Instant
) -> None:
    """Let the host answer with bytes, or answer with an error, which Java does not send.

    Effects: ReplySnapshot, or Reply with an error.
    Errors: the leader-only ones, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE (the host checks the upper bound),
    INVALID_REQUEST for a negative number of bytes.
    Source: KIP-630 §FetchSnapshot; KafkaRaftClient.handleFetchSnapshotRequest.
    """
    error = leader_only_error(replica, message.epoch) or _error(replica, message)
    response = FetchSnapshotResponse(
        error=error,
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        snapshot_id=message.snapshot_id,
        position=0 if error else message.position,
        listeners=replica.reply_listeners(event.listener),
    )
    if error != NONE:
        reply(replica, event.request_id, response)
        return
    leader = replica.state
    assert isinstance(leader, Leader)
    if message.replica is not None:
        # A FetchSnapshot shows that the voter reaches this leader. It acknowledges nothing.
        note_sign_of_life(replica, leader, message.replica, now)
    asker = leader.progress.known(message.replica)
    asked_bytes = min(message.size_bytes_max, ANSWER_SIZE_BYTES_MAX)
    if asker is not None:
        asker.asks_again(asked_bytes, now.mono_ms)
    size_bytes_max, is_watched = watch_answer(replica, leader, message.replica, event.request_id, asked_bytes)
    effect = ReplySnapshot(
        after=NO_IO,
        request_id=event.request_id,
        message=response,
        size_bytes_max=size_bytes_max,
        is_watched=is_watched,
    )
    replica.outbox.send(effect, Relies.ELECTION)


def _error(replica: Replica, message: FetchSnapshotRequest) -> ErrorCode:
    if message.snapshot_id not in replica.log.snapshots:
        return ErrorCode.SNAPSHOT_NOT_FOUND
    if message.position < 0:
        return ErrorCode.POSITION_OUT_OF_RANGE
    return ErrorCode.NONE if message.size_bytes_max >= 0 else ErrorCode.INVALID_REQUEST
