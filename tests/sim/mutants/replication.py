"""Bugs between an append and its commit: what a Fetch copies, what is durable, and what a majority holds."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pykraft.core.connections import Connections
from pykraft.core.effects import NotifyHighWatermark, ReplyFetch
from pykraft.core.events import RequestReceived
from pykraft.core.leader import appending
from pykraft.core.leader.appending import advance_high_watermark
from pykraft.core.leader.serving import answer_parked, serve
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch, FetchRequest
from pykraft.core.on import fetch_request, fetch_response
from pykraft.core.on.requests import leader_only_error
from pykraft.core.outbox import Outbox, Relies
from pykraft.core.quorum import majority_end_offset
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode, StorageError
from pykraft.log.lane import OrderedLane
from pykraft.log.log import Log
from pykraft.log.segment import Segment
from pykraft.log.small_files import recovery_point
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.types import Epoch, Instant, Io, Offset, OffsetAndEpoch
from tests.sim.mutants.patch import Patch, bug


@bug("Raft paper §5.3 (prevLogIndex); an exclusive end taken for inclusive")
def divergence_is_off_by_one(patch: Patch) -> None:
    """A leader takes a follower's log with one extra record of an old epoch for a prefix of its own."""

    def diverging_from(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = self.end_of_epoch(last_epoch)
        return None if not offset or (end.epoch == last_epoch and end.offset + 1 >= offset) else end

    patch.setattr(LogView, "diverging_from", diverging_from)


@bug("KafkaRaftLog.truncateToEndOffset; KAFKA-18723")
def committed_records_are_cut(patch: Patch) -> None:
    """A leader sends a diverging epoch that is too low, and a follower truncates its log below its high watermark."""
    truncate = fetch_response._truncate

    def unguarded(replica: Replica, end_offset: Offset) -> None:
        replica.log.committed_end_offset = replica.log.start_offset
        truncate(replica, end_offset)

    followers_are_sent_too_far_back(patch)
    patch.setattr(fetch_response, "contradiction_in", lambda replica, state, answer, cut_to: None)
    patch.setattr(fetch_response, "_truncate", unguarded)


@bug("ours until ADR 128: 2,000 records, no line")
def what_was_committed_is_not_read_back(patch: Patch) -> None:
    """A replica writes down what it knows to be committed, and never reads that: it would cut it after a restart."""
    point_of = recovery_point._point_of
    patch.setattr(recovery_point, "_point_of", lambda *at: replace(point_of(*at), committed_end_offset=Offset(0)))


@bug("KIP-595 §Fetch (divergence is looked for first)")
def fetch_counts_before_it_is_compared(patch: Patch) -> None:
    """The leader counts the offset of every Fetch, even if the follower's log diverges from its own."""
    on_fetch_request = fetch_request.on_fetch_request

    def on_request(replica: Replica, event: RequestReceived, message: FetchRequest, now: Instant) -> None:
        leader, key = replica.state, message.replica
        is_other = replica.log.diverging_from(message.fetch_offset, message.last_fetched_epoch) is not None
        if isinstance(leader, Leader) and message.epoch == leader.epoch and key is not None and is_other:
            fetch_request._note(replica, leader, key, min(message.fetch_offset, replica.log.end_offset), now)
        on_fetch_request(replica, event, message, now)

    patch.everywhere(on_fetch_request, on_request)


@bug("KIP-595 §Log reconciliation; Kafka never truncates below the high watermark")
def followers_are_sent_too_far_back(patch: Patch) -> None:
    """A leader answers a diverging log with an offset before the last common record."""
    diverging_from = LogView.diverging_from

    def too_far(self: LogView, offset: Offset, last_epoch: Any) -> OffsetAndEpoch | None:
        end = diverging_from(self, offset, last_epoch)
        return None if end is None else OffsetAndEpoch(Offset(max(0, end.offset - 10)), end.epoch)

    patch.setattr(LogView, "diverging_from", too_far)


@bug("KAFKA-18723")
def batches_of_a_higher_epoch_are_appended(patch: Patch) -> None:
    """A leader answers a Fetch of an older epoch, and the follower appends records of a later epoch than its own.

    Two rules cover for each other: the leader fences the request, and the follower checks the epochs of the batches.
    """

    def valid_prefix(batches: tuple[FetchedBatch, ...], end: OffsetAndEpoch, replica: Replica) -> tuple[Any, ...]:
        del replica
        return batches if batches and batches[0].base_offset == end.offset else ()

    def unfenced(replica: Replica, epoch: Epoch) -> ErrorCode:
        is_older = isinstance(replica.state, Leader) and epoch < replica.epoch
        return leader_only_error(replica, replica.epoch if is_older else epoch)

    def in_its_epoch(replica: Replica, leader: Leader, request_id: int, listener: str, request: FetchRequest) -> None:
        outbox = replica.outbox
        serve(replica, leader, request_id, listener, request)
        answer = outbox._effects[-1]
        assert isinstance(answer, ReplyFetch)
        outbox._effects[-1] = replace(answer, message=replace(answer.message, epoch=request.epoch))

    patch.setattr(fetch_response, "valid_prefix", valid_prefix)
    patch.setattr(fetch_request, "leader_only_error", unfenced)
    patch.everywhere(serve, in_its_epoch)


@bug("ours, almost: a Fetch is also the acknowledgment, so there may only be one")
def two_fetches_in_flight(patch: Patch) -> None:
    """A follower sends another Fetch at each event, although its last one is unanswered."""
    patch.setattr(Connections, "has_in_flight", property(lambda self: False))
    patch.setattr(Connections, "is_asked", lambda self, peer_id: False)
    patch.setattr(Connections, "is_ready", lambda self, peer_id: peer_id not in self._backing_off)


@bug("KAFKA-14099 (a follower must flush before it fetches)")
def fetch_does_not_wait_for_its_append(patch: Patch) -> None:
    """A follower's Fetch acknowledges records that it has not flushed."""
    after = Outbox._after
    patch.setattr(
        Outbox, "_after", lambda self, relies: after(self, Relies.ELECTION if relies is Relies.LOG else relies)
    )


@bug("Kafka's topics by default; KRaft must not")
def append_is_not_flushed(patch: Patch) -> None:
    """The storage lane reports an append as durable when it is only in the page cache."""

    def append(self: OrderedLane, appends: list[Any]) -> None:
        if appends:
            self._log.append(appends)
            appends.clear()

    patch.setattr(OrderedLane, "_append", append)


@bug("etcd's append ABA story, for disks")
def truncation_is_not_synced(patch: Patch) -> None:
    """A truncation is not synced: after a power loss the removed records may be back."""
    patch.setattr(Log, "truncate_to", without_sync(Log.truncate_to))


@bug("ALICE (OSDI 2014): directories are not synced")
def new_segment_has_no_durable_name(patch: Patch) -> None:
    """A node creates a segment and does not sync the directory."""
    flush = Log.flush

    def forgetful(self: Log) -> None:
        self._is_directory_dirty = False
        flush(self)

    patch.setattr(Log, "flush", forgetful)


@bug("etcd raft/log_unstable.go (the append ABA problem)")
def completion_counts_for_everything(patch: Patch) -> None:
    """When any write completes, the whole log counts as flushed."""

    def persist(self: LogView, io: Io) -> None:
        while self._unflushed and self._unflushed[0].io <= io:
            self._unflushed.popleft()
            self.flushed_end_offset = self.end_offset

    patch.setattr(LogView, "persist", persist)


@bug("PostgreSQL's fsync failure of 2018", "disk")
def failed_sync_is_tried_again(patch: Patch) -> None:
    """A node repeats a failed sync. The second one succeeds, because the kernel takes the lost pages for clean."""
    sync = Segment.sync

    def stubborn(self: Segment) -> None:
        try:
            sync(self)
        except StorageError:
            self._fs.io_errors.mend()  # type: ignore[attr-defined]
            sync(self)

    patch.setattr(Segment, "sync", stubborn)


@bug("Kafka LogManager.truncateTo (checkpoints after truncation)")
def recovery_point_is_not_lowered(patch: Patch) -> None:
    """A truncation leaves the recovery point where it is: the next start misses the removed records."""
    patch.setattr(RecoveryPoint, "lower_to", lambda self, offset: None)


def without_sync(act: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but segments are not synced in it."""

    def acting(*given: Any) -> Any:
        with Patch() as patch:
            patch.setattr(Segment, "sync", lambda self: None)
            return act(*given)

    return acting


@bug("KAFKA-10526; Raft dissertation §10.2.1, done wrong")
def leader_counts_what_it_has_not_flushed(patch: Patch) -> None:
    """The leader counts its own log end for the high watermark before it is flushed."""

    def advance(replica: Replica, leader: Leader) -> None:
        flushed = replica.log.flushed_end_offset
        replica.log.flushed_end_offset = replica.log.end_offset
        advance_high_watermark(replica, leader)
        replica.log.flushed_end_offset = flushed

    _patch_advance(patch, advance)


@bug("Raft paper §5.4.2, figure 8")
def old_epochs_commit_by_counting(patch: Patch) -> None:
    """The high watermark advances without a record of the leader's own epoch."""

    def advance(replica: Replica, leader: Leader) -> None:
        start = leader.epoch_start_offset
        leader.epoch_start_offset = Offset(-1)
        advance_high_watermark(replica, leader)
        leader.epoch_start_offset = start

    _patch_advance(patch, advance)


@bug("Raft dissertation §4.2.1 (new servers do not count); KIP-853")
def observers_commit(patch: Patch) -> None:
    """The leader counts the fetch offsets of observers like those of voters."""

    def advance(replica: Replica, leader: Leader) -> None:
        voters = dict(leader.progress.voters)
        observers = leader.progress._observers.values()
        leader.progress.voters.update({observer.key.id: observer for observer in observers})
        advance_high_watermark(replica, leader)
        leader.progress.voters = voters

    _patch_advance(patch, advance)


@bug("Kafka LeaderState (a lower offset lowers no high watermark)", "network")
def high_watermark_follows_every_fetch(patch: Patch) -> None:
    """The high watermark decreases when a replica fetches below it, for example with a Fetch that arrives late."""

    def advance(replica: Replica, leader: Leader) -> None:
        ends = [
            replica.log.flushed_end_offset if node_id == leader.leader_id else voter.end_offset
            for node_id, voter in leader.progress.voters.items()
        ]
        offset = majority_end_offset(ends)
        if offset is None or offset <= leader.epoch_start_offset or offset == leader.high_watermark:
            return
        leader.high_watermark = offset
        replica.log.commit_to(offset)
        replica.outbox.add(NotifyHighWatermark(high_watermark=offset))
        answer_parked(replica, leader)

    _patch_advance(patch, advance)


@bug("Raft paper §5.3 (min of leaderCommit and last new entry)")
def follower_commits_all_that_it_has(patch: Patch) -> None:
    """A follower takes its own log end for the high watermark."""
    original = fetch_response._raise_high_watermark
    patch.setattr(
        fetch_response, "_raise_high_watermark", lambda replica, told: original(replica, replica.log.end_offset)
    )


@bug("acks=1")
def one_acknowledgment_is_enough(patch: Patch) -> None:
    """The leader takes the highest fetch offset of its voters, not a majority's: one voter commits a record."""

    def best(end_offsets: list[Offset | None]) -> Offset | None:
        return max((offset for offset in end_offsets if offset is not None), default=None)

    patch.setattr(appending, "majority_end_offset", best)


def _patch_advance(patch: Patch, advance: Callable[[Replica, Leader], None]) -> None:
    patch.everywhere(advance_high_watermark, advance)
