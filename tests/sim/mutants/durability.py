"""Bugs of durability: a node acknowledges, counts or cuts records before the disk has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykraft.core.log_view import LogView
from pykraft.core.outbox import Outbox, Relies
from pykraft.errors import StorageError
from pykraft.log.lane import OrderedLane
from pykraft.log.log import Log
from pykraft.log.segment import Segment
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.types import Io
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def fetch_does_not_wait_for_its_append(patch: Patch) -> None:
    """A follower's Fetch acknowledges records that it has not flushed."""
    after = Outbox._after
    patch.setattr(
        Outbox, "_after", lambda self, relies: after(self, Relies.ELECTION if relies is Relies.LOG else relies)
    )


def append_is_not_flushed(patch: Patch) -> None:
    """The storage lane reports an append as durable when it is only in the page cache."""

    def append(self: OrderedLane, appends: list[Any]) -> None:
        if appends:
            self._log.append(appends)
            appends.clear()

    patch.setattr(OrderedLane, "_append", append)


def truncation_is_not_synced(patch: Patch) -> None:
    """A truncation is not synced: after a power loss the removed records may be back."""
    patch.setattr(Log, "truncate_to", without_sync(Log.truncate_to))


def new_segment_has_no_durable_name(patch: Patch) -> None:
    """A node creates a segment and does not sync the directory."""
    flush = Log.flush

    def forgetful(self: Log) -> None:
        self._is_directory_dirty = False
        flush(self)

    patch.setattr(Log, "flush", forgetful)


def completion_counts_for_everything(patch: Patch) -> None:
    """When any write completes, the whole log counts as flushed."""

    def persist(self: LogView, io: Io) -> None:
        while self._unflushed and self._unflushed[0].io <= io:
            self._unflushed.popleft()
            self.flushed_end_offset = self.end_offset

    patch.setattr(LogView, "persist", persist)


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


MUTANTS = (
    Mutant(plant=fetch_does_not_wait_for_its_append, source="KAFKA-14099 (a follower must flush before it fetches)"),
    Mutant(plant=append_is_not_flushed, source="Kafka's topics by default; KRaft must not"),
    Mutant(plant=truncation_is_not_synced, source="etcd's append ABA story, for disks"),
    Mutant(plant=new_segment_has_no_durable_name, source="ALICE (OSDI 2014): directories are not synced"),
    Mutant(plant=completion_counts_for_everything, source="etcd raft/log_unstable.go (the append ABA problem)"),
    Mutant(plant=failed_sync_is_tried_again, source="PostgreSQL's fsync failure of 2018", scenario="disk"),
    Mutant(plant=recovery_point_is_not_lowered, source="Kafka LogManager.truncateTo (checkpoints after truncation)"),
)
