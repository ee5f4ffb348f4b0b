"""Bugs of snapshots: they count too early, have the wrong id or content, or replace too much of the log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from pykraft.core import effects, log_view
from pykraft.core.log_view import LogView
from pykraft.errors import ErrorCode
from pykraft.host import execute
from pykraft.host.host import Host
from pykraft.host.snapshots import creation
from pykraft.host.snapshots.creation import SnapshotCreation
from pykraft.host.snapshots.files import SnapshotFailures, SnapshotTroubles
from pykraft.host.snapshots.store import SnapshotStore
from pykraft.log import recovery
from pykraft.log.log import Log
from pykraft.log.segment import Segment
from pykraft.protocol.batch import BatchHeader
from pykraft.snapshot import writer
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.writer import RawWriter, SnapshotWriter
from pykraft.types import Instant, Offset, OffsetAndEpoch
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def snapshot_is_not_synced(patch: Patch) -> None:
    """A snapshot is renamed into place while its bytes are only in the page cache."""

    def freeze(self: RawWriter) -> None:
        self._fs.rename(self.path, checkpoint_path(self.path.parent, self.snapshot_id))
        self._fs.sync_dir(self.path.parent)
        self._is_open, self.is_frozen = False, True

    patch.setattr(RawWriter, "freeze", freeze)


def snapshot_is_renamed_before_it_is_synced(patch: Patch) -> None:
    """A snapshot is renamed into place before its bytes are synced: a power loss in between leaves a hollow file."""

    def freeze(self: RawWriter) -> None:
        self._fs.rename(self.path, checkpoint_path(self.path.parent, self.snapshot_id))
        self._fs.sync_dir(self.path.parent)
        self._file.sync()
        self._is_open, self.is_frozen = False, True

    patch.setattr(RawWriter, "freeze", freeze)


def snapshot_has_no_durable_name(patch: Patch) -> None:
    """A snapshot is renamed into place, and the directory is not synced."""

    def freeze(self: RawWriter) -> None:
        self._file.sync()
        self._fs.rename(self.path, checkpoint_path(self.path.parent, self.snapshot_id))
        self._is_open, self.is_frozen = False, True

    patch.setattr(RawWriter, "freeze", freeze)


def disk_without_room_for_a_snapshot_ends_the_node(patch: Patch) -> None:
    """An error of a snapshot file is taken for one of the log's."""

    @contextmanager
    def not_relied_on() -> Iterator[None]:
        yield

    patch.setattr(writer, "not_relied_on", not_relied_on)


def a_failed_snapshot_is_the_last_one(patch: Patch) -> None:
    """After a snapshot that could not be written, the node takes none before its next start."""
    begin = SnapshotCreation.begin

    def begin_unless_failed(self: SnapshotCreation, log: Any, history: Any, of: Any, how: Any, then: Any) -> None:
        if self.failures.count > 0:
            then(None)
        else:
            begin(self, log, history, of, how, then)

    patch.setattr(SnapshotCreation, "begin", begin_unless_failed)


def snapshots_fail_in_silence(patch: Patch) -> None:
    """A snapshot that found no room is tried again, and nobody is told."""
    patch.setattr(SnapshotFailures, "failed", lambda self, error: None)


def failed_snapshots_are_not_counted(patch: Patch) -> None:
    """A snapshot that found no room is told, and the metric that an alert would watch stays at 0."""
    patch.setattr(SnapshotTroubles, "count", property(lambda troubles: 0))


def parts_of_failed_snapshots_stay(patch: Patch) -> None:
    """A snapshot that failed, or was given up, keeps its room until the next start."""
    patch.setattr(RawWriter, "abandon", RawWriter.close)


def snapshot_that_cannot_be_read_ends_the_node(patch: Patch) -> None:
    """A leader ends when a follower asks for a part of a snapshot that its disk does not read."""

    def read(self: SnapshotStore, snapshot_id: OffsetAndEpoch, position: int, size: int, mono_ms: int) -> Any:
        found = self._files.catalog.read(snapshot_id, position, size, mono_ms=mono_ms)
        return ErrorCode.SNAPSHOT_NOT_FOUND if found is None else found

    patch.setattr(SnapshotStore, "_read", read)


