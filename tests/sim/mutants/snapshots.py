"""Bugs of snapshots: asking an application for its state, saving, cleaning, loading and downloading."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from pykraft.core import effects, log_view
from pykraft.core.connections import Connections
from pykraft.core.effects import AppendDownload, NotifyLeaderChange
from pykraft.core.events import DownloadAdvanced, SnapshotFrozen
from pykraft.core.log_view import LogView
from pykraft.core.on import download, snapshot
from pykraft.core.replica import Replica
from pykraft.errors import ErrorCode
from pykraft.host import execute
from pykraft.host.delivery import Delivery, Registration
from pykraft.host.host import Host
from pykraft.host.snapshots import creation
from pykraft.host.snapshots.creation import SnapshotCreation, SnapshotTrigger
from pykraft.host.snapshots.files import SnapshotFailures, SnapshotTroubles
from pykraft.host.snapshots.store import SnapshotStore
from pykraft.log import recovery
from pykraft.log.log import Log
from pykraft.log.segment import Segment
from pykraft.protocol.batch import BatchHeader
from pykraft.snapshot import writer
from pykraft.snapshot.catalog import Catalog, KeptSnapshot, Reason, Slice
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import BatchStream, read_head
from pykraft.snapshot.writer import RawWriter, SnapshotWriter
from pykraft.types import Instant, Offset, OffsetAndEpoch
from tests.sim.mutants.patch import Patch, bug


@bug("ALICE (OSDI 2014): rename without fsync", "snapshots")
def snapshot_is_not_synced(patch: Patch) -> None:
    """A snapshot is renamed into place while its bytes are only in the page cache."""

    def freeze(self: RawWriter) -> None:
        self._fs.rename(self.path, checkpoint_path(self.path.parent, self.snapshot_id))
        self._fs.sync_dir(self.path.parent)
        self._is_open, self.is_frozen = False, True

    patch.setattr(RawWriter, "freeze", freeze)


@bug("ALICE (OSDI 2014): rename before fsync", "hollow")
def snapshot_is_renamed_before_it_is_synced(patch: Patch) -> None:
    """A snapshot is renamed into place before its bytes are synced: a power loss in between leaves a hollow file."""

    def freeze(self: RawWriter) -> None:
        self._fs.rename(self.path, checkpoint_path(self.path.parent, self.snapshot_id))
        self._fs.sync_dir(self.path.parent)
        self._file.sync()
        self._is_open, self.is_frozen = False, True

    patch.setattr(RawWriter, "freeze", freeze)


@bug("ALICE (OSDI 2014): directories are not synced", "snapshots")
def snapshot_has_no_durable_name(patch: Patch) -> None:
    """A snapshot is renamed into place, and the directory is not synced."""

    def freeze(self: RawWriter) -> None:
        self._file.sync()
        self._fs.rename(self.path, checkpoint_path(self.path.parent, self.snapshot_id))
        self._is_open, self.is_frozen = False, True

    patch.setattr(RawWriter, "freeze", freeze)


@bug("ours, until an attack from outside; Kafka's FaultHandler is not fatal for snapshots", "snapshots")
def disk_without_room_for_a_snapshot_ends_the_node(patch: Patch) -> None:
    """An error of a snapshot file is taken for one of the log's."""

    @contextmanager
    def not_relied_on() -> Iterator[None]:
        yield

    patch.setattr(writer, "not_relied_on", not_relied_on)


@bug("ours (ADR 134)", "unsaved")
def a_failed_snapshot_is_the_last_one(patch: Patch) -> None:
    """After a snapshot that could not be written, the node takes none before its next start."""
    begin = SnapshotCreation.begin

    def begin_unless_failed(self: SnapshotCreation, log: Any, history: Any, of: Any, how: Any, then: Any) -> None:
        if self.failures.count > 0:
            then(None)
        else:
            begin(self, log, history, of, how, then)

    patch.setattr(SnapshotCreation, "begin", begin_unless_failed)


