"""What survives a power loss on each node: election state, log and snapshots on the platter of its virtual disk.

It reads the files that recovery would read, and of them only the synced bytes, as the disk promised them: a lie of the
disk is not the program's fault. What was read is kept; when a file has grown, reading continues there. As at the next
start, a snapshot that reaches beyond the log replaces the log. With recovery it shares only the code that reads a batch
and the names of files.

No CRC covers a batch's epoch. A running node knows the epochs of its log, but after a restart only two files do:
``leader-epoch-checkpoint``, and ``quarantine`` for the places that the node has found before. Suppose that batches have
the epochs 2 2 2 3 3, one flipped bit makes them 2 2 3 3 3, and another makes the checkpoint unreadable. Each batch is
whole, the epochs ascend, and ``quorum-state`` knows them: no program can tell. So faults must leave one witness
(`is_last_witness`), as they leave intact copies of a record (`pykraft.sim.facts.atlas`).

Source: ours (ADR 022); `pykraft.log.judge`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.host.snapshots.startup_check import DAMAGED
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.meta import FILE_NAME as META
from pykraft.log.small_files.proof_file import FILE_NAME as PROOF
from pykraft.log.small_files.proof_file import parse_proof
from pykraft.log.small_files.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.small_files.quarantine_file import parse_quarantine
from pykraft.protocol.batch import check_crc, read_header, scan
from pykraft.sim.machine.disk import VirtualDisk
from pykraft.sim.machine.inode import Directory, Inode
from pykraft.sim.machine.ledger import BEGINNING, Entry, Ledger, entry_at
from pykraft.sim.machine.node import SimulatedNode
from pykraft.snapshot.files import BOOTSTRAP_ID, FileKind, checkpoint_path, parse_snapshot_file
from pykraft.types import Epoch, Offset, OffsetAndEpoch


def is_unproven(node: SimulatedNode) -> bool:
    """Whether its next start, or its present one, needs a proof from the other voters."""
    directory = node.disk.directory(node.config.log_dir)
    inode = directory.synced.get(PROOF) if directory is not None else None
    if inode is None:
        is_formatted = directory is not None and META in directory.synced
        return not is_formatted and node.disk.directory(node.config.partition_directory) is None
    try:
        return not parse_proof(node.config.log_dir / PROOF, inode.promised()).is_complete
    except CorruptionError:
        return True


LOG_SUFFIX = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableElection:
    """The content of a ``quorum-state`` file."""

    epoch: int = 0
    voted_id: int | None = None
    leader_id: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Extent:
    """The sound batches at the beginning of a segment, and the bytes they were read from."""

    base_offset: int
    inode: Inode
    read: Callable[[Inode], bytes]
    version: int = -1
    entries: list[Entry] = field(default_factory=list)
    sound: bytes = b""
    is_whole: bool = True
    """True when the batches fill the whole file."""

    @property
    def end_offset(self) -> int:
        return self.entries[-1].end_offset if self.entries else self.base_offset

    @property
    def end(self) -> OffsetAndEpoch | None:
        """End offset and epoch of the last batch; None without one."""
        if not self.entries:
            return None
        return OffsetAndEpoch(Offset(self.entries[-1].end_offset), Epoch(self.entries[-1].epoch))

    def renew(self) -> None:
        """Read what was synced since the last call; bytes that have not changed are not read twice."""
        if self.version == self.inode.version:
            return
        self.version = self.inode.version
        content = self.read(self.inode)
        if not content.startswith(self.sound):
            self.entries, self.sound = [], b""
        position = len(self.sound)
        while position < len(content):
            entry, size_bytes = _sound_batch(content, position)
            last_epoch = self.entries[-1].epoch if self.entries else 0
            if entry is None or entry.base_offset != self.end_offset or entry.epoch < last_epoch:
                break
            self.entries.append(entry)
            position += size_bytes
        self.sound = content[:position]
        self.is_whole = position == len(content)


class Platter:
    """The durable election state and log of one node."""

    def __init__(self, disk: VirtualDisk, partition: Path, read: Callable[[Inode], bytes] = Inode.promised) -> None:
        """``read`` chooses the bytes of a file: those the disk promised, or those that are really there."""
        self._disk = disk
        self._read = read
        self._partition = partition
        self._directory: Directory | None = None
        self._extents: dict[str, _Extent] = {}
        self._segments_of: dict[str, Inode] = {}
        self._segments: list[str] = []
        """Names of the log segments, in order."""
        self._snapshots: list[OffsetAndEpoch] = []
        """Ids of the whole snapshots, oldest first."""
        self._election: tuple[Inode, int, DurableElection] | None = None

    def election(self) -> DurableElection:
        """The content of the durable ``quorum-state``; epoch 0 without one."""
        inode = self._names().get("quorum-state")
        if inode is None:
            return DurableElection()
        known = self._election
        if known is None or known[0] is not inode or known[1] != inode.version:
            known = self._election = (inode, inode.version, _election_in(inode.promised()))
        return known[2]

    def snapshots(self) -> Sequence[OffsetAndEpoch]:
        """Ids of the snapshots whose durable name says that they are whole, oldest first."""
        self._list()
        return self._snapshots

    def snapshot(self, snapshot_id: OffsetAndEpoch) -> bytes | None:
        """The durable bytes of a snapshot; None when its name is not durable."""
        inode = self._names().get(checkpoint_path(self._partition, snapshot_id).name)
        return None if inode is None else self._read(inode)

    def is_set_aside(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether a start set this snapshot aside, and it really is damaged."""
        inode = self._names().get(checkpoint_path(self._partition, snapshot_id).name + DAMAGED)
        return inode is not None and inode.is_rotten

    def end(self) -> OffsetAndEpoch:
        """Log end (exclusive), and the epoch of the last record, in a batch or in a snapshot."""
        return _end_of(self._standing()) or self.begin()

    def end_offset(self) -> int:
        """Log end (exclusive)."""
        return self.end().offset

    def begin(self) -> OffsetAndEpoch:
        """Log start, and the epoch of the record before it, if a snapshot tells."""
        return self._begin_of(self._standing())

    def _begin_of(self, extents: Sequence[_Extent]) -> OffsetAndEpoch:
        if not extents:
            return self._snapshots[-1] if self._snapshots else BEGINNING
        begin = OffsetAndEpoch(Offset(extents[0].base_offset), Epoch(0))
        return next((each for each in self._snapshots if each.offset == begin.offset), begin)

    def entries(self) -> list[Entry]:
        """The batches that follow each other without a gap from the log start on."""
        return [entry for extent in self._standing() for entry in extent.entries]

    def recovered(self, *, keeps_damage: bool) -> Ledger:
        """What a start finds. As long as damage has not been cut off, no newer snapshot replaces the log."""
        extents = self._held() if keeps_damage else self._standing()
        return Ledger((entry for extent in extents for entry in extent.entries), self._begin_of(extents))

    def entry_at(self, offset: int) -> Entry | None:
        """The durable batch that holds this offset."""
        for extent in reversed(self._standing()):
            if extent.base_offset <= offset:
                return entry_at(extent.entries, offset)
        return None

    def _list(self) -> dict[str, Inode]:
        names = self._names()
        if names != self._segments_of:
            self._segments_of = dict(names)
            self._segments = sorted(name for name in names if name.endswith(LOG_SUFFIX))
            self._snapshots = _snapshots_among(names)
        return names

    def _standing(self) -> list[_Extent]:
        """Segments of the log that a start would use; none when a newer snapshot replaces them."""
        standing = self._held()
        if self._snapshots and standing:
            newest, last = self._snapshots[-1], _end_of(standing)
            if last is None or (newest.epoch, newest.offset) > (last.epoch, last.offset):
                return []
        return standing

    def _held(self) -> list[_Extent]:
        """Segments without a gap; none when the records before the first one are missing."""
        held: list[_Extent] = []
        names = self._list()
        end_offset = int(self._segments[0].removesuffix(LOG_SUFFIX)) if self._segments else 0
        if end_offset and not any(each.offset >= end_offset for each in self._snapshots):
            return []
        for name in self._segments:
            if int(name.removesuffix(LOG_SUFFIX)) != end_offset:
                break
            extent = self._extent(name, names[name], end_offset)
            held.append(extent)
            end_offset = extent.end_offset
            if not extent.is_whole:
                break
        return held

    def _names(self) -> dict[str, Inode]:
        if self._directory is None:
            self._directory = self._disk.directory(self._partition)
        return self._directory.synced if self._directory is not None else {}

    def _extent(self, name: str, inode: Inode, base_offset: int) -> _Extent:
        known = self._extents.get(name)
        if known is None or known.inode is not inode:
            known = self._extents[name] = _Extent(base_offset=base_offset, inode=inode, read=self._read)
        known.renew()
        return known