def snapshot_is_taken_above_the_high_watermark(patch: Patch) -> None:
    """A snapshot ends at the log end instead of at a committed offset."""
    begin = SnapshotCreation.begin

    def ahead(self: SnapshotCreation, log: Any, history: Any, of: OffsetAndEpoch, how: Any, then: Any) -> None:
        seen: Any = SimpleNamespace(
            start_offset=log.start_offset, epochs=log.epochs, committed_end_offset=log.end_offset, end=log.end
        )
        begin(self, seen, history, log.end, how, then)

    patch.setattr(SnapshotCreation, "begin", ahead)


def a_snapshot_ends_within_a_batch(patch: Patch) -> None:
    """A snapshot is refused if it ends behind its last batch, but not if it ends within it."""
    recent_header = SnapshotCreation._recent_header

    def cut(self: SnapshotCreation, offset: Offset) -> BatchHeader | None:
        header = recent_header(self, offset)
        return header and replace(header, last_offset_delta=offset - header.base_offset)

    patch.setattr(SnapshotCreation, "_recent_header", cut)


def snapshot_has_the_epoch_of_the_node(patch: Patch) -> None:
    """A snapshot id has the node's current epoch instead of the epoch of the last record in the snapshot."""
    create = Host.create_snapshot

    def misnamed(self: Host, snapshot_id: OffsetAndEpoch, serializer: Any, on_begun: Any) -> None:
        epoch = self.status.epoch
        vars(creation)["epoch_at"] = lambda *_: epoch
        create(self, replace(snapshot_id, epoch=epoch), serializer, on_begun)

    patch.setattr(creation, "epoch_at", vars(creation)["epoch_at"])
    patch.setattr(Host, "create_snapshot", misnamed)


def snapshot_has_a_batch_for_each_call(patch: Patch) -> None:
    """Each append call of the application becomes a batch, so the bytes depend on how the calls split the records."""
    append = SnapshotWriter.append

    def append_and_write(self: SnapshotWriter[Any], records: Iterable[Any]) -> None:
        append(self, records)
        self._write_values()

    patch.setattr(SnapshotWriter, "append", append_and_write)


def snapshot_replaces_a_longer_log(patch: Patch) -> None:
    """A snapshot replaces a log that already contains its end and continues after it."""
    holds = LogView.holds

    def ends_here(self: LogView, snapshot_id: OffsetAndEpoch) -> bool:
        return self.end_offset == snapshot_id.offset and holds(self, snapshot_id)

    patch.setattr(LogView, "holds", ends_here)
    patch.setattr(LogView, "is_older_than", lambda self, snapshot_id: self.end != snapshot_id)


def snapshots_are_ordered_by_offset_only(patch: Patch) -> None:
    """A snapshot of a newer epoch counts as older than a longer log that was never committed."""
    patch.setattr(LogView, "is_older_than", lambda self, snapshot_id: self.end_offset < snapshot_id.offset)
    patch.setattr(log_view, "_age", lambda snapshot_id: snapshot_id.offset)


def installed_log_keeps_its_segments(patch: Patch) -> None:
    """A snapshot replaces the log in memory, but the old segments stay in the directory."""
    begin_anew_at = Log.begin_anew_at

    def forgetful(self: Log, offset: Offset) -> None:
        if self._segments[-1].base_offset != offset:
            self._segments = []
        begin_anew_at(self, offset)

    patch.setattr(Log, "begin_anew_at", forgetful)


def log_is_cleaned_above_the_snapshot(patch: Patch) -> None:
    """Cleaning removes all committed records, even those after the end of the newest snapshot."""

    def clean(parts: Any, effect: effects.MoveLogStart, step: Any) -> None:
        execute._log_begins_at(parts, effect.snapshot_id, effect.io)
        above = replace(effect.snapshot_id, offset=parts.delivery.high_watermark)
        execute._submit(parts, replace(effect, snapshot_id=above), step)

    patch.setitem(execute._TABLE, effects.MoveLogStart, clean)


