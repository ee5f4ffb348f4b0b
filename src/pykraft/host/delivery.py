"""Delivers committed batches and leader changes to the application: one small state machine for each listener.

Invariant: a listener gets every committed batch from the log start on, in order, exactly once. It learns that this node
leads only after it got everything below the epoch's first record and that record, so that it then has the complete
committed state.

Recent batches come from memory, in the call that raised the high watermark. A listener that is further behind reads the
files on the bulk lane, one bounded piece at a time. A piece is cut at the high watermark of the moment at which its
read *began*:

1. The high watermark is 10 and a read from 5 begins; the file holds 5-14.
2. The log is truncated to 10, other records 10-14 are appended, and the high watermark rises to 15.
3. The read returns the old 10-14, which were never committed.

Below the log start, only a snapshot has the records. A listener with a `Loader` gets the newest one, at first and
whenever it falls behind the log start, or the bootstrap checkpoint where there is none; one without skips to the log
start. A listener that saves its state is asked to between two pieces.

Source: Kafka's ``RaftClient.Listener`` and ``KafkaRaftClient.ListenerContext``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pykraft.core.effects import NotifyLeaderChange, Report
from pykraft.errors import CorruptionError, UsageError
from pykraft.host.fetch_read import HeaderAndBytes, ReadableLog, RecentBatches, Suspect, batches_up_to, read_durable
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.host.snapshots import creation
from pykraft.protocol.records import decode_values
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Buffer, Epoch, NodeId, Offset, OffsetAndEpoch, ReportKind

PIECE_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Upper bound of bytes passed to a listener in one call, unless a single batch is larger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """One committed batch. ``end_offset`` is exclusive, the timestamp wall ms; ``data`` is the whole encoded batch."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    timestamp_ms: int
    is_control: bool
    data: Buffer

    def values(self) -> list[bytes]:
        """Decode the values of the records; none for a control batch.

        Errors: ProtocolError (INVALID_RECORD) when another program wrote records that are not KRaft's.
        """
        return [] if self.is_control else decode_values(self.data)


