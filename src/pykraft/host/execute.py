"""Carries out the effects of the core: a table from effect type to function.

Invariant: effects are carried out in the order of their list, each completely, before the next event is handled. Each
function only names the component that does the work and decides nothing. A failure at once becomes an event.

Source: dask's ``worker_state_machine`` (instructions); Kafka's ``KafkaRaftClient`` does the same in its poll loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pykraft.core import effects
from pykraft.core.effects import Effect
from pykraft.core.status import LEADER
from pykraft.errors import ErrorCode
from pykraft.host.components import Parts
from pykraft.host.fetch_read import Records
from pykraft.host.inbox import Arrival
from pykraft.host.recent_batches import Batch
from pykraft.log.lane import AppendBytes, Job
from pykraft.snapshot.catalog import Slice
from pykraft.types import Instant, Io, Offset, OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The step that produced the effects: its time, the flushed end of the log, and its event with the attached bytes.

    The first step has no event.
    """

    now: Instant
    flushed_end_offset: Offset
    arrival: Arrival | None


def execute(parts: Parts, effect: Effect, step: Step) -> None:
    """Carry out one effect."""
    _TABLE[type(effect)](parts, effect, step)


def stop(parts: Parts, error: Exception | None) -> None:
    """End the node: no step follows, every proposal gets its outcome, and `Ports.stop` gets the reason."""
    end(parts)
    parts.ports.stop(error)


def end(parts: Parts) -> None:
    """Take no further step, and give every waiting caller an outcome; a second call does nothing."""
    parts.inbox.close()
    parts.producers.end()
    parts.wishes.end()


def _submit(parts: Parts, job: Job, step: Step) -> None:
    parts.measurements.submitted(job.io, step.now)
    parts.ports.submit(job)


def _append_batches(parts: Parts, effect: effects.AppendBatches, step: Step) -> None:
    _append(parts, effect.io, [parts.producers.encode(plan) for plan in effect.batches], step)
    parts.measurements.appended(effect.batches, step.now)


def _append_fetched(parts: Parts, effect: effects.AppendFetched, step: Step) -> None:
    assert step.arrival is not None, "what is appended came with the event of this step"
    batches = step.arrival.fetched[: effect.count]
    assert batches[-1][0].end_offset == effect.end_offset, "the batches are those of this step's answer"
    _append(parts, effect.io, batches, step)
    parts.measurements.fetched(effect.end_offset - batches[0][0].base_offset, step.now)


def _append(parts: Parts, io: Io, batches: Sequence[Batch], step: Step) -> None:
    """Append to memory, where it can be read at once, and submit the job that makes it durable."""
    parts.recent.append(batches)
    parts.recent.evict(step.flushed_end_offset)
    _submit(parts, AppendBytes(io=io, batches=batches), step)


def _truncate_to(parts: Parts, effect: effects.TruncateTo | effects.EnterQuarantine, step: Step) -> None:
    """Nothing from the new end on is read any more."""
    parts.recent.truncate_to(effect.end_offset)
    parts.reads.truncated()
    parts.scrubbing.truncated()
    # In quarantine the files keep the damage for now; the core truncates them once a leader can send what follows.
    _submit(parts, effect, step)


def _install_snapshot(parts: Parts, effect: effects.InstallSnapshot, step: Step) -> None:
    parts.recent.begin_anew_at(effect.snapshot_id.offset)
    _log_begins_at(parts, effect.snapshot_id, effect.io)
    _submit(parts, effect, step)


def _move_log_start(parts: Parts, effect: effects.MoveLogStart, step: Step) -> None:
    _log_begins_at(parts, effect.snapshot_id, effect.io)
    _submit(parts, effect, step)


def _log_begins_at(parts: Parts, snapshot_id: OffsetAndEpoch, io: Io) -> None:
    """Move the log start: older reads become stale, older snapshots are retired, files are removed later."""
    parts.removal.retired_by(io)
    parts.reads.truncated()
    parts.scrubbing.truncated()
    parts.snapshots.retire_before(snapshot_id)
    parts.delivery.log_begins_at(snapshot_id.offset)


def _begin_download(parts: Parts, effect: effects.BeginDownload, _: Step) -> None:
    parts.snapshots.downloading.begin(effect.snapshot_id, effect.leader_epoch)


def _append_download(parts: Parts, effect: effects.AppendDownload, step: Step) -> None:
    assert step.arrival is not None, "what is appended came with the event of this step"
    parts.snapshots.downloading.append(
        effect.snapshot_id, effect.position, step.arrival.slice_data, is_last=effect.is_last
    )


def _abandon_download(parts: Parts, effect: effects.AbandonDownload, _: Step) -> None:
    parts.snapshots.downloading.abandon(effect.snapshot_id)


def _reply_snapshot(parts: Parts, effect: effects.ReplySnapshot, step: Step) -> None:
    """Read first, then wait until ``after`` is durable, as for a Fetch."""
    message = effect.message
    parts.snapshots.read(
        message.snapshot_id, message.position, effect.size_bytes_max, step.now, partial(_reply_slice, parts, effect)
    )