@bug("ours (ADR 134)", "unsaved")
def snapshots_fail_in_silence(patch: Patch) -> None:
    """A snapshot that found no room is tried again, and nobody is told."""
    patch.setattr(SnapshotFailures, "failed", lambda self, error: None)


@bug("ours (ADR 134)", "unsaved")
def failed_snapshots_are_not_counted(patch: Patch) -> None:
    """A snapshot that found no room is told, and the metric that an alert would watch stays at 0."""
    patch.setattr(SnapshotTroubles, "count", property(lambda troubles: 0))


@bug("ours (ADR 134)", "unsaved")
def parts_of_failed_snapshots_stay(patch: Patch) -> None:
    """A snapshot that failed, or was given up, keeps its room until the next start."""
    patch.setattr(RawWriter, "abandon", RawWriter.close)


@bug("ours until ADR 134", "unsaved")
def snapshot_that_cannot_be_read_ends_the_node(patch: Patch) -> None:
    """A leader ends when a follower asks for a part of a snapshot that its disk does not read."""

    def read(self: SnapshotStore, snapshot_id: OffsetAndEpoch, position: int, size: int, mono_ms: int) -> Any:
        found = self._files.catalog.read(snapshot_id, position, size, mono_ms=mono_ms)
        return ErrorCode.SNAPSHOT_NOT_FOUND if found is None else found

    patch.setattr(SnapshotStore, "_read", read)


@bug("KIP-630 (committed records only); KafkaRaftLog.createNewSnapshot", "snapshots")
def snapshot_is_taken_above_the_high_watermark(patch: Patch) -> None:
    """A snapshot ends at the log end instead of at a committed offset."""
    begin = SnapshotCreation.begin

    def ahead(self: SnapshotCreation, log: Any, history: Any, of: OffsetAndEpoch, how: Any, then: Any) -> None:
        seen: Any = SimpleNamespace(
            start_offset=log.start_offset, epochs=log.epochs, committed_end_offset=log.end_offset, end=log.end
        )
        begin(self, seen, history, log.end, how, then)

    patch.setattr(SnapshotCreation, "begin", ahead)


@bug("KafkaRaftLog.createNewSnapshot (the id must be at the end of a batch)", "unsaved")
def a_snapshot_ends_within_a_batch(patch: Patch) -> None:
    """A snapshot is refused if it ends behind its last batch, but not if it ends within it."""
    recent_header = SnapshotCreation._recent_header

    def cut(self: SnapshotCreation, offset: Offset) -> BatchHeader | None:
        header = recent_header(self, offset)
        return header and replace(header, last_offset_delta=offset - header.base_offset)

    patch.setattr(SnapshotCreation, "_recent_header", cut)


@bug("KIP-630 (the epoch of the last record); KafkaRaftLog.createNewSnapshot checks it", "snapshots")
def snapshot_has_the_epoch_of_the_node(patch: Patch) -> None:
    """A snapshot id has the node's current epoch instead of the epoch of the last record in the snapshot."""
    create = Host.create_snapshot

    def misnamed(self: Host, snapshot_id: OffsetAndEpoch, serializer: Any, on_begun: Any) -> None:
        epoch = self.status.epoch
        vars(creation)["epoch_at"] = lambda *_: epoch
        create(self, replace(snapshot_id, epoch=epoch), serializer, on_begun)

    patch.setattr(creation, "epoch_at", vars(creation)["epoch_at"])
    patch.setattr(Host, "create_snapshot", misnamed)


@bug("Kafka: two nodes' snapshots of one id differ", "snapshots")
def snapshot_has_a_batch_for_each_call(patch: Patch) -> None:
    """Each append call of the application becomes a batch, so the bytes depend on how the calls split the records."""
    append = SnapshotWriter.append

    def append_and_write(self: SnapshotWriter[Any], records: Iterable[Any]) -> None:
        append(self, records)
        self._write_values()

    patch.setattr(SnapshotWriter, "append", append_and_write)