def cleaning_removes_a_segment_too_many(patch: Patch) -> None:
    """Cleaning removes the segment that holds the new log start, with the records after the snapshot."""
    delete_before = Log.delete_before

    def too_many(self: Log, offset: Offset) -> None:
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        delete_before(self, self._segments[at].base_offset if at < len(self._segments) else offset)

    patch.setattr(Log, "delete_before", too_many)


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


def a_look_that_takes_long_wakes_its_node(patch: Patch) -> None:
    """While a node checks for obsolete snapshots, its timer for the next check is in the past and rings without end."""
    poll = SnapshotStore.poll

    def poll_unless_looking(self: SnapshotStore, now: Instant) -> None:
        if not self._is_looking:
            poll(self, now)

    patch.setattr(SnapshotStore, "poll", poll_unless_looking)


MUTANTS = (
    Mutant(
        plant=a_look_that_takes_long_wakes_its_node,
        source="ours, until the simulator found it (a stalled disk)",
        scenario="slow_downloads",
    ),
    Mutant(plant=snapshot_is_not_synced, source="ALICE (OSDI 2014): rename without fsync", scenario="snapshots"),
    Mutant(
        plant=snapshot_is_renamed_before_it_is_synced,
        source="ALICE (OSDI 2014): rename before fsync",
        scenario="hollow",
    ),
    Mutant(
        plant=disk_without_room_for_a_snapshot_ends_the_node,
        source="ours, until an attack from outside; Kafka's FaultHandler is not fatal for snapshots",
        scenario="snapshots",
    ),
    Mutant(plant=a_failed_snapshot_is_the_last_one, source="ours (ADR 134)", scenario="unsaved"),
    Mutant(plant=snapshots_fail_in_silence, source="ours (ADR 134)", scenario="unsaved"),
    Mutant(plant=failed_snapshots_are_not_counted, source="ours (ADR 134)", scenario="unsaved"),
    Mutant(plant=parts_of_failed_snapshots_stay, source="ours (ADR 134)", scenario="unsaved"),
    Mutant(plant=snapshot_that_cannot_be_read_ends_the_node, source="ours until ADR 134", scenario="unsaved"),
    Mutant(
        plant=snapshot_has_no_durable_name,
        source="ALICE (OSDI 2014): directories are not synced",
        scenario="snapshots",
    ),
    Mutant(
        plant=snapshot_is_taken_above_the_high_watermark,
        source="KIP-630 (committed records only); KafkaRaftLog.createNewSnapshot",
        scenario="snapshots",
    ),
    Mutant(
        plant=a_snapshot_ends_within_a_batch,
        source="KafkaRaftLog.createNewSnapshot (the id must be at the end of a batch)",
        scenario="unsaved",
    ),
    Mutant(
        plant=snapshot_has_the_epoch_of_the_node,
        source="KIP-630 (the epoch of the last record); KafkaRaftLog.createNewSnapshot checks it",
        scenario="snapshots",
    ),
    Mutant(
        plant=snapshot_has_a_batch_for_each_call,
        source="Kafka: two nodes' snapshots of one id differ",
        scenario="snapshots",
    ),
    Mutant(
        plant=snapshot_replaces_a_longer_log,
        source="KafkaRaftLog.truncateToLatestSnapshot (compares first)",
        scenario="snapshots",
    ),
    Mutant(
        plant=snapshots_are_ordered_by_offset_only,
        source="Kafka's OffsetAndEpoch.compareTo (epoch first)",
        scenario="laggards",
    ),
    Mutant(
        plant=installed_log_keeps_its_segments,
        source="KafkaRaftLog.truncateToLatestSnapshot (truncateFullyAndStartAt)",
        scenario="snapshots",
    ),
    Mutant(
        plant=log_is_cleaned_above_the_snapshot,
        source="KIP-630 §When to Delete Snapshots",
        scenario="snapshots",
    ),
    Mutant(
        plant=cleaning_removes_a_segment_too_many,
        source="KIP-630 §When to Delete Snapshots; an exclusive end taken for inclusive",
        scenario="snapshots",
    ),
    Mutant(
        plant=cleaning_begins_with_the_newest_segment,
        source="ours, almost: a truncation uses this order",
        scenario="snapshots",
    ),
)