def _reply_slice(parts: Parts, effect: effects.ReplySnapshot, found: Slice | ErrorCode) -> None:
    records: Records = ()
    if isinstance(found, ErrorCode):
        message = replace(effect.message, error=int(found), position=0)
    else:
        message, records = replace(effect.message, size_bytes=found.size_bytes), (found.data,)
    parts.held.leave(
        ("reply to request", effect.request_id),
        effect.after,
        lambda: parts.inbound.reply(effect.request_id, message, records, is_watched=effect.is_watched),
    )


def _send(parts: Parts, effect: effects.Send, step: Step) -> None:
    parts.peers.send(effect, step.now)


def _reply(parts: Parts, effect: effects.Reply, _: Step) -> None:
    request_id, message = effect.request_id, effect.message
    parts.held.leave(("reply to request", request_id), effect.after, lambda: parts.inbound.reply(request_id, message))


def _reply_fetch(parts: Parts, effect: effects.ReplyFetch, _: Step) -> None:
    """Read first, then wait until ``after`` is durable: the records read now belong to this answer."""
    then = partial(_reply_records, parts, effect)
    is_wanted = partial(parts.inbound.awaits, effect.request_id)
    parts.reads.read(effect.fetch_offset, effect.end_offset, effect.size_bytes_max, then, is_wanted)


def _reply_records(parts: Parts, effect: effects.ReplyFetch, records: Records | None) -> None:
    message = effect.message
    if records is None:
        # The log was truncated during the read, or is damaged there: the follower must ask again.
        message = replace(message, error=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), high_watermark=None, diverging=None)
    parts.held.leave(
        ("reply to request", effect.request_id),
        effect.after,
        lambda: parts.inbound.reply(effect.request_id, message, records or (), is_watched=effect.is_watched),
    )


def _close_requester(parts: Parts, effect: effects.CloseRequester, _: Step) -> None:
    parts.inbound.close(effect.request_id, effect.reason)


def _close_peer(parts: Parts, effect: effects.ClosePeer, _: Step) -> None:
    parts.peers.close(effect.peer_id, effect.reason)


def _accept_proposal(parts: Parts, effect: effects.AcceptProposal, _: Step) -> None:
    parts.producers.accepted(effect.handle, effect.base_offset)


def _reject_proposal(parts: Parts, effect: effects.RejectProposal, _: Step) -> None:
    parts.producers.reject(effect.handle, effect.error)


def _answer_wish(parts: Parts, effect: effects.AnswerWish, _: Step) -> None:
    parts.wishes.answered(effect.handle, effect.error)


def _notify_high_watermark(parts: Parts, effect: effects.NotifyHighWatermark, step: Step) -> None:
    parts.measurements.committed(effect.high_watermark, step.now)
    parts.producers.committed(effect.high_watermark)
    parts.delivery.committed(effect.high_watermark)


def _notify_leader_change(parts: Parts, effect: effects.NotifyLeaderChange, _: Step) -> None:
    parts.delivery.leader_changed(effect)


def _notify_role(parts: Parts, effect: effects.NotifyRole, step: Step) -> None:
    parts.measurements.role_changed(effect.role, step.now)
    if effect.role != LEADER:
        # A listener that has not heard yet that this node led need not hear it any more.
        parts.delivery.leads_no_more()
    parts.ports.report(f"{effect.role} in epoch {effect.epoch}")


def _complete_shutdown(parts: Parts, effect: effects.CompleteShutdown, _: Step) -> None:
    parts.ports.report("left the quorum" if effect.graceful else "leaving the quorum timed out: no other node leads")
    parts.ending.is_graceful = effect.graceful
    stop(parts, None)


def _report(parts: Parts, effect: effects.Report, _: Step) -> None:
    parts.ports.report(effect.text, is_alarm=effect.is_alarm)


_TABLE: Final[Mapping[type[Effect], Callable[[Parts, Any, Step], None]]] = {
    effects.WriteElectionState: _submit,
    effects.AppendBatches: _append_batches,
    effects.AppendFetched: _append_fetched,
    effects.TruncateTo: _truncate_to,
    effects.EnterQuarantine: _truncate_to,
    effects.LeaveQuarantine: _submit,
    effects.NoteProof: _submit,
    effects.InstallSnapshot: _install_snapshot,
    effects.MoveLogStart: _move_log_start,
    effects.BeginDownload: _begin_download,
    effects.AppendDownload: _append_download,
    effects.AbandonDownload: _abandon_download,
    effects.ReplySnapshot: _reply_snapshot,
    effects.Send: _send,
    effects.Reply: _reply,
    effects.ReplyFetch: _reply_fetch,
    effects.CloseRequester: _close_requester,
    effects.ClosePeer: _close_peer,
    effects.AcceptProposal: _accept_proposal,
    effects.RejectProposal: _reject_proposal,
    effects.AnswerWish: _answer_wish,
    effects.NotifyHighWatermark: _notify_high_watermark,
    effects.NotifyLeaderChange: _notify_leader_change,
    effects.NotifyRole: _notify_role,
    effects.CompleteShutdown: _complete_shutdown,
    effects.Report: _report,
}