@bug("KafkaRaftLog.truncateToLatestSnapshot (compares first)", "snapshots")
def snapshot_replaces_a_longer_log(patch: Patch) -> None:
    """A snapshot replaces a log that already contains its end and continues after it."""
    holds = LogView.holds

    def ends_here(self: LogView, snapshot_id: OffsetAndEpoch) -> bool:
        return self.end_offset == snapshot_id.offset and holds(self, snapshot_id)

    patch.setattr(LogView, "holds", ends_here)
    patch.setattr(LogView, "is_older_than", lambda self, snapshot_id: self.end != snapshot_id)


@bug("Kafka's OffsetAndEpoch.compareTo (epoch first)", "laggards")
def snapshots_are_ordered_by_offset_only(patch: Patch) -> None:
    """A snapshot of a newer epoch counts as older than a longer log that was never committed."""
    patch.setattr(LogView, "is_older_than", lambda self, snapshot_id: self.end_offset < snapshot_id.offset)
    patch.setattr(log_view, "_age", lambda snapshot_id: snapshot_id.offset)


@bug("KafkaRaftLog.truncateToLatestSnapshot (truncateFullyAndStartAt)", "snapshots")
def installed_log_keeps_its_segments(patch: Patch) -> None:
    """A snapshot replaces the log in memory, but the old segments stay in the directory."""
    begin_anew_at = Log.begin_anew_at

    def forgetful(self: Log, offset: Offset) -> None:
        if self._segments[-1].base_offset != offset:
            self._segments = []
        begin_anew_at(self, offset)

    patch.setattr(Log, "begin_anew_at", forgetful)


@bug("KIP-630 §When to Delete Snapshots", "snapshots")
def log_is_cleaned_above_the_snapshot(patch: Patch) -> None:
    """Cleaning removes all committed records, even those after the end of the newest snapshot."""

    def clean(parts: Any, effect: effects.MoveLogStart, step: Any) -> None:
        execute._log_begins_at(parts, effect.snapshot_id, effect.io)
        above = replace(effect.snapshot_id, offset=parts.delivery.high_watermark)
        execute._submit(parts, replace(effect, snapshot_id=above), step)

    patch.setitem(execute._TABLE, effects.MoveLogStart, clean)


@bug("KIP-630 §When to Delete Snapshots; an exclusive end taken for inclusive", "snapshots")
def cleaning_removes_a_segment_too_many(patch: Patch) -> None:
    """Cleaning removes the segment that holds the new log start, with the records after the snapshot."""
    delete_before = Log.delete_before

    def too_many(self: Log, offset: Offset) -> None:
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        delete_before(self, self._segments[at].base_offset if at < len(self._segments) else offset)

    patch.setattr(Log, "delete_before", too_many)


@bug("ours, almost: a truncation uses this order", "snapshots")
def cleaning_begins_with_the_newest_segment(patch: Patch) -> None:
    """Cleaning deletes segments newest first, as a truncation does: a crash in between leaves a hole in the log.

    A start would finish such a cleaning and so hide the wrong order; the bug removes that step, too.
    """
    patch.setattr(recovery, "_end_of_cleaning", lambda names, scan: Offset(0))
    delete_before = Log.delete_before

    def from_the_end(self: Log, offset: Offset) -> None:
        gone = bisect_right([segment.end_offset for segment in self._segments[:-1]], offset)
        known: list[Segment] = self._segments
        self._segments = [*reversed(known[:gone]), *known[gone:]]
        delete_before(self, offset)

    patch.setattr(Log, "delete_before", from_the_end)


