"""Fake nodes and facts with only the attributes that an oracle reads.

Builds the bytes of snapshots, as the writer makes them, for tests of their readers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from pykraft import types
from pykraft.config import RaftConfig
from pykraft.core.effects import InstallSnapshot, MoveLogStart, Report, TruncateTo
from pykraft.core.state import Follower
from pykraft.core.status import Status
from pykraft.host.delivery import CommittedBatch
from pykraft.log.fs import make_directory
from pykraft.log.lane import AppendBytes
from pykraft.protocol.batch import read_header
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.sim.facts.facts import Claims
from pykraft.sim.facts.history import ENTRY, History, Operation, Plain
from pykraft.sim.facts.members import VoterRecord
from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.invariants.invariant import DOWN, View
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.spoken import LogEnd, VoteAsked
from pykraft.sim.scenario.scenario import DEFAULT
from pykraft.sim.scenario.settings import listeners_of
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.writer import SnapshotWriter


def node(node_id: int = 1, *, is_damaged: bool = False, is_rotten: bool = False, ms: int = 0, **host: Any) -> Any:
    """A node; it runs if anything is said of its status, or of its core (``raft``)."""
    raft = host.pop("raft", None)
    status = Status(**{"epoch": 1, "role": "follower", **host}) if host or raft else None
    running = SimpleNamespace(status=status, raft=raft) if status else None
    process = SimpleNamespace(node_id=node_id, host=running, wiretap=wiretap()) if status else None
    return SimpleNamespace(
        node_id=node_id,
        key=types.ReplicaKey(types.NodeId(node_id), directory_of(node_id)),
        host=running,
        status=status,
        process=process,
        is_damaged=is_damaged,
        disk=SimpleNamespace(is_rotten=is_rotten, explains=lambda error: is_rotten),
        clock=SimpleNamespace(instant=types.Instant(mono_ms=ms, wall_ms=ms)),
        config=SimpleNamespace(raft=RaftConfig(append_linger_ms=10, fetch_timeout_ms=500)),
        was_paused_since=lambda at_us: False,
    )


def following(leader_id: int = 2, *, node_id: int = 1, ms: int = 0, deadline_ms: int = 500, **fields: Any) -> Any:
    """A node that follows this leader, with these fields of its state."""
    state = Follower(
        epoch=types.Epoch(fields.pop("epoch", 1)),
        leader_id=types.NodeId(leader_id),
        leader_listeners=listeners_of(leader_id),
        fetch_deadline_ms=deadline_ms,
        update_deadline_ms=0,
        **fields,
    )
    return node(node_id, ms=ms, raft=SimpleNamespace(state=state))


def vote_asked(candidate_id: int, *, epoch: int = 2, candidate_log: tuple[int, int] = (1, 5), **more: Any) -> VoteAsked:
    """A candidate asks for a vote; epoch and offset are where its log ends."""
    log = LogEnd(epoch=candidate_log[0], offset=candidate_log[1])
    asked = {"version": 2, "is_pre_vote": False, **more}
    return VoteAsked(epoch=epoch, candidate_id=candidate_id, candidate_log=log, **asked)


def report(kind: types.ReportKind = types.ReportKind.EVENT, *values: int, text: str = "some words") -> Report:
    """A report; its words are never those of a real one, since no oracle may depend on them."""
    return Report(text=text, kind=kind, values=values)


def wiretap(**fields: Any) -> Any:
    """What a process has heard; nothing so far."""
    counters = {name: Counter[int]() for name in ("answers", "fetch_answers", "refusals")}
    known: dict[str, Any] = {"open_fetches": {}, "departures": [], **counters}
    return SimpleNamespace(**{**known, **fields})


def voters_of(count: int) -> types.VoterSet:
    """Static voters from 1 on."""
    return types.VoterSet.of(
        types.Voter(key=types.ReplicaKey(types.NodeId(node_id)), listeners=listeners_of(node_id))
        for node_id in range(1, count + 1)
    )


def directory_of(node_id: int) -> types.Uuid:
    return types.Uuid(bytes([node_id]) * 16)


def keyed(*node_ids: int) -> types.VoterSet:
    """Voters with their directory ids."""
    return types.VoterSet.of(
        types.Voter(key=types.ReplicaKey(types.NodeId(node_id), directory_of(node_id)), listeners=listeners_of(node_id))
        for node_id in node_ids
    )


def voter_record(offset: int, voters: types.VoterSet, *, epoch: int = 1, **fields: Any) -> VoterRecord:
    """A voter set in a batch of its own."""
    return VoterRecord(entry=entry(offset, epoch=epoch), offset=offset, voters=voters, **fields)


def view(role: str = "follower", epoch: int = 1, **fields: Any) -> View:
    """What is seen of a node; ``disk_epoch``, ``voted_id`` and ``disk_leader_id`` are on its disk."""
    disk = DurableElection(
        epoch=fields.pop("disk_epoch", epoch),
        voted_id=fields.pop("voted_id", None),
        leader_id=fields.pop("disk_leader_id", None),
    )
    known = {"leader_id": None, "high_watermark": None, "has_fetched": False, "is_settled": False, **fields}
    known.setdefault("voters", voters_of(3))
    return View(role=role, epoch=epoch, disk=disk, **known)


BEFORE = view(DOWN, 0)


class Platters:
    """What the platters of a world hold, in place of `pykraft.sim.facts.platter.Platters`."""

    def __init__(self, of: World) -> None:
        self._of = of

    def election(self, node: Any) -> DurableElection:
        return self._of.election

    def end(self, node: Any) -> types.OffsetAndEpoch:
        held = self._ledger(node)
        return types.OffsetAndEpoch(types.Offset(held.end_offset), types.Epoch(held.last_epoch))

    def end_offset(self, node: Any) -> int:
        return self._ledger(node).end_offset

    def entry_at(self, node: Any, offset: int) -> Entry | None:
        return self._ledger(node).at(offset)

    def holds(self, node: Any, entry: Entry) -> bool:
        return self.entry_at(node, entry.base_offset) == entry

    def snapshots(self, node: Any) -> Sequence[types.OffsetAndEpoch]:
        return self._of.snapshots.get(int(node.node_id), ())

    def snapshot(self, node: Any, snapshot_id: types.OffsetAndEpoch) -> bytes | None:
        return self._of.contents.get((int(node.node_id), snapshot_id))

    def is_set_aside(self, node: Any, snapshot_id: types.OffsetAndEpoch) -> bool:
        return (int(node.node_id), snapshot_id) in self._of.set_aside

    def has_news(self, node: Any) -> bool:
        return int(node.node_id) in self._of.news

    def _ledger(self, node: Any) -> Ledger:
        return Ledger(self._of.held.get(int(node.node_id), []))


class World:
    """The facts of a world, in place of `pykraft.sim.facts.facts.Facts`: what its disks and ledgers hold, by node."""

    def __init__(self, voters: int = 3, *, now_us: int = 0, **election: Any) -> None:
        self.voter_count = voters
        self.clock = SimpleNamespace(now_us=now_us)
        self.claims = Claims()
        self.scenario = DEFAULT
        self.committed = Ledger()
        self.election = DurableElection(**election)
        self.atlas = SimpleNamespace(waiting={})
        electorate = SimpleNamespace(records=[])
        self.members = SimpleNamespace(
            electorate=electorate,
            has_pre_votes=True,
            voters_of=lambda _: electorate.records[-1].voters if electorate.records else voters_of(voters),
            former_voters_of=lambda _: voters_of(voters),
            record_of=lambda _: electorate.records[-1] if electorate.records else None,
            is_committed=lambda found: self.committed.at(found.base_offset) == found,
            nodes_of=lambda found: [node(int(each)) for each in found.ids],
            replaced_in=lambda _: [],
        )
        self.platters = Platters(self)
        self.held: dict[int, list[Entry]] = {}
        """By node: the batches on its platter."""
        self.snapshots: dict[int, tuple[types.OffsetAndEpoch, ...]] = {}
        self.news: set[int] = set()
        self.set_aside: set[tuple[int, types.OffsetAndEpoch]] = set()
        self.contents: dict[tuple[int, types.OffsetAndEpoch], bytes] = {}
        self.ledgers: dict[int, Ledger] = {}
        self.network = SimpleNamespace(unsent_between=lambda source, target: 0, byte_us=0)
        self.history = History()
        self.counts: Counter[str] = Counter()
        self.doubted_us = 0

    def doubts_us(self, _: Any) -> int:
        return self.doubted_us

    def voters(self) -> list[Any]:
        return [node(node_id) for node_id in range(1, self.voter_count + 1)]

    def ledger(self, node: Any) -> Ledger:
        return self.ledgers.setdefault(int(node.node_id), Ledger())


def world(voters: int = 3, **given: Any) -> Any:
    return World(voters, **given)


def entry(base_offset: int, *, epoch: int = 1, crc: int = 0, count: int = 1) -> Entry:
    return Entry(base_offset, base_offset + count, epoch, crc)


def encoded(base_offset: int, *values: bytes, epoch: int = 1) -> bytes:
    """A batch of these values; without values, one of a leader change."""
    change = types.LeaderChange(
        leader_id=types.NodeId(1), voters=(types.NodeId(1),), granting_voters=(types.NodeId(1),)
    )
    if not values:
        return encode_control_batch(
            [change], base_offset=types.Offset(base_offset), epoch=types.Epoch(epoch), timestamp_ms=0
        ).data
    return encode_batch(values, base_offset=types.Offset(base_offset), epoch=types.Epoch(epoch), timestamp_ms=0).data


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> CommittedBatch:
    data = encoded(base_offset, *values, epoch=epoch)
    return CommittedBatch(
        base_offset=types.Offset(base_offset),
        end_offset=types.Offset(base_offset + (len(values) or 1)),
        epoch=types.Epoch(epoch),
        timestamp_ms=0,
        is_control=not values,
        data=data,
    )


def appends(*batches: bytes) -> AppendBytes:
    return AppendBytes(io=types.Io(1), batches=[(read_header(data), data) for data in batches])


def truncates(offset: int) -> TruncateTo:
    return TruncateTo(io=types.Io(1), end_offset=types.Offset(offset))


def operation(number: int = 1, *values: bytes, **fields: Any) -> Operation:
    given = {"node_id": 1, "epoch": 1, "invoked_us": 0, "invoked_mono_ms": 0, "is_alive": lambda: True, **fields}
    return Operation(number=number, values=tuple(values) or (b"%012dw" % number,), **given)


def submit(made: Any, where: Any, at: Any, *jobs: Any) -> None:
    """Tell an oracle of storage jobs, and let the ledger follow."""
    for job in jobs:
        made.submitted(at, job)
        where.ledger(at).submitted(job)


def entries_of(*batches: bytes) -> Sequence[Entry]:
    return [Entry.of(read_header(data)) for data in batches]


def snapshot_id(offset: int, epoch: int = 1) -> types.OffsetAndEpoch:
    return types.OffsetAndEpoch(types.Offset(offset), types.Epoch(epoch))


def begins_anew(offset: int) -> InstallSnapshot:
    return InstallSnapshot(io=types.Io(1), snapshot_id=types.OffsetAndEpoch(types.Offset(offset), types.Epoch(1)))


def deletes_before(offset: int) -> MoveLogStart:
    return MoveLogStart(io=types.Io(1), snapshot_id=types.OffsetAndEpoch(types.Offset(offset), types.Epoch(1)))


DIRECTORY = Path("/disk")


def snapshot_of(entries: Iterable[Entry], *, epoch: int = 1) -> bytes:
    """The bytes of a snapshot whose records are these batches."""
    disk, wanted = VirtualDisk(Random(1)), snapshot_id(1, epoch=epoch)
    make_directory(disk, DIRECTORY)
    writer = SnapshotWriter(disk, DIRECTORY, wanted, Plain(), last_contained_log_timestamp=7)
    writer.append(ENTRY.pack(b"E", each.base_offset, each.end_offset, each.epoch, each.crc) for each in entries)
    writer.freeze()
    return disk.read(checkpoint_path(DIRECTORY, wanted))
