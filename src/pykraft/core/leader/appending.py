"""The leader's log grows: plan batches, hand them to storage, answer parked Fetches, raise the high watermark.

The leader's own log end counts for the high watermark only once it is flushed. A voter's fetch offset counts at once,
because a voter fetches only above what it has flushed. So the high watermark may exceed the leader's own flushed end
when a majority of other voters holds the records.

Source: KIP-595 §Leader; Raft paper §5.4.2; Kafka ``LeaderState.maybeUpdateHighWatermark``.
"""

from pykraft.core.effects import AppendBatches, NotifyHighWatermark, PlannedBatch
from pykraft.core.leader.serving import answer_committed, answer_parked
from pykraft.core.quorum import majority_end_offset
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.types import Instant, KRaftVersion, KRaftVoters, Offset


def append_planned(replica: Replica, leader: Leader, batches: tuple[PlannedBatch, ...]) -> None:
    """Append batches at the log end and answer the Fetches that wait for records.

    Effects: AppendBatches, then ReplyFetch for parked fetches.
    """
    for batch in batches:
        replica.log.append(base_offset=batch.base_offset, end_offset=batch.end_offset, epoch=leader.epoch)
        for offset, record in enumerate(batch.control, batch.base_offset):
            if isinstance(record, KRaftVersion | KRaftVoters):
                replica.voter_history.record(Offset(offset), record)
    io = replica.outbox.next_log_io()
    replica.log.submit(io)
    replica.outbox.add(AppendBatches(io=io, batches=batches))
    if not replica.config.leader_send_flushed_only:
        answer_parked(replica, leader)


def drain_if_due(replica: Replica, leader: Leader, now: Instant) -> None:
    """Append the oldest batch that has lingered long enough, unless storage is too far behind."""
    due_ms = leader.accumulation.due_ms()
    if due_ms is None or due_ms > now.mono_ms or not may_drain(replica):
        return
    # Only one batch per step: the host encodes it before it does anything else, and a backlog of small records takes
    # seconds to encode. The next batch is due at once, so the next step follows as soon as the host has read its
    # sockets.
    batch = leader.accumulation.drain_one()
    assert batch is not None, "what is due can be drained"
    append_planned(replica, leader, (batch,))


def may_drain(replica: Replica) -> bool:
    """True while storage has fewer unflushed appends than the limit."""
    return replica.log.unflushed_count < replica.config.accumulated_batches_max


def flushed(replica: Replica, leader: Leader) -> None:
    """More of the leader's log is durable now."""
    advance_high_watermark(replica, leader)
    if replica.config.leader_send_flushed_only:
        answer_parked(replica, leader)


def advance_high_watermark(replica: Replica, leader: Leader) -> None:
    """Raise the high watermark to what a majority holds, if that includes a record of this epoch.

    Effects: NotifyHighWatermark and, now or soon, ReplyFetch for all parked fetches (KIP-1166).
    """
    ends = [
        replica.log.flushed_end_offset if node_id == leader.leader_id else voter.end_offset
        for node_id, voter in leader.progress.voters.items()
    ]
    offset = majority_end_offset(ends)
    # Records of older epochs commit only together with one of this epoch (Raft paper §5.4.2).
    if offset is None or offset <= leader.epoch_start_offset:
        return
    # The high watermark never goes back, whatever the replicas report later.
    if leader.high_watermark is not None and offset <= leader.high_watermark:
        return
    assert offset <= replica.log.end_offset, "a replica acknowledged an offset beyond this leader's log"
    leader.high_watermark = offset
    replica.log.commit_to(offset)
    replica.outbox.add(NotifyHighWatermark(high_watermark=offset))
    leader.advanced_ms.append(replica.now_ms)
    answer_committed(replica, leader)