@bug("ours, until the simulator found it (a stalled disk)", "slow_downloads")
def a_look_that_takes_long_wakes_its_node(patch: Patch) -> None:
    """While a node checks for obsolete snapshots, its timer for the next check is in the past and rings without end."""
    poll = SnapshotStore.poll

    def poll_unless_looking(self: SnapshotStore, now: Instant) -> None:
        if not self._is_looking:
            poll(self, now)

    patch.setattr(SnapshotStore, "poll", poll_unless_looking)


@bug("KafkaRaftClient.handleFetchSnapshotResponse (compares sizes)", "snapshots")
def part_of_a_download_counts_as_all(patch: Patch) -> None:
    """A follower takes the leader's first answer for the whole snapshot."""

    def all_of_it(**fields: Any) -> AppendDownload:
        return AppendDownload(**{**fields, "is_last": True})

    patch.setattr(download, "AppendDownload", all_of_it)
    patch.setattr(BatchStream, "finish", lambda self: None)


@bug("ours until a moved world found it", "slow_downloads")
def part_of_another_leader_counts(patch: Patch) -> None:
    """A follower asks its new leader for the bytes of a snapshot after those that it has of the former leader."""
    known = download.on_download_advanced

    def on_download_advanced(replica: Replica, event: DownloadAdvanced, now: Instant) -> None:
        known(replica, replace(event, leader_epoch=replica.epoch), now)

    patch.everywhere(known, on_download_advanced)


@bug("KIP-630 (unaligned records)", "snapshots")
def download_goes_on_at_the_last_whole_batch(patch: Patch) -> None:
    """A follower asks for the bytes after the last whole batch, so it gets the partial batch there twice."""
    patch.setattr(Download, "position", property(lambda self: self._stream.position))


@bug("ours, almost: a partial download survives a power loss", "hollow")
def resumed_download_continues_at_the_uncut_size(patch: Patch) -> None:
    """A resumed download continues at the size its file had when it was opened, although a damaged end was cut off."""
    begin = Download.__init__

    def measured(self: Any, *args: Any, **more: Any) -> None:
        begin(self, *args, **more)
        self._found_bytes = self._raw.size_bytes

    patch.setattr(Download, "__init__", measured)
    patch.setattr(Download, "position", property(lambda self: max(self._found_bytes, self._raw.size_bytes)))


@bug("Rebello et al., USENIX ATC 2020 (fsync errors); ours, as found by a review", "unsynced")
def resumed_part_is_not_written_again(patch: Patch) -> None:
    """A download continues after a failed sync with pages that only the page cache has; no later sync writes them."""
    patch.setattr(RawWriter, "write_again", lambda self, data, position: None)


@bug("Kafka ListenerContext.fireHandleSnapshot", "snapshots")
def listener_is_not_given_the_snapshot(patch: Patch) -> None:
    """A listener continues after the end of a snapshot that it never got."""
    given = Registration._load
    patch.setattr(Registration, "_load", lambda self, reader, load: given(self, reader, lambda reader: reader.close()))


@bug("Kafka RaftEventSimulationTest.LeaderNeverLoadSnapshot", "snapshots")
def leader_is_told_while_it_loads(patch: Patch) -> None:
    """A listener hears that its node leads while it still loads a snapshot."""
    leader_changed = Delivery.leader_changed

    def at_once(self: Delivery, news: NotifyLeaderChange) -> None:
        for registration in self._registrations:
            if registration._is_held or registration._is_busy:
                registration.listener.on_leader_change(news.epoch, news.leader_id)
        leader_changed(self, news)

    patch.setattr(Delivery, "leader_changed", at_once)


@bug("an outside review planted it, and five minutes of downloads did not notice it", "patience")
def snapshot_is_in_use_for_one_period(patch: Patch) -> None:
    """A snapshot counts as in use for one period after its first FetchSnapshot, however long the download takes."""
    read = Catalog.read

    def read_once(
        self: Catalog, snapshot_id: OffsetAndEpoch, position: int, size_bytes_max: int, *, mono_ms: int
    ) -> Slice | None:
        served = self._served.get(snapshot_id)
        first_ms = mono_ms if served is None else served.asked_mono_ms
        return read(self, snapshot_id, position, size_bytes_max, mono_ms=first_ms)

    patch.setattr(Catalog, "read", read_once)


