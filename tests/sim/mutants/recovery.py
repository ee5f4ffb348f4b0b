"""Bugs of recovery: a node that was killed, or lost power, believes its own files too much or too little."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykraft.core.log_view import LogView
from pykraft.errors import CorruptionError, ReadError, StorageError
from pykraft.host import open as host_open
from pykraft.log import log_scan, recovery
from pykraft.log.fs import File
from pykraft.log.judge import Chain, Evidence
from pykraft.log.log import Log
from pykraft.log.log_scan import scan_log
from pykraft.log.scan import scan_headers, scan_runs
from pykraft.log.small_files import epoch_checkpoint, recovery_point
from pykraft.log.small_files.recovery_point import Point, parse_recovery_point
from pykraft.log.small_files.slots import parse_slots
from pykraft.types import Offset
from tests.sim.mutants.durability import without_sync
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def recovery_does_not_sync(patch: Patch) -> None:
    """After a kill, a node takes what it reads from the page cache for durable."""
    patch.setattr(recovery, "_make_durable", without_sync(recovery._make_durable))


def the_older_slot_counts_offline(patch: Patch) -> None:
    """Who only reads a directory takes the older recovery point, so damage looks like a torn tail."""

    def parse_older(path: Path, content: bytes) -> Point:
        slots = parse_slots(content)
        return recovery_point._point_of(path, slots[0].payload) if slots else parse_recovery_point(path, content)

    patch.everywhere(parse_recovery_point, parse_older)


def lost_recovery_point_makes_the_directory_kafkas(patch: Patch) -> None:
    """A directory of ours without its recovery point is taken for Kafka's: the log is cut at a rotten byte."""
    patch.setattr(recovery, "wrote_point", lambda _fs, _directory: False)


def recovery_ignores_checksums(patch: Patch) -> None:
    """Recovery accepts a torn batch as valid."""

    def scan_runs(path: Path, file: File, position: int, end: int) -> Iterator[tuple[int, Any]]:
        yield from scan_headers(path, file, position, end)

    patch.setattr(log_scan, "scan_runs", scan_runs)


def torn_tail_is_taken_for_damage(patch: Patch) -> None:
    """The recovery point becomes durable before the log does, so that a torn tail looks like corruption."""
    flush = Log.flush

    def early(self: Log) -> None:
        assert self._point is not None
        self._point.raise_to(self.end_offset)
        self._point.settle()
        flush(self)

    patch.setattr(Log, "flush", early)


def damage_is_taken_for_a_torn_tail(patch: Patch) -> None:
    """Recovery cuts the log at the first bad batch even below the recovery point, and reports no damage."""

    def trusting(*given: Any, **named: Any) -> Any:
        return scan_log(*given, **{**named, "evidence": Evidence(recovery_point=Offset(0))})

    patch.setattr(recovery, "scan_log", trusting)


def an_older_quorum_state_ends_the_log(patch: Patch) -> None:
    """Recovery cuts off batches above the epoch in quorum-state as a torn tail, although they are whole."""

    def check_epoch(self: Chain, path: Path, position: int, header: Any) -> None:
        if header.epoch > self._evidence.epoch_max:
            raise CorruptionError(path, position=position, expected="a smaller epoch", found=f"epoch {header.epoch}")

    patch.setattr(Chain, "_check_epoch", check_epoch)


def a_lost_sector_ends_the_start(patch: Patch) -> None:
    """A read error in the log counts as a disk error, so the node does not start."""

    def fatal(path: Path, file: File, *places: Any) -> Iterator[Any]:
        try:
            yield from scan_runs(path, file, *places)
        except ReadError as error:
            raise StorageError(path, str(error)) from error

    patch.setattr(log_scan, "scan_runs", fatal)


def oldest_segment_is_dropped(patch: Patch) -> None:
    """A node deletes its oldest segment to save space, although no snapshot covers it."""
    flush = Log.flush

    def saving(self: Log) -> None:
        flush(self)
        if len(self._segments) > 2:
            self._segments.pop(0).remove()
            self._fs.sync_dir(self.path)
            self._views = self._views[1:]

    def unasked(*, start_offset: Offset, **rest: Any) -> LogView:
        view = LogView(start_offset=Offset(0), **rest)
        view.start_offset = view.committed_end_offset = start_offset
        return view

    patch.setattr(Log, "flush", saving)
    patch.setattr(recovery, "refuse_impossible", lambda *_: None)
    patch.setattr(host_open, "LogView", unasked)


def list_of_epochs_is_a_small_file(patch: Patch) -> None:
    """The epoch checkpoint has the size limit of small files, so a log with too many epochs cannot be opened."""
    patch.setattr(epoch_checkpoint, "read_content", lambda fs, path: fs.read(path))


MUTANTS = (
    Mutant(plant=the_older_slot_counts_offline, source="LMDB's two meta pages: the newer one counts"),
    Mutant(
        plant=list_of_epochs_is_a_small_file,
        source="ours, as found by a review (61,000 epochs)",
        scenario="many_epochs",
    ),
    Mutant(
        plant=an_older_quorum_state_ends_the_log,
        source="Kafka QuorumState.initialize (the log's epoch wins)",
        scenario="restored",
    ),
    Mutant(
        plant=lost_recovery_point_makes_the_directory_kafkas,
        source="ours, until an attack from outside",
        scenario="lost_points",
    ),
    Mutant(plant=recovery_does_not_sync, source="ours: kill is not power loss"),
    Mutant(plant=recovery_ignores_checksums, source="Protocol-Aware Recovery (FAST 2018)", scenario="torn"),
    Mutant(
        plant=torn_tail_is_taken_for_damage,
        source="Protocol-Aware Recovery (FAST 2018): the tail is ambiguous",
        scenario="torn",
    ),
    Mutant(plant=damage_is_taken_for_a_torn_tail, source="Kafka LogLoader; ZooKeeper in FAST 2018", scenario="silent"),
    Mutant(
        plant=a_lost_sector_ends_the_start,
        source="ours, as found by a review; IRON File Systems (SOSP 2005)",
        scenario="lost_sectors",
    ),
    Mutant(plant=oldest_segment_is_dropped, source="KIP-630 (retention needs a snapshot)"),
)
