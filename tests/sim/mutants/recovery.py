"""Bugs of a start after a crash, of damaged logs and of the quarantine that they lead to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pykraft.core.effects import LeaveQuarantine
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchResponse, VoteRequest
from pykraft.core.on import corruption, fetch_response, vote
from pykraft.core.replica import Replica
from pykraft.errors import CorruptionError, ReadError, StorageError
from pykraft.host import open as host_open
from pykraft.log import judge, log_scan, recovery, segment
from pykraft.log.fs import File
from pykraft.log.judge import Chain, Evidence
from pykraft.log.log import Log
from pykraft.log.log_scan import scan_log
from pykraft.log.scan import scan_headers, scan_runs
from pykraft.log.segment import SegmentView
from pykraft.log.small_files import epoch_checkpoint, recovery_point
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.recovery_point import Point, parse_recovery_point
from pykraft.log.small_files.slots import parse_slots
from pykraft.protocol.batch import BatchHeader, BatchRun, scan
from pykraft.types import Buffer, Offset
from tests.sim.mutants.patch import Patch, bug
from tests.sim.mutants.replication import without_sync


@bug("ours: kill is not power loss")
def recovery_does_not_sync(patch: Patch) -> None:
    """After a kill, a node takes what it reads from the page cache for durable."""
    patch.setattr(recovery, "_make_durable", without_sync(recovery._make_durable))


@bug("LMDB's two meta pages: the newer one counts")
def the_older_slot_counts_offline(patch: Patch) -> None:
    """A tool that only reads a directory takes the older recovery point, so damage looks like a torn tail."""

    def parse_older(path: Path, content: bytes) -> Point:
        slots = parse_slots(content)
        return recovery_point._point_of(path, slots[0].payload) if slots else parse_recovery_point(path, content)

    patch.everywhere(parse_recovery_point, parse_older)


@bug("ours, until an attack from outside", "lost_points")
def lost_recovery_point_makes_the_directory_kafkas(patch: Patch) -> None:
    """A directory of ours without its recovery point is taken for Kafka's: the log is cut at a rotten byte."""
    patch.setattr(recovery, "wrote_point", lambda _fs, _directory: False)


@bug("Protocol-Aware Recovery (FAST 2018)", "torn")
def recovery_ignores_checksums(patch: Patch) -> None:
    """Recovery accepts a torn batch as valid."""

    def scan_runs(path: Path, file: File, position: int, end: int) -> Iterator[tuple[int, Any]]:
        yield from scan_headers(path, file, position, end)

    patch.setattr(log_scan, "scan_runs", scan_runs)


@bug("Protocol-Aware Recovery (FAST 2018): the tail is ambiguous", "torn")
def torn_tail_is_taken_for_damage(patch: Patch) -> None:
    """The recovery point becomes durable before the log does, so that a torn tail looks like corruption."""
    flush = Log.flush

    def early(self: Log) -> None:
        assert self._point is not None
        self._point.raise_to(self.end_offset)
        self._point.settle()
        flush(self)

    patch.setattr(Log, "flush", early)


@bug("Kafka LogLoader; ZooKeeper in FAST 2018", "silent")
def damage_is_taken_for_a_torn_tail(patch: Patch) -> None:
    """Recovery cuts the log at the first bad batch even below the recovery point, and reports no damage."""

    def trusting(*given: Any, **named: Any) -> Any:
        return scan_log(*given, **{**named, "evidence": Evidence(recovery_point=Offset(0))})

    patch.setattr(recovery, "scan_log", trusting)


@bug("Kafka QuorumState.initialize (the log's epoch wins)", "restored")
def an_older_quorum_state_ends_the_log(patch: Patch) -> None:
    """Recovery cuts off batches above the epoch in quorum-state as a torn tail, although they are whole."""

    def check_epoch(self: Chain, path: Path, position: int, header: Any) -> None:
        if header.epoch > self._evidence.epoch_max:
            raise CorruptionError(path, position=position, expected="a smaller epoch", found=f"epoch {header.epoch}")

    patch.setattr(Chain, "_check_epoch", check_epoch)


@bug("ours, as found by a review; IRON File Systems (SOSP 2005)", "lost_sectors")
def a_lost_sector_ends_the_start(patch: Patch) -> None:
    """A read error in the log counts as a disk error, so the node does not start."""

    def fatal(path: Path, file: File, *places: Any) -> Iterator[Any]:
        try:
            yield from scan_runs(path, file, *places)
        except ReadError as error:
            raise StorageError(path, str(error)) from error

    patch.setattr(log_scan, "scan_runs", fatal)


