"""FetchSnapshot at the leader: it has no snapshots to give yet, and says so.

Source: KIP-630 §FetchSnapshot.
"""

from __future__ import annotations

from pykraft.core.events import RequestReceived
from pykraft.core.messages import FetchSnapshotRequest, FetchSnapshotResponse
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.requests import leader_only_error, reply
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import Instant


def on_fetch_snapshot_request(
    replica: Replica, event: RequestReceived, message: FetchSnapshotRequest, now: Instant
) -> None:
    """Answer SNAPSHOT_NOT_FOUND, or why this replica is not the one to ask.

    Java leaves such answers unsent; a requester that waits for its timeout is not served by that.

    Effects: Reply.
    Errors: the leader-only ones, SNAPSHOT_NOT_FOUND.
    Source: KIP-630 §FetchSnapshot; KafkaRaftClient.handleFetchSnapshotRequest.
    """
    error = leader_only_error(replica, message.epoch)
    if not error:
        error = ErrorCode.SNAPSHOT_NOT_FOUND
        assert isinstance(replica.state, Leader)
        if message.replica is not None:
            note_sign_of_life(replica, replica.state, message.replica, now)
    response = FetchSnapshotResponse(
        error=error,
        epoch=replica.epoch,
        leader_id=replica.leader_id,
        snapshot_id=message.snapshot_id,
        listeners=replica.reply_listeners(event.listener),
    )
    reply(replica, event.request_id, response)