class HostListener(Protocol):
    """The application's side, called on the host's thread: it must return soon and never raise.

    It may call the host back (propose, resign, register).
    """

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """The next committed batches, at least one."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """The epoch rose (``leader_id`` None: its leader is unknown yet), or its leader became known."""


class Registration:
    """One listener and its position. Its owner can hold it, release it and remove it.

    A listener that passes its batches to another thread or task holds its registration until they are processed.
    Batches committed meanwhile then wait in the log, not in a queue.
    """

    def __init__(
        self,
        delivery: Delivery,
        listener: HostListener,
        next_offset: Offset,
        *,
        is_held: bool,
        loading: creation.SnapshotLoading,
    ) -> None:
        self.listener = listener
        self._loading = loading
        self._saving = (
            creation.SnapshotTrigger(delivery.reading.files.settings, delivery.wake) if loading.can_save else None
        )
        self.news: NotifyLeaderChange | None = None
        self._delivery = delivery
        self._next_offset = next_offset
        self._is_busy = False
        self._has_begun = False
        self._is_held = is_held
        self._is_removed = False

    @property
    def next_offset(self) -> Offset:
        """Start of the next batch; before the first one, an offset within it."""
        return self._next_offset

    def hold(self) -> None:
        """Do not call the listener again after the current call."""
        self._is_held = True

    def release(self) -> None:
        """Continue after `hold`; the listener may be called before this returns."""
        self._is_held = False
        self.progress()

    def remove(self) -> None:
        """Never call the listener again. Errors: UsageError when it was removed already."""
        self._delivery.remove(self)
        self._is_removed = True

    def progress(self) -> None:
        """Deliver what can be delivered now; a nested call from the listener returns at once."""
        if self._is_busy:
            return
        self._is_busy = True
        while self._is_fed and (self._skip() or self._deliver_change() or self._save() or self._feed_from_memory()):
            if self._has_all:  # mostly so: ask nothing more, for each commit on each node
                break
        self._is_busy = False
        if self._is_fed and (wanted := self._wanted) is not None:
            self._load_snapshot(wanted)
        elif self._is_fed and self._next_offset < min(
            self._delivery.high_watermark, self._delivery.recent.start_offset
        ):
            self._feed_from_files()

    @property
    def _is_fed(self) -> bool:
        """True when the listener may be called: its owner neither holds nor has removed its registration."""
        return not (self._is_held or self._is_removed)

    @property
    def _has_all(self) -> bool:
        """True for a listener without snapshots that was told all there is."""
        is_plain = self.news is None and self._loading.loader is None
        return is_plain and self._next_offset >= self._delivery.high_watermark

    @property
    def _wanted(self) -> creation.SnapshotToLoad | None:
        """The snapshot to deliver next; None when records come next."""
        return self._loading.wanted(self._next_offset, self._delivery.start_offset)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return None if self._saving is None else self._saving.next_deadline_ms

    def poll(self, mono_ms: int) -> None:
        if self._saving is not None:
            self._saving.poll(mono_ms, self._delivery.high_watermark)
            self.progress()

    def _save(self) -> bool:
        due = None if self._saving is None else self._saving.take()
        if due is None:
            return False
        snapshot_id, reason = due
        loader = self._loading.loader
        assert loader is not None
        assert loader.save is not None
        place = f"up to offset {snapshot_id.offset} of epoch {snapshot_id.epoch}"
        text = f"the application is asked for a snapshot {place}: {reason.value}"
        report = Report(text=text, kind=ReportKind.SNAPSHOT_DUE, values=(snapshot_id.offset,))
        self._delivery.ports.report(report)
        loader.save(snapshot_id)
        return True

    def _skip(self) -> bool:
        if self._loading.loader is not None or self._next_offset >= self._delivery.start_offset:
            return False
        missed_from, self._next_offset = self._next_offset, self._delivery.start_offset
        self._has_begun = False
        self._loading.skipped(missed_from, self._next_offset)
        return True

    def _load_snapshot(self, wanted: creation.SnapshotToLoad) -> None:
        self._is_busy = True
        self._delivery.reading.read(wanted.open, lambda reader: self._load(reader, wanted.load))

    def _load(self, reader: SnapshotReader[Any], load: Callable[[SnapshotReader[Any]], None]) -> None:
        """Deliver an open snapshot, unless the listener was removed or is held."""
        self._is_busy = False
        if not self._is_fed:
            reader.close()
            return
        self._loading.given()
        self._has_begun = False
        self._next_offset = reader.snapshot_id.offset
        if self._saving is not None:
            self._saving.begin_anew()
        load(reader)
        self.progress()

    def _deliver_change(self) -> bool:
        news = self.news
        if news is None:
            return False
        # A listener that hears that this node leads must have the complete committed state, up to the epoch's first
        # record.
        if news.epoch_start_offset is not None and self._next_offset <= news.epoch_start_offset:
            return False
        self.news = None
        self.listener.on_leader_change(news.epoch, news.leader_id)
        return True

    def _feed_from_memory(self) -> bool:
        recent, high_watermark = self._delivery.recent, self._delivery.high_watermark
        if self._next_offset >= high_watermark or self._wanted is not None or recent.start_offset > self._next_offset:
            return False
        return self._give(recent.take(self._next_offset, high_watermark, PIECE_SIZE_BYTES_MAX))

    def _feed_from_files(self) -> None:
        """Read the next piece; the registration is busy until it arrives.

        A high watermark within a batch, which only a faulty peer can cause, delivers nothing until the next one.
        """
        self._is_busy = True
        log, offset, high_watermark = self._delivery.log, self._next_offset, self._delivery.high_watermark
        self._delivery.ports.submit_read(
            lambda: read_durable(log, offset, PIECE_SIZE_BYTES_MAX), lambda data: self._read(data, high_watermark)
        )

    def _read(self, data: Buffer | CorruptionError | None, high_watermark: Offset) -> None:
        """Deliver a piece. Damage is reported, and read again when it is mended."""
        if isinstance(data, CorruptionError):
            self._is_busy = False
            self._delivery.suspect(self._next_offset, self.progress)
            return
        # Drop the piece: only the next offset waits, and the piece is read again from there.
        if data is None or not self._is_fed:
            self._is_busy = False
            # The log start has passed this listener during the read: a snapshot comes next, or it skips to the log
            # start.
            if self._next_offset < self._delivery.start_offset:
                self.progress()
            return
        # Cut at the high watermark of step 1; after a truncation (step 2) a newer one covers other records (step 3).
        has_given = self._give(batches_up_to(high_watermark, data))
        self._is_busy = False
        if has_given:
            self.progress()

    def _give(self, batches: Sequence[HeaderAndBytes]) -> bool:
        if not batches:
            return False
        first = batches[0][0]
        assert first.base_offset == self._next_offset or (
            not self._has_begun and first.base_offset <= self._next_offset < first.end_offset
        ), "nothing is left out, nothing comes twice"
        self._loading.given()
        self._has_begun = True
        self._next_offset = batches[-1][0].end_offset
        if self._saving is not None:
            end = OffsetAndEpoch(self._next_offset, batches[-1][0].epoch)
            self._saving.given(end, sum(header.size_bytes for header, _ in batches), self._delivery.high_watermark)
        self.listener.on_commit(
            [
                CommittedBatch(
                    base_offset=header.base_offset,
                    end_offset=header.end_offset,
                    epoch=header.epoch,
                    timestamp_ms=header.max_timestamp,
                    is_control=header.is_control,
                    data=data,
                )
                for header, data in batches
            ]
        )
        return True


class Delivery:
    """All listeners of one node."""

    def __init__(
        self,
        ports: Ports,
        log: ReadableLog,
        recent: RecentBatches,
        start_offset: Offset,
        suspect: Suspect,
        reading: creation.SnapshotReading,
    ) -> None:
        self.ports = ports
        self.reading = reading
        self.log = log
        self.recent = recent
        self.suspect = suspect
        self.high_watermark = start_offset
        """Exclusive end of what the node knows to be committed; it never goes back."""
        self.start_offset = start_offset
        """Log start offset: only a snapshot has the records below."""
        self._registrations: list[Registration] = []
        self._newest: NotifyLeaderChange | None = None

    def register(
        self,
        listener: HostListener,
        from_offset: Offset | None = None,
        *,
        is_held: bool = False,
        loader: creation.Loader | None = None,
        on_skipped: creation.OnSkipped | None = None,
    ) -> Registration:
        """Serve this listener, too, from the newest snapshot or an offset on, and tell it the newest leader change.

        With ``is_held`` it is not called before `Registration.release`. Without a ``loader`` it begins at the log
        start; with one, an offset below the log start brings the newest snapshot.

        Errors: UsageError for one that is already registered, and without a loader for an offset below the log start.
        """
        if any(known.listener is listener for known in self._registrations):
            raise UsageError(f"{listener!r} is already registered")
        next_offset = self.start_offset if from_offset is None else from_offset
        if next_offset < self.start_offset and loader is None:
            raise UsageError(f"offset {next_offset} is not in the log: it begins at {self.start_offset}")
        is_fresh = from_offset is None
        if is_fresh and loader is not None:
            # A new listener gets the newest snapshot or the bootstrap checkpoint first.
            next_offset = Offset(0)
        loading = creation.SnapshotLoading(loader, self.reading.files, is_fresh=is_fresh, on_skipped=on_skipped)
        registration = Registration(self, listener, next_offset, is_held=is_held, loading=loading)
        registration.news = self._newest
        self._registrations.append(registration)
        registration.progress()
        return registration

    def remove(self, registration: Registration) -> None:
        """Stop serving this registration. Errors: UsageError when it was removed already."""
        if registration not in self._registrations:
            raise UsageError(f"{registration.listener!r} is not registered")
        self._registrations.remove(registration)

    def committed(self, high_watermark: Offset) -> None:
        self.high_watermark = max(self.high_watermark, high_watermark)
        self._progress()

    def log_begins_at(self, start_offset: Offset) -> None:
        """The log start moved here: only a snapshot has the records below."""
        self.start_offset = start_offset
        # A snapshot contains committed records only.
        self.high_watermark = max(self.high_watermark, start_offset)
        self._progress()

    def leader_changed(self, news: NotifyLeaderChange) -> None:
        """A leader change replaces an older one that a listener has not been told."""
        self._newest = news
        for registration in self._registrations:
            registration.news = news
        self._progress()

    def leads_no_more(self) -> None:
        """This node does not lead: a listener that was not told that it did need not know."""
        if self._newest is None or self._newest.epoch_start_offset is None:
            return
        self._newest = None
        for registration in self._registrations:
            registration.news = None

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms); None unless a listener saves its state."""
        earliest_ms: int | None = None
        for registration in self._registrations:  # each step asks: a loop is quicker than a generator
            deadline_ms = registration.next_deadline_ms
            if earliest_ms is None or (deadline_ms is not None and deadline_ms < earliest_ms):
                earliest_ms = deadline_ms
        return earliest_ms

    def poll(self, mono_ms: int) -> None:
        for registration in list(self._registrations):
            registration.poll(mono_ms)

    def wake(self) -> None:
        """Request a call of `poll` soon."""
        self.ports.wake_at(AT_ONCE_MS)

    def _progress(self) -> None:
        for registration in list(self._registrations):
            registration.progress()
