"""How snapshots change the log: a frozen snapshot covers the log's beginning, or replaces the whole log (KIP-630).

A snapshot holds committed records only. So a replica with a shorter log may install it, whatever its state is by then.
A leader never does: it was elected with all committed records.

Source: KIP-630; Kafka ``KafkaRaftLog.truncateToLatestSnapshot`` and ``deleteBeforeSnapshot``.
"""

from dataclasses import replace

from pykraft.core.effects import InstallSnapshot, MoveLogStart, NotifyHighWatermark, Report
from pykraft.core.events import SnapshotFrozen, SnapshotsExpired
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader, Resigned
from pykraft.types import Instant, Offset


def on_snapshot_frozen(replica: Replica, event: SnapshotFrozen, _now: Instant) -> None:
    """Remember a snapshot of records that the log holds, or install one that holds more.

    Effects: InstallSnapshot and NotifyHighWatermark, when the log is replaced.
    """
    log, snapshot_id = replica.log, event.snapshot_id
    if log.holds(snapshot_id):
        log.add_snapshot(snapshot_id)
        replica.voter_history.forget_before(Offset(snapshot_id.offset - 1))
    elif _may_install(replica, event):
        _install(replica, event)
    else:
        replica.outbox.add(Report(text=f"the snapshot {snapshot_id} does not extend the log, which ends at {log.end}"))
    _end_download(replica, event)


def on_snapshots_expired(replica: Replica, event: SnapshotsExpired, _now: Instant) -> None:
    """Move the log start offset to the oldest snapshot that is kept, if that is higher.

    Effects: MoveLogStart.
    Source: KIP-630 §When to Delete Snapshots; KafkaRaftLog.deleteBeforeSnapshot.
    """
    log, oldest = replica.log, event.oldest_kept
    # Damaged files stay as they are until a leader has what they lost.
    if log.quarantine is not None and not log.quarantine.is_cut:
        return
    if oldest not in log.snapshots or not log.start_offset < oldest.offset <= log.committed_end_offset:
        return
    log.begin_at(oldest)
    io = replica.outbox.next_log_io()
    log.submit(io)
    replica.outbox.add(MoveLogStart(io=io, snapshot_id=oldest))


def _may_install(replica: Replica, event: SnapshotFrozen) -> bool:
    log = replica.log
    has_more = log.is_older_than(event.snapshot_id) and not log.lacks_committed(event.snapshot_id)
    # A leader was elected with all committed records, so no snapshot holds more than its log.
    return has_more and not isinstance(replica.state, Leader)


def _install(replica: Replica, event: SnapshotFrozen) -> None:
    log, end_offset = replica.log, event.snapshot_id.offset
    log.replace_by(event.snapshot_id)
    if log.quarantine is not None:
        log.quarantine = replace(log.quarantine, is_cut=True)
    # A Fetch may be in flight: this snapshot may have been downloaded from the leader of an earlier epoch, or created
    # here before damage was found. The response belongs to a log that no longer exists, so it says nothing about the
    # leader. No other state judges a response by the log.
    if isinstance(replica.state, Follower):
        replica.connections.reset()
    replica.voter_history.replace_by(end_offset, event.membership)
    io = replica.outbox.next_log_io()
    log.submit(io)
    replica.outbox.add(InstallSnapshot(io=io, snapshot_id=event.snapshot_id))
    if not isinstance(replica.state, Leader | Resigned):
        replica.state = replace(replica.state, high_watermark=end_offset)
    replica.outbox.add(NotifyHighWatermark(high_watermark=end_offset))


def _end_download(replica: Replica, event: SnapshotFrozen) -> None:
    state = replica.state
    if isinstance(state, Follower) and state.download is not None and state.download.snapshot_id == event.snapshot_id:
        replica.state = replace(state, download=None)