@bug(
    "ours, until a campaign found it: a node was sent one snapshot after the other, and never had the log",
    "all_before_forgers",
)
def snapshot_is_in_use_between_two_searches(patch: Patch) -> None:
    """A snapshot counts as in use only if it was asked for since the last search, however often a node searches."""
    expired = Catalog.expired

    def hasty(self: Catalog, *given: Any, **named: Any) -> list[OffsetAndEpoch]:
        return expired(self, *given, **{**named, "fetch_timeout_ms": 0})

    patch.setattr(Catalog, "expired", hasty)


@bug("KIP-630; a randomly drawn bug", "slow_downloads")
def slices_are_no_sign_of_life(patch: Patch) -> None:
    """A follower that downloads a snapshot does not extend its fetch timeout when a slice arrives."""
    patch.setattr(download, "note_response", lambda replica, now, *, has_progress: None)


@bug("a randomly drawn bug", "old_heads")
def damaged_old_snapshot_ends_its_node(patch: Patch) -> None:
    """A node that looks for obsolete snapshots stops when it cannot read one of them, although it needs a newer one."""

    def read_fact(self: Catalog, snapshot_id: OffsetAndEpoch) -> KeptSnapshot:
        size_bytes, head = read_head(self._fs, self._directory, snapshot_id)
        return KeptSnapshot(
            snapshot_id=snapshot_id,
            size_bytes=size_bytes,
            last_contained_log_timestamp=head.last_contained_log_timestamp,
        )

    patch.setattr(Catalog, "_read_fact", read_fact)


@bug("ours, until the simulator found it", "damaged_while_saving")
def own_snapshot_keeps_the_fetch_under_way(patch: Patch) -> None:
    """A snapshot replaces a damaged log, but the Fetch that asked for records after the damage stays outstanding."""
    _keep_the_fetch(patch, is_damaged=True)


def _keep_the_fetch(patch: Patch, *, is_damaged: bool) -> None:
    install = snapshot._install

    def forgetful(replica: Replica, event: SnapshotFrozen) -> None:
        with Patch() as inner:
            if is_damaged == (replica.log.quarantine is not None):
                inner.setattr(Connections, "reset", lambda self: None)
            install(replica, event)

    patch.setattr(snapshot, "_install", forgetful)


@bug("Kafka SnapshotGenerator (a snapshot has the provenance of its own image)", "snapshots,asked")
def snapshot_state_is_one_delivery_old(patch: Patch) -> None:
    """A listener is asked for its state as of the delivery before its last one."""
    given, take = SnapshotTrigger.given, SnapshotTrigger.take
    before: dict[int, tuple[OffsetAndEpoch | None, OffsetAndEpoch]] = {}

    def note(self: SnapshotTrigger, end: OffsetAndEpoch, size_bytes: int, high_watermark: Offset) -> None:
        _, last = before.get(id(self), (None, end))
        before[id(self)] = (last, end)
        given(self, end, size_bytes, high_watermark)

    def take_before(self: SnapshotTrigger) -> tuple[OffsetAndEpoch, Reason] | None:
        found = take(self)
        former, _ = before.get(id(self), (None, None))
        return found if found is None or former is None else (former, found[1])

    patch.setattr(SnapshotTrigger, "given", note)
    patch.setattr(SnapshotTrigger, "take", take_before)


@bug("Kafka ListenerContext (one reader at a time)", "snapshots,asked")
def busy_listener_is_called(patch: Patch) -> None:
    """A listener that holds its registration, to write or load a snapshot, is called all the same."""

    def hold(self: Registration) -> None:
        del self

    patch.setattr(Registration, "hold", hold)
