"""A snapshot on its way from the leader, as the follower's state machine sees it (KIP-630).

1. A Fetch is answered with the id of a snapshot: `begin_download`. 2. The host says up to where it has it: the bytes
from there on are asked for, one request at a time. 3. What came goes to the host, which goes on at 2, or says that the
snapshot is frozen: it then takes the place of the log (`pykraft.core.on.snapshot`), and the next Fetch begins there.

A request that failed, in whatever way, ends the download here, and the next request is a Fetch again: its answer names
the snapshot that the leader has now. Java's leaders leave a FetchSnapshot unanswered that they cannot serve, so silence
means the same. What the host has is not lost: a download of the same snapshot from the same leader goes on with it.

Source: KIP-630 §FetchSnapshot; Kafka ``KafkaRaftClient.handleFetchSnapshotResponse``.
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.effects import AbandonDownload, AppendDownload, BeginDownload, Report
from pykraft.core.events import DownloadAdvanced, DownloadFailed, ResponseReceived
from pykraft.core.messages import FetchSnapshotResponse
from pykraft.core.on.contradiction import hear
from pykraft.core.on.following import settle_answer
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, SnapshotDownload
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Instant, OffsetAndEpoch


def begin_download(replica: Replica, snapshot_id: OffsetAndEpoch) -> None:
    """Fetch the snapshot that the leader names in the place of records.

    Effects: BeginDownload.
    Errors: ProtocolError for an id that is none, of a snapshot that has nothing new, or without what is committed.
    """
    state, log = replica.state, replica.log
    assert isinstance(state, Follower)
    is_id = snapshot_id.offset >= 0 and 0 <= snapshot_id.epoch <= replica.epoch
    if not is_id or not log.is_older_than(snapshot_id) or snapshot_id.offset < log.committed_end_offset:
        known = f"a log that ends at {log.end}, of which everything below {log.committed_end_offset} is committed"
        raise ProtocolError(f"it offers the snapshot {snapshot_id} for {known}")
    replica.state = replace(state, download=SnapshotDownload(snapshot_id=snapshot_id))
    replica.outbox.add(BeginDownload(snapshot_id=snapshot_id, leader_epoch=state.epoch))


def on_fetch_snapshot_response(
    replica: Replica, event: ResponseReceived, message: FetchSnapshotResponse, now: Instant
) -> None:
    """Pass the bytes on to the host; after an error go back to Fetch.

    Effects: AppendDownload; AbandonDownload when the leader's snapshot is shorter than what was fetched of it, and when
    it has no such snapshot any more: then nobody can go on with the part.
    Errors: ProtocolError for bytes of another snapshot or another position, for none, and for more than there are.
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
        replica.outbox.add(AbandonDownload(snapshot_id=download.snapshot_id))
    else:
        return
    replica.state = state
    hear(replica, now, has_progress=is_settled)


def on_download_advanced(replica: Replica, event: DownloadAdvanced, now: Instant) -> None:
    """Ask for what follows, when the step ends; the time that the disk took is not the leader's fault."""
    state = replica.state
    if isinstance(state, Follower) and state.download is not None and state.download.snapshot_id == event.snapshot_id:
        download = SnapshotDownload(snapshot_id=event.snapshot_id, position=event.position)
        replica.state = replace(state, download=download).heard(now, replica.config.fetch_timeout_ms)


def on_download_failed(replica: Replica, event: DownloadFailed, now: Instant) -> None:
    """Go back to Fetch, after a pause.

    Effects: Report.
    """
    replica.outbox.add(Report(text=f"the snapshot {event.snapshot_id} was not installed: {event.reason}"))
    state = replica.state
    if isinstance(state, Follower) and state.download is not None and state.download.snapshot_id == event.snapshot_id:
        replica.state = replace(state, download=None)
        replica.connections.back_off(state.leader_id, now.mono_ms)


def _check(download: SnapshotDownload, message: FetchSnapshotResponse) -> None:
    """Errors: ProtocolError for bytes that were not asked for."""
    came = f"{message.received_bytes} bytes at {message.position} of {message.size_bytes} of {message.snapshot_id}"
    is_asked = message.snapshot_id == download.snapshot_id and message.position == download.position
    if not is_asked or not 0 < message.received_bytes <= message.size_bytes - message.position:
        raise ProtocolError(f"{came} came of a snapshot, asked was for {download.position} of {download.snapshot_id}")