def _end_of(extents: Sequence[_Extent]) -> OffsetAndEpoch | None:
    return next((extent.end for extent in reversed(extents) if extent.end is not None), None)


def _snapshots_among(names: Iterable[str]) -> list[OffsetAndEpoch]:
    found = (file for file in map(parse_snapshot_file, names) if file is not None and file.kind is FileKind.WHOLE)
    ids = (file.snapshot_id for file in found if file.snapshot_id != BOOTSTRAP_ID)
    return sorted(ids, key=lambda each: (each.epoch, each.offset))


def _election_in(content: bytes) -> DurableElection:
    if not content:
        return DurableElection()
    try:
        fields = json.loads(content)
    except ValueError:  # Torn: a node that reads it starts without an election state.
        return DurableElection()
    voted_id, leader_id = int(fields["votedId"]), int(fields["leaderId"])
    return DurableElection(
        epoch=int(fields["leaderEpoch"]),
        voted_id=None if voted_id < 0 else voted_id,
        leader_id=None if leader_id < 0 else leader_id,
    )


def _sound_batch(content: bytes, position: int) -> tuple[Entry | None, int]:
    try:
        header = read_header(content, position)
        check_crc(content, position, header)
    except ProtocolError:
        return None, 0
    return Entry.of(header), header.size_bytes


