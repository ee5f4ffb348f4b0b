"""The application's requests: propose records, resign, shut down.

Source: KIP-595 §Leader (append, linger); Kafka ``RaftClient.prepareAppend``, ``resign`` and ``shutdown``.
"""

from typing import Final

from pykraft import errors
from pykraft.core.effects import AcceptProposal, RejectProposal, Report
from pykraft.core.events import AppendsScheduled, Proposed, ResignRequested, ShutdownRequested
from pykraft.core.leader.appending import drain_if_due
from pykraft.core.never_leads import appends_nothing
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.types import Instant, Offset

STORAGE_IS_BEHIND: Final = "the leader's storage is too far behind: propose again later"
PREPARED_FILL_BUFFER: Final = "prepared appends fill the buffer: schedule them first"


def on_proposed(replica: Replica, event: Proposed, now: Instant) -> None:
    """Assign offsets to the records and let them linger in a batch; the end of the step appends what is due.

    Effects: AcceptProposal or RejectProposal.
    Errors (in RejectProposal): NotLeaderError, UsageError for a future epoch or no records, RecordBatchTooLargeError,
    BufferFullError while storage is too far behind or prepared appends fill the buffer, LeadershipTransferError.
    Source: Kafka ``KafkaRaftClient.prepareAppend``.
    """
    leader = replica.state
    error = _refusal(replica, event)
    if error is None:
        assert isinstance(leader, Leader)
        base_offset = _add(leader, event, now)
        # A prepared append releases nothing: the application decides when to schedule.
        if base_offset is None and not event.is_prepared:
            _make_room(replica, leader, now)
            base_offset = _add(leader, event, now)
        if base_offset is not None:
            replica.outbox.add(AcceptProposal(handle=event.handle, base_offset=base_offset, epoch=leader.epoch))
            return
        # Prepared appends fill the buffer until they are scheduled, however fast the storage is.
        error = errors.BufferFullError(
            STORAGE_IS_BEHIND if leader.accumulation.held_from is None else PREPARED_FILL_BUFFER
        )
    replica.outbox.add(RejectProposal(handle=event.handle, error=error))


def on_appends_scheduled(replica: Replica, _event: AppendsScheduled, _now: Instant) -> None:
    """Release the prepared appends; a replica that does not lead has none.

    Source: Kafka ``KafkaRaftClient.schedulePreparedAppend``.
    """
    if isinstance(replica.state, Leader):
        replica.state.accumulation.schedule()


def on_resign_requested(replica: Replica, event: ResignRequested, _now: Instant) -> None:
    """Resign at the end of this step, if this node still leads that epoch.

    Source: Kafka ``RaftClient.resign``.
    """
    if isinstance(replica.state, Leader) and replica.state.epoch == event.epoch:
        replica.state.resign_requested = True


def on_shutdown_requested(replica: Replica, event: ShutdownRequested, now: Instant) -> None:
    """Start a graceful shutdown; a repeated request changes nothing.

    Source: Kafka ``RaftClient.shutdown``; KIP-595 §Graceful shutdown.
    """
    if replica.shutdown_deadline_ms is None:
        replica.shutdown_deadline_ms = now.mono_ms + event.timeout_ms
        # Who refused before may have come back since, and `Replica.is_last_to_leave` asks who is there now.
        replica.refused_by.clear()
        replica.outbox.add(Report(text=f"shutting down as {replica.role} of epoch {replica.epoch}"))


def _make_room(replica: Replica, leader: Leader, now: Instant) -> None:
    """Schedule prepared appends, which may be all that fills the buffer, and append them if storage keeps up."""
    leader.accumulation.schedule()
    # Do this even if the present append is still rejected: perhaps nothing else ever schedules the prepared ones, and
    # then every later append would be rejected, too.
    drain_if_due(replica, leader, now)


def _add(leader: Leader, event: Proposed, now: Instant) -> Offset | None:
    return leader.accumulation.add(
        handle=event.handle,
        count=event.count,
        size_bytes=event.size_bytes,
        now=now,
        is_prepared=event.is_prepared,
        is_batch=event.is_batch,
    )


def _refusal(replica: Replica, event: Proposed) -> errors.PykraftError | None:
    leader = replica.state
    if not isinstance(leader, Leader) or event.epoch < leader.epoch or leader.resign_requested:
        return errors.NotLeaderError(replica.leader_id if replica.has_remote_leader else None, replica.epoch)
    if event.epoch > leader.epoch:
        return errors.UsageError(f"epoch {event.epoch} has not begun: this node leads epoch {leader.epoch}")
    if appends_nothing(replica):
        return errors.NotLeaderError(None, replica.epoch)
    if replica.transfer is not None:
        return errors.LeadershipTransferError(replica.transfer.target_id)
    if event.count < 1:
        return errors.UsageError("a proposal holds at least one record")
    if not leader.accumulation.fits(event.size_bytes):
        most = replica.config.batch_size_bytes_max
        return errors.RecordBatchTooLargeError(f"the records take {event.size_bytes} bytes, a batch may take {most}")
    return None