@bug("KIP-630 (retention needs a snapshot)")
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


@bug("ours, as found by a review (61,000 epochs)", "many_epochs")
def list_of_epochs_is_a_small_file(patch: Patch) -> None:
    """The epoch checkpoint has the size limit of small files, so a log with too many epochs cannot be opened."""
    patch.setattr(epoch_checkpoint, "read_content", lambda fs, path: fs.read(path))


@bug("Protocol-Aware Recovery (FAST 2018): a voter that deletes its log", "silent")
def damaged_nodes_vote(patch: Patch) -> None:
    """A node that lost part of its log grants votes, and compares candidates with what is left of its log."""
    for name in ("would_grant_vote", "would_grant_pre_vote"):
        rule = vars(vote)[name]

        def blind(replica: Replica, message: VoteRequest, rule: Any = rule) -> bool:
            known, replica.log.quarantine = replica.log.quarantine, None
            granted: bool = rule(replica, message)
            replica.log.quarantine = known
            return granted

        patch.setattr(vote, name, blind)


@bug("Protocol-Aware Recovery (FAST 2018)", "silent")
def damaged_leader_leads_on(patch: Patch) -> None:
    """A leader that finds damage in its log stays leader."""
    patch.setattr(corruption, "_stand_down", lambda replica, now: None)


@bug("Protocol-Aware Recovery (FAST 2018): a log that is cut at the damage, and votes", "silent")
def damaged_node_comes_back_at_once(patch: Patch) -> None:
    """A node that lost part of its log leaves quarantine at the first answer of a leader."""

    def leave(replica: Replica, answer: FetchResponse) -> None:
        del answer
        if replica.log.quarantine is not None:
            corruption.cut_damage(replica)
            replica.log.quarantine = None
            replica.outbox.add(LeaveQuarantine(io=replica.outbox.next_log_io()))

    patch.setattr(fetch_response, "leave_if_whole", leave)


@bug("ours, almost: the epoch of the damage was first in memory only", "silent")
def damage_is_not_noted(patch: Patch) -> None:
    """A node does not write the file ``quarantine``: if it restarts before it is whole, it has forgotten the damage."""
    patch.setattr(QuarantineFile, "write", lambda file, quarantine: None)
    patch.setattr(QuarantineFile, "remove", lambda file: None)


@bug("ours, until a campaign found it: a sector was lost in the first batch that a snapshot had left", "left")
def log_starts_where_its_first_segment_begins(patch: Patch) -> None:
    """A node whose damaged log has nothing left asks for what follows its first segment's offset, without an epoch."""
    patch.setattr(host_open, "_start_offset", lambda log, snapshots: log.start_offset)


@bug("ours, until a campaign found it: a bit had flipped in the last batch of epoch 1, before 3", "all_before_forgers")
def checkpoint_above_the_point_says_nothing(patch: Patch) -> None:
    """Recovery believes any epoch above the recovery point, though the epoch checkpoint has another one there."""
    patch.setattr(judge, "_may_lag", lambda evidence, entries, at, header: True)


@bug("Redundancy Does Not Imply Fault Tolerance (FAST 2017): damage that spreads to other nodes", "served")
def damage_is_served(patch: Patch) -> None:
    """A node sends what it reads from a file to followers and listeners without verifying checksums."""

    def blind(buffer: Buffer) -> Iterator[BatchRun]:
        return (BatchRun.of_one(buffer, *place) for place in scan(buffer, verify_crc=False))

    patch.setattr(segment, "runs_of", blind)


@bug("ours, until a world of all noticed it", "changed_offsets")
def changed_offsets_are_believed(patch: Patch) -> None:
    """A node takes the first batch that seems to contain an offset, though a bit of that batch's offset has flipped."""

    def find(view: SegmentView, offset: Offset) -> tuple[int, BatchHeader]:
        start, _ = view.lookup.entry_before(offset - view.base_offset)
        headers = scan_headers(view.path, view.file, start, view.size_bytes)
        position, header = next(found for found in headers if found[1].end_offset > offset)
        if header.base_offset > offset:
            raise vars(SegmentView)["_corruption"](view, position, f"offset {offset}", f"offset {header.base_offset}")
        return position, header

    patch.setattr(SegmentView, "find", find)