class Platters:
    """One platter per node."""

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._platters: dict[int, Platter] = {}
        for node in nodes:
            self.joined(node)

    def joined(self, node: SimulatedNode) -> None:
        self._platters[int(node.node_id)] = Platter(node.disk, node.config.partition_directory)

    def election(self, node: SimulatedNode) -> DurableElection:
        """The durable election state."""
        return self._platters[node.node_id].election()

    def end(self, node: SimulatedNode) -> OffsetAndEpoch:
        """The durable log end, and the epoch of the last record."""
        return self._platters[node.node_id].end()

    def end_offset(self, node: SimulatedNode) -> int:
        """The durable log end."""
        return self.end(node).offset

    def snapshots(self, node: SimulatedNode) -> Sequence[OffsetAndEpoch]:
        """Ids of the durable snapshots, oldest first."""
        return self._platters[node.node_id].snapshots()

    def snapshot(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> bytes | None:
        """The bytes of a durable snapshot; None when there is no such snapshot."""
        return self._platters[node.node_id].snapshot(snapshot_id)

    def is_set_aside(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether this node set this snapshot aside, and it really is damaged."""
        return self._platters[node.node_id].is_set_aside(snapshot_id)

    def has_news(self, node: SimulatedNode) -> bool:
        """Whether the platter of a running node has a newer snapshot than its host knows; the host will learn of it."""
        raft = node.host.raft if node.host is not None else None
        newest = self.snapshots(node)[-1:]
        return raft is not None and any(each not in raft.log.snapshots for each in newest)

    def entry_at(self, node: SimulatedNode, offset: int) -> Entry | None:
        """The durable batch that holds this offset."""
        return self._platters[node.node_id].entry_at(offset)

    def holds(self, node: SimulatedNode, entry: Entry) -> bool:
        """Whether this batch, or a snapshot that covers it, is durable."""
        platter = self._platters[node.node_id]
        if platter.entry_at(entry.base_offset) == entry:
            return True
        return any(entry.end_offset <= each.offset for each in platter.snapshots())

    def recovered(self, node: SimulatedNode, *, keeps_damage: bool) -> Ledger:
        """What a start finds; see `Platter.recovered`."""
        return self._platters[node.node_id].recovered(keeps_damage=keeps_damage)


_EPOCH_AT = range(12, 16)
"""Where a batch has its epoch."""


def is_last_witness(node: SimulatedNode, name: str, position: int) -> bool:
    """Whether a flip at this position of a file could leave a wrong epoch in the log that no file contradicts."""
    directory = node.disk.directory(node.config.partition_directory)
    assert directory is not None, "the file is in it"
    if name == EPOCHS:
        return bool(_wrong_epochs(directory) - _noted(node, directory))
    if not name.endswith(LOG_SUFFIX) or position not in _epoch_positions(directory.synced[name]):
        return False
    checkpoint = directory.synced.get(EPOCHS)
    return checkpoint is None or checkpoint.is_rotten


def _wrong_epochs(directory: Directory) -> set[Offset]:
    """Base offsets of the batches whose epoch on the platter is not the one that was written."""
    logs = [inode for name, inode in directory.synced.items() if name.endswith(LOG_SUFFIX) and inode.is_rotten]
    return {
        offset
        for inode in logs
        for start, offset in _batches(inode)
        if any(inode.is_rotten_at(start + at) for at in _EPOCH_AT)
    }


def _noted(node: SimulatedNode, directory: Directory) -> set[Offset]:
    inode = directory.synced.get(QUARANTINE)
    with suppress(CorruptionError):
        if inode is not None:
            note = parse_quarantine(node.config.partition_directory / QUARANTINE, inode.promised())
            return {damage.start_offset for damage in note.damages}
    return set()


def _epoch_positions(inode: Inode) -> set[int]:
    return {start + at for start, _ in _batches(inode) for at in _EPOCH_AT}


def _batches(inode: Inode) -> Iterator[tuple[int, Offset]]:
    with suppress(ProtocolError):  # The log may end with a torn write.
        for start, header in scan(inode.promised(), verify_crc=False):
            yield start, header.base_offset
