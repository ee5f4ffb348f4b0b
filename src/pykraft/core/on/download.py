"""FetchSnapshot: the leader serves bytes of a snapshot, and a follower downloads it (KIP-630).

1. A Fetch response names a snapshot: `begin_download`.
2. The host reports how much of it is stored. The follower asks for the bytes from there on, one request at a time.
3. The host stores the bytes that arrive. It then continues at 2, or reports that the snapshot is frozen. A frozen
   snapshot replaces the log (`pykraft.core.on.snapshot`), and the next Fetch starts at its end.

Any failed request ends the download here, and the next request is a Fetch again: its response names the leader's
current snapshot. Java leaders do not answer a FetchSnapshot that they cannot serve, so a timeout is treated the same.
The host keeps the bytes it has: a later download of the same snapshot from the same leader continues with them.

Source: KIP-630 §FetchSnapshot; Kafka ``KafkaRaftClient.handleFetchSnapshotResponse``.
"""

from dataclasses import replace

from pykraft.core.effects import AbandonDownload, AppendDownload, BeginDownload, ReplySnapshot, Report
from pykraft.core.events import DownloadAdvanced, DownloadFailed, RequestReceived, ResponseReceived
from pykraft.core.leader.serving import ANSWER_SIZE_BYTES_MAX, watch_answer
from pykraft.core.messages import NONE, FetchSnapshotRequest, FetchSnapshotResponse
from pykraft.core.on.contradiction import note_response
from pykraft.core.on.fetch_request import note_sign_of_life
from pykraft.core.on.following import settle_answer
from pykraft.core.on.requests import leader_only_error, reply
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, SnapshotDownload
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import NO_IO, Instant, OffsetAndEpoch


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
        after=NO_IO, request_id=event.request_id, message=response, size_bytes_max=size_bytes_max, is_watched=is_watched
    )
    replica.outbox.send(effect, Relies.ELECTION)


def _error(replica: Replica, message: FetchSnapshotRequest) -> ErrorCode:
    if message.snapshot_id not in replica.log.snapshots:
        return ErrorCode.SNAPSHOT_NOT_FOUND
    if message.position < 0:
        return ErrorCode.POSITION_OUT_OF_RANGE
    return ErrorCode.NONE if message.size_bytes_max >= 0 else ErrorCode.INVALID_REQUEST


def begin_download(replica: Replica, snapshot_id: OffsetAndEpoch) -> None:
    """Step 1: download the snapshot that the leader names instead of records.

    Effects: BeginDownload.
    Errors: ProtocolError for a malformed snapshot id, and for a snapshot that has nothing new or lacks committed
    records.
    """
    state, log = replica.state, replica.log
    assert isinstance(state, Follower)
    is_id = snapshot_id.offset >= 0 and 0 <= snapshot_id.epoch <= replica.epoch
    if not is_id or not log.is_older_than(snapshot_id) or log.lacks_committed(snapshot_id):
        known = f"a log that ends at {log.end}, of which everything below {log.committed_end_offset} is committed"
        raise ProtocolError(f"it offers the snapshot {snapshot_id} for {known}")
    replica.state = replace(state, download=SnapshotDownload(snapshot_id=snapshot_id))
    replica.outbox.add(BeginDownload(snapshot_id=snapshot_id, leader_epoch=state.epoch))


def on_fetch_snapshot_response(
    replica: Replica, event: ResponseReceived, message: FetchSnapshotResponse, now: Instant
) -> None:
    """Step 3: pass the bytes to the host; after an error go back to Fetch.

    Effects: AppendDownload; AbandonDownload when the leader's snapshot is shorter than what was fetched of it, or when
    the leader no longer has it.
    Errors: ProtocolError for bytes of another snapshot or position, for an empty response, and for more bytes than the
    snapshot has.
    Source: KIP-630 §FetchSnapshot; KafkaRaftClient.handleFetchSnapshotResponse.
    """
    is_settled = settle_answer(replica, event.peer_id, message, now)
    state = replica.state
    if not isinstance(state, Follower) or state.download is None or message.epoch != state.epoch:
        return
    download = state.download
    if is_settled:
        _check(download, message)
        is_last = message.position + message.received_bytes == message.size_bytes
        effect = AppendDownload(snapshot_id=download.snapshot_id, position=message.position, is_last=is_last)
        replica.outbox.add(effect)
        state = replace(state, download=SnapshotDownload(snapshot_id=download.snapshot_id))
    elif message.error in (ErrorCode.SNAPSHOT_NOT_FOUND, ErrorCode.POSITION_OUT_OF_RANGE):
        state = replace(state, download=None)
        # Nothing can complete the part that the host has.
        replica.outbox.add(AbandonDownload(snapshot_id=download.snapshot_id))
    else:
        return
    replica.state = state
    note_response(replica, now, has_progress=is_settled)


def on_download_advanced(replica: Replica, event: DownloadAdvanced, now: Instant) -> None:
    """Step 2: ask for the next bytes when this step ends."""
    state = replica.state
    # The next leader may offer the same snapshot. Its bytes go into another file, so where the one of the former leader
    # ends says nothing.
    if not isinstance(state, Follower) or event.leader_epoch != state.epoch:
        return
    if state.download is not None and state.download.snapshot_id == event.snapshot_id:
        download = SnapshotDownload(snapshot_id=event.snapshot_id, position=event.position)
        # The time that our disk took is not the leader's fault, so restart the fetch timeout.
        replica.state = replace(state, download=download).heard(now, replica.config.fetch_timeout_ms)


def on_download_failed(replica: Replica, event: DownloadFailed, now: Instant) -> None:
    """Go back to Fetch after a back-off.

    Effects: Report.
    """
    replica.outbox.add(Report(text=f"the snapshot {event.snapshot_id} was not installed: {event.reason}"))
    state = replica.state
    if isinstance(state, Follower) and state.download is not None and state.download.snapshot_id == event.snapshot_id:
        replica.state = replace(state, download=None)
        replica.connections.back_off(state.leader_id, now.mono_ms)


def _check(download: SnapshotDownload, message: FetchSnapshotResponse) -> None:
    """Reject bytes that were not asked for.

    Errors: ProtocolError.
    """
    came = f"{message.received_bytes} bytes at {message.position} of {message.size_bytes} of {message.snapshot_id}"
    is_asked = message.snapshot_id == download.snapshot_id and message.position == download.position
    if not is_asked or not 0 < message.received_bytes <= message.size_bytes - message.position:
        raise ProtocolError(f"received {came}, requested {download.position} of {download.snapshot_id}")
