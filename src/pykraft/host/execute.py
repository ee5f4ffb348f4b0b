"""Carries out the effects of the core: a table from effect type to function.

Invariant: effects are carried out in the order of their list, each completely, before the next event is handled. Each
function only names the component that does the work and decides nothing. A failure at once becomes an event.

Source: dask's ``worker_state_machine`` (instructions); Kafka's ``KafkaRaftClient`` does the same in its poll loop.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pykraft.core import effects
from pykraft.core.effects import Effect
from pykraft.core.status import LEADER, Status
from pykraft.errors import ErrorCode
from pykraft.host.components import Components
from pykraft.host.fetch_read import HeaderAndBytes, RecordBuffers
from pykraft.host.inbox import Arrival
from pykraft.log.lane import AppendBytes, Job
from pykraft.snapshot.catalog import Slice
from pykraft.types import Instant, Io, Offset, OffsetAndEpoch
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class Step:
    """The step that produced the effects: its time, the flushed end of the log, and its event with the attached bytes.

    The first step has no event.
    """

    now: Instant
    flushed_end_offset: Offset
    arrival: Arrival | None


def execute(components: Components, effect: Effect, step: Step) -> None:
    _TABLE[type(effect)](components, effect, step)


def stop(components: Components, error: Exception | None) -> None:
    """End the node: no step follows, every proposal gets its outcome, and `Ports.stop` gets the reason."""
    end(components)
    components.ports.stop(error)


def end(components: Components) -> None:
    """Take no further step, and give every waiting caller an outcome; a second call does nothing."""
    components.inbox.close()
    components.producers.end()
    components.pending_requests.end()
    components.pending_reads.end()


def _submit(components: Components, job: Job, step: Step) -> None:
    components.measurements.submitted(job.io, step.now)
    components.ports.submit(job)


def _append_batches(components: Components, effect: effects.AppendBatches, step: Step) -> None:
    _append(components, effect.io, [components.producers.encode(plan) for plan in effect.batches], step)
    components.measurements.appended(effect.batches, step.now)


def _append_fetched(components: Components, effect: effects.AppendFetched, step: Step) -> None:
    assert step.arrival is not None, "what is appended came with the event of this step"
    batches = step.arrival.fetched[: effect.count]
    assert batches[-1][0].end_offset == effect.end_offset, "the batches are those of this step's answer"
    _append(components, effect.io, batches, step)
    components.measurements.fetched(effect.end_offset - batches[0][0].base_offset, step.now)


def _append(components: Components, io: Io, batches: Sequence[HeaderAndBytes], step: Step) -> None:
    """Append to memory, where it can be read at once, and submit the job that makes it durable."""
    components.recent.append(batches)
    components.recent.evict(step.flushed_end_offset)
    components.groups.appended(batches)
    if components.clients is not None:
        components.clients.appended(batches)
    _submit(components, AppendBytes(io=io, batches=batches), step)


def _truncate_to(components: Components, effect: effects.TruncateTo | effects.EnterQuarantine, step: Step) -> None:
    """Nothing from the new end on is read any more."""
    components.recent.truncate_to(effect.end_offset)
    components.groups.truncated(effect.end_offset)
    if components.clients is not None:
        components.clients.truncated(effect.end_offset)
    components.reads.truncated()
    components.scrubbing.truncated()
    # In quarantine the files keep the damage for now; the core truncates them once a leader can send what follows.
    _submit(components, effect, step)


def _install_snapshot(components: Components, effect: effects.InstallSnapshot, step: Step) -> None:
    components.recent.begin_anew_at(effect.snapshot_id.offset)
    if components.clients is not None:
        components.clients.begun_anew(effect.snapshot_id.epoch)
    _log_begins_at(components, effect.snapshot_id, effect.io)
    _submit(components, effect, step)


def _move_log_start(components: Components, effect: effects.MoveLogStart, step: Step) -> None:
    _log_begins_at(components, effect.snapshot_id, effect.io)
    _submit(components, effect, step)


def _log_begins_at(components: Components, snapshot_id: OffsetAndEpoch, io: Io) -> None:
    """Move the log start: older reads become stale, older snapshots are retired, files are removed later."""
    components.removal.retired_by(io)
    components.reads.truncated()
    components.scrubbing.truncated()
    components.snapshots.retire_before(snapshot_id)
    components.delivery.log_begins_at(snapshot_id.offset)


def _begin_download(components: Components, effect: effects.BeginDownload, _: Step) -> None:
    components.snapshots.download_jobs.begin(effect.snapshot_id, effect.leader_epoch)


def _append_download(components: Components, effect: effects.AppendDownload, step: Step) -> None:
    assert step.arrival is not None, "what is appended came with the event of this step"
    components.snapshots.download_jobs.append(
        effect.snapshot_id, effect.position, step.arrival.slice_data, is_last=effect.is_last
    )


def _abandon_download(components: Components, effect: effects.AbandonDownload, _: Step) -> None:
    components.snapshots.download_jobs.abandon(effect.snapshot_id)


def _reply_snapshot(components: Components, effect: effects.ReplySnapshot, step: Step) -> None:
    """Read first, then wait until ``after`` is durable, as for a Fetch."""
    message = effect.message
    components.snapshots.read(
        message.snapshot_id,
        message.position,
        effect.size_bytes_max,
        step.now,
        partial(_reply_slice, components, effect),
    )


def _reply_slice(components: Components, effect: effects.ReplySnapshot, found: Slice | ErrorCode) -> None:
    records: RecordBuffers = ()
    if isinstance(found, ErrorCode):
        message = replace(effect.message, error=int(found), position=0)
    else:
        message, records = replace(effect.message, size_bytes=found.size_bytes), (found.data,)
    components.held.send_when_durable(
        ("reply to request", effect.request_id),
        effect.after,
        lambda: components.inbound.reply(effect.request_id, message, records, is_watched=effect.is_watched),
    )


def _send(components: Components, effect: effects.Send, step: Step) -> None:
    components.peers.send(effect, step.now)


def _reply(components: Components, effect: effects.Reply, _: Step) -> None:
    request_id, message = effect.request_id, effect.message
    components.held.send_when_durable(
        ("reply to request", request_id), effect.after, lambda: components.inbound.reply(request_id, message)
    )


def _reply_fetch(components: Components, effect: effects.ReplyFetch, _: Step) -> None:
    """Read first, then wait until ``after`` is durable: the records read now belong to this answer."""
    then = partial(_reply_records, components, effect)
    is_wanted = partial(components.inbound.awaits, effect.request_id)
    components.reads.read(effect.fetch_offset, effect.end_offset, effect.size_bytes_max, then, is_wanted)


def _reply_records(components: Components, effect: effects.ReplyFetch, records: RecordBuffers | None) -> None:
    message = effect.message
    if records is None:
        # The log was truncated during the read, or is damaged there: the follower must ask again.
        message = replace(message, error=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), high_watermark=None, diverging=None)
    components.held.send_when_durable(
        ("reply to request", effect.request_id),
        effect.after,
        lambda: components.inbound.reply(effect.request_id, message, records or (), is_watched=effect.is_watched),
    )


def _close_requester(components: Components, effect: effects.CloseRequester, _: Step) -> None:
    components.inbound.close(effect.request_id, effect.reason)


def _close_peer(components: Components, effect: effects.ClosePeer, _: Step) -> None:
    components.peers.close(effect.peer_id, effect.reason)


def _accept_proposal(components: Components, effect: effects.AcceptProposal, _: Step) -> None:
    components.producers.accepted(effect.handle, effect.base_offset)


def _reject_proposal(components: Components, effect: effects.RejectProposal, _: Step) -> None:
    components.producers.reject(effect.handle, effect.error)


def _complete_pending_request(components: Components, effect: effects.CompletePendingRequest, _: Step) -> None:
    components.pending_requests.answered(effect.handle, effect.error)


def _complete_read(components: Components, effect: effects.CompleteRead, _: Step) -> None:
    components.pending_reads.answered(effect.handle, effect.outcome)


def _notify_high_watermark(components: Components, effect: effects.NotifyHighWatermark, step: Step) -> None:
    components.measurements.committed(effect.high_watermark, step.now)
    components.log.commit_to(effect.high_watermark)
    components.producers.committed(effect.high_watermark)
    components.delivery.committed(effect.high_watermark)


def _notify_leader_change(components: Components, effect: effects.NotifyLeaderChange, _: Step) -> None:
    components.delivery.leader_changed(effect)


def _notify_role(components: Components, effect: effects.NotifyRole, step: Step) -> None:
    components.measurements.role_changed(effect.role, step.now)
    if effect.role != LEADER:
        # A listener that has not heard yet that this node led need not hear it any more.
        components.delivery.leads_no_more()
    components.ports.report(effects.Report(text=_role_report(effect, components.status())))


def _role_report(effect: effects.NotifyRole, status: Status) -> str:
    """The state as Kafka names it, its epoch, and what that means for this node."""
    text = f"{effect.role} in epoch {effect.epoch}"
    # Another change may have followed within the same step: then the status is not about this one.
    if (status.role, status.epoch) != (effect.role, effect.epoch):
        return text
    if status.role in ("follower", "observer"):
        return f"{text}: node {status.leader_id} leads"
    if status.role == "unattached-voted" and status.voted is not None:
        return f"{text}: it voted for node {status.voted.id}"
    return f"{text}: {_MEANINGS[status.role.partition('-')[0]]}"


def _complete_shutdown(components: Components, effect: effects.CompleteShutdown, _: Step) -> None:
    text = "shut down gracefully" if effect.graceful else "the shutdown timed out: no other node leads"
    components.ports.report(effects.Report(text=text))
    components.ending.is_graceful = effect.graceful
    stop(components, None)


def _report(components: Components, effect: effects.Report, _: Step) -> None:
    components.ports.report(effect)


_MEANINGS: Final[Mapping[str, str]] = {
    "leader": "this node was elected",
    "candidate": "it asks the other voters for their votes",
    "prospective": "it hears no leader, and asks the other voters whether they would vote for it (pre-vote)",
    "resigned": "it led this epoch, and leads it no more",
    "unattached": "no leader is known yet",
}
"""What a state means, by the first word of its name."""

_TABLE: Final[Mapping[type[Effect], Callable[[Components, Any, Step], None]]] = {
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
    effects.CompletePendingRequest: _complete_pending_request,
    effects.CompleteRead: _complete_read,
    effects.NotifyHighWatermark: _notify_high_watermark,
    effects.NotifyLeaderChange: _notify_leader_change,
    effects.NotifyRole: _notify_role,
    effects.CompleteShutdown: _complete_shutdown,
    effects.Report: _report,
}
