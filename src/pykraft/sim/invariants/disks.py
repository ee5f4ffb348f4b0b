"""Rules of disks: what is durable, what is damage, and what a node answers from it."""

import struct
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Final

from pykraft.core.effects import EnterQuarantine, LeaveQuarantine, TruncateTo
from pykraft.core.quarantine import DAMAGES_MAX
from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.small_files.proof_file import FILE_NAME as PROOF_FILE_NAME
from pykraft.log.small_files.proof_file import parse_proof
from pykraft.log.small_files.recovery_point import FILE_NAME, Point, RecoveryPoint, parse_recovery_point
from pykraft.protocol.batch import scan
from pykraft.sim.invariants.invariant import Invariant, Job, Report, SimulatedNode, Spoken, View
from pykraft.sim.machine.disk import ROOT, Directory, VirtualDisk
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.spoken import LogEnd
from pykraft.types import Offset, ReportKind


class PersistedIsDurable(Invariant):
    """When all storage jobs are done, the log on the platter ends where the node says that it ends.

    This is not checked while part of the log is known to be damaged, because the files then stay as they are for a
    while; nor while the platter has a snapshot that holds more and that the node does not know of yet.

    If the disk held less, acknowledged records would be lost. If it held more, a truncation would not be durable:
    the removed batches could return between newer ones, each of them valid in itself.

    Source: ours; Kafka's ``RaftLog.flush`` and ``truncateToEndOffset``; etcd's append ABA story, told for disks.
    """

    def persisted(self, node: SimulatedNode) -> None:
        assert node.status is not None
        if node.is_damaged or self.facts.platters.has_news(node):
            return
        durable, told = self.facts.platters.end_offset(node), node.status.log_end_offset
        if durable != told:
            raise self.violated(f"the log of node {node.node_id} ends at {told}, on the platter at {durable}")


class AcknowledgedSurvivesRestart(Invariant):
    """A recovered log is at least as long as its node's last Fetch said, or as its last truncation left it.

    Exceptions: the node says that its log is damaged, or a snapshot of a later epoch replaced the log.

    An acknowledgment counts for the high watermark even if its sender dies a moment later. So recovery may only
    remove what was never acknowledged, as a torn tail; a damaged record that was acknowledged is not a torn tail.

    Source: KIP-595 §Fetch; Raft paper §5.1 (log[] is persistent); the line between torn and damaged is ours.
    """

    def _begin(self) -> None:
        self._told: dict[int, LogEnd] = {}

    def lost(self, node: SimulatedNode) -> None:
        self._told.pop(int(node.node_id), None)

    def wiped(self, node: SimulatedNode) -> None:
        self._told.pop(int(node.node_id), None)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.fetched is not None:
            self._told[int(node.node_id)] = spoken.fetched

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        told = self._told.get(int(node.node_id))
        if isinstance(job, TruncateTo) and told is not None:
            self._told[int(node.node_id)] = replace(told, offset=min(told.offset, job.end_offset))

    def started(self, node: SimulatedNode) -> None:
        told, status = self._told.get(int(node.node_id)), node.status
        if told is None or status is None or node.is_damaged or self.facts.ledger(node).last_epoch > told.epoch:
            return
        if status.log_end_offset < told.offset:
            seen = f"node {node.node_id} had told that it holds {told.offset}"
            raise self.violated(f"{seen}, it begins at {status.log_end_offset}")


class EmptiedReturnsWhole(Invariant):
    """No voter whose disk was emptied votes or counts while it lacks committed records that it had.

    It takes part when it votes, fetches with its id, or answers an announcement of its leader without an error:
    then it counts for an election, for the high watermark, or for a read.

    Source: ADR 022; KAFKA-14077; Raft dissertation §11.2.
    """

    def _begin(self) -> None:
        self._owed: dict[int, dict[int, Entry]] = {}
        """By node: the batches that its disk held, by base offset."""

    def wiped(self, node: SimulatedNode) -> None:
        self._owed.pop(int(node.node_id), None)

    def emptied(self, node: SimulatedNode) -> None:
        owed = self._owed.setdefault(int(node.node_id), {})
        offset, end_offset = 0, self.facts.platters.end_offset(node)
        while offset < end_offset:
            entry = self.facts.platters.entry_at(node, offset)
            if entry is None:
                entry = self.facts.committed.at(offset)  # A snapshot holds it.
            if entry is None:
                return
            owed[entry.base_offset] = entry
            offset = entry.end_offset

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        node_id = int(node.node_id)
        if node_id not in self._owed:
            return
        has_voted = spoken.candidate_id is not None or (spoken.granted is not None and not spoken.granted.is_pre_vote)
        if spoken.fetched is None and not has_voted and not spoken.confirms_leader:
            return
        ledger, does = self.facts.ledger(node), "votes" if has_voted else "counts"
        for offset, entry in self._owed.pop(node_id).items():
            is_missing = ledger.at(offset) != entry and ledger.begin.offset < entry.end_offset
            if is_missing and self.facts.committed.at(offset) == entry:
                seen = f"node {node.node_id} {does} with a log that ends at {ledger.end_offset}, its disk was emptied"
                raise self.violated(f"{seen}, and had held what is committed from {offset} to {entry.end_offset}")


LOG: Final = ".log"
OFFSETS: Final = (".index", struct.Struct(">ii"))
TIMES: Final = (".timeindex", struct.Struct(">qi"))


class IndexesAreOfTheirLogs(Invariant):
    """Each index entry matches a batch in position, last offset and timestamp.

    When a log has indexes, Kafka opens it without reading it and looks records up in them; so does anybody who
    copies a directory for Kafka's tools. A wrong entry would send a reader into the middle of a batch.

    Source: Kafka ``OffsetIndex`` and ``TimeIndex`` (entries, their order, and what they point to).
    """

    def started(self, node: SimulatedNode) -> None:
        self._check(node)

    def ended(self) -> None:
        for node in self.facts.nodes.values():
            if node.process is not None and node.process.ordered.is_idle:
                self._check(node)

    def _check(self, node: SimulatedNode) -> None:
        directory = node.disk.directory(node.config.partition_directory)
        if directory is None or node.is_damaged or node.disk.is_rotten:
            return
        for name in directory.cached:
            if name.endswith(LOG):
                self._compare(node, directory, name.removesuffix(LOG))

    def _compare(self, node: SimulatedNode, directory: Directory, stem: str) -> None:
        positions: dict[int, int] = {}
        times: set[tuple[int, int]] = set()
        for position, header in scan(bytes(directory.cached[stem + LOG].cached), verify_crc=False):
            last_delta = header.last_offset - int(stem)
            positions[last_delta] = position
            times.add((header.max_timestamp, last_delta))
        offset_entries, time_entries = (list(_entries(directory, stem, *kind)) for kind in (OFFSETS, TIMES))
        wrong = [entry for entry in offset_entries if positions.get(entry[0]) != entry[1]]
        wrong += [entry for entry in time_entries if entry not in times]
        if wrong:
            raise self.violated(f"node {node.node_id} has entries of segment {stem} that nothing stands for: {wrong}")
        if offset_entries != sorted(set(offset_entries)) or time_entries != sorted(set(time_entries)):
            raise self.violated(f"node {node.node_id} has entries of segment {stem} out of order")


def _entries(directory: Directory, stem: str, suffix: str, layout: struct.Struct) -> Iterator[tuple[int, int]]:
    """The entries of an index; a file that still grows ends with zeros."""
    inode = directory.cached.get(stem + suffix)
    content = bytes(inode.cached) if inode is not None else b""
    whole = content[: len(content) - len(content) % layout.size]
    for first, second in layout.iter_unpack(whole):
        if not (first or second):
            return
        yield first, second


class DamageStaysKnown(Invariant):
    """No damaged place is forgotten before the quarantine is over, unless the list of them is full.

    Each start reports them to the operator, who can see there that a disk is dying.

    Source: ours (ADR 012); `pykraft.core.quarantine`.
    """

    def _begin(self) -> None:
        self._known: dict[int, tuple[tuple[str, Offset], ...]] = {}

    def wiped(self, node: SimulatedNode) -> None:
        self._known.pop(int(node.node_id), None)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is ReportKind.QUARANTINE_OVER:
            self._known.pop(int(node.node_id), None)

    def persisted(self, node: SimulatedNode) -> None:
        node_id, quarantine = int(node.node_id), node.status.quarantine if node.status is not None else None
        if quarantine is None:
            self._known.pop(node_id, None)
            return
        places = tuple((damage.path, damage.start_offset) for damage in quarantine.damages)
        missing = [place for place in self._known.get(node_id, ()) if place not in places]
        if missing and len(places) < DAMAGES_MAX:
            raise self.violated(f"node {node_id} knows of damage at {places}, and not at {missing} any more")
        self._known[node_id] = places


class ProofsAreReadBack(Invariant):
    """A proven voter votes above the epoch in its ``replica-proof`` only: it knows that epoch after each start.

    A disk that lies may have lost the file.

    Two votes of it in one epoch would need a candidate of that epoch that asks for the second after the proof. That
    is too rare to wait for.

    Source: ADR 022; KAFKA-14077; Raft paper §5.2.
    """

    def _begin(self) -> None:
        self._above: dict[int, int] = {}

    def starting(self, node: SimulatedNode) -> None:
        path = node.config.log_dir / PROOF_FILE_NAME
        content = node.disk.content(path)
        if content is not None and not node.disk.is_rotten:
            self._above[int(node.node_id)] = parse_proof(path, bytes(content)).votes_above

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        above = self._above.pop(int(node.node_id), None)
        raft = node.host.raft if above is not None and node.host is not None else None
        if above is None or raft is None or not raft.status.is_proven:
            return
        if raft.votes_above < above:
            seen = f"node {node.node_id} may have voted in epochs up to {above} before it was proven"
            raise self.violated(f"{seen}, and votes above {raft.votes_above} after its start")


class DamagedTakesNoPart(Invariant):
    """A node in quarantine grants nothing, and is neither a candidate nor a leader.

    It may have acknowledged what it lost, and a majority that counts it could elect a leader without a committed
    record. So it grants no votes or pre-votes, does not campaign, and does not lead.

    Source: ours; Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018): safe and unsafe reactions to
    corruption.
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked = spoken.granted
        if asked is not None and asked.is_voter_damaged:
            what = "pre-vote" if asked.is_pre_vote else "vote"
            seen = f"node {node.node_id} gives {asked.candidate_id} its {what} in epoch {asked.epoch}"
            raise self.violated(f"{seen}, and part of its log is lost")

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        if node.is_damaged and (now.leads or now.is_prospective or now.role == "candidate"):
            raise self.violated(f"node {node.node_id} is {now.role} in epoch {now.epoch}, and part of its log is lost")


class OfflineReadersSeeTheNewest(Invariant):
    """Before each start, reading ``recovery-point`` offline gives the offsets that the node gets when it opens it.

    The older of the file's two slots may be below what was synced since, so that damage would look like a torn
    tail, or above what was truncated since.

    Source: ours (ADR 059); Kafka has no such file.
    """

    def starting(self, node: SimulatedNode) -> None:
        content = node.disk.content(node.config.partition_directory / FILE_NAME)
        if content is None:
            return
        read, opened = _read(bytes(content)), _open(bytes(content))
        if read != opened:
            raise self.violated(f"node {node.node_id} opens its recovery point as {opened}, offline it reads as {read}")


def _read(content: bytes) -> Point | None:
    try:
        return parse_recovery_point(ROOT / FILE_NAME, content)
    except CorruptionError:
        return None


def _open(content: bytes) -> Point | None:
    copy = VirtualDisk(Random(0))  # Opening writes.
    copy.put_back({ROOT / FILE_NAME: content})
    try:
        point = RecoveryPoint.open(copy, ROOT)
    except CorruptionError:
        return None
    assert point is not None
    return Point(point.offset, point.committed_end_offset)


class DamageIsReal(Invariant):
    """No node is in quarantine whose platter holds what was written to it.

    A crash leaves a torn tail, which is not damage. A node that took a torn tail for damage would needlessly stay
    out of elections, and a cluster that lost power would elect nobody.

    Source: Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018); the recovery point is ours.
    """

    def _begin(self) -> None:
        self._damaged: set[int] = set()

    def started(self, node: SimulatedNode) -> None:
        if node.is_damaged:
            self._check(node)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if isinstance(job, EnterQuarantine):
            self._check(node)

    def persisted(self, node: SimulatedNode) -> None:
        if not node.is_damaged:
            self._damaged.discard(int(node.node_id))

    def _check(self, node: SimulatedNode) -> None:
        """A damaged node stays in quarantine until it is repaired, even when the rot has been cut off."""
        node_id = int(node.node_id)
        if node_id not in self._damaged and not node.disk.is_rotten:
            raise self.violated(f"node {node_id} calls its log damaged, its disk holds what was written")
        self._damaged.add(node_id)


class DamagedReturnsWhole(Invariant):
    """No node leaves quarantine while it lacks committed records of the part of its log that it lost.

    A record is committed because voters acknowledged their copies. If a voter lost its copy and voted as if it had
    never had it, it could elect, together with a voter that never had it, a leader without that record. So the
    oracle remembers the durable batches after the damage when the damage is found, and looks for them when the node
    is back, either after its quarantine or by starting without one. A leader may have replaced those that were
    never committed, and a snapshot counts for everything that it holds.

    Source: ours; Raft paper §5.4.3 (Leader Completeness); Protocol-Aware Recovery for Consensus-Based Storage (FAST
    2018).
    """

    def _begin(self) -> None:
        self._owed: dict[int, dict[int, Entry]] = {}
        """By node: the batches that its disk held after the damage, by base offset."""
        self._noted: set[int] = set()
        """Nodes whose disk records the damage, or should."""

    def lost(self, node: SimulatedNode) -> None:
        if int(node.node_id) not in self._noted:
            self._owed.pop(int(node.node_id), None)

    def wiped(self, node: SimulatedNode) -> None:
        self._owed.pop(int(node.node_id), None)
        self._noted.discard(int(node.node_id))

    def started(self, node: SimulatedNode) -> None:
        if node.is_damaged:
            self._owes(node)
            self._noted.add(int(node.node_id))
        else:
            self._is_back(node)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if isinstance(job, EnterQuarantine):
            self._owes(node)
        elif isinstance(job, LeaveQuarantine):
            self._is_back(node)

    def persisted(self, node: SimulatedNode) -> None:
        if node.is_damaged:
            self._noted.add(int(node.node_id))

    def _owes(self, node: SimulatedNode) -> None:
        """Remember what the platter holds beyond the end of the log; nothing of it has been cut off yet."""
        assert node.status is not None
        owed = self._owed.setdefault(int(node.node_id), {})
        offset, end_offset = int(node.status.log_end_offset), self.facts.platters.end_offset(node)
        while offset < end_offset:
            entry = self.facts.platters.entry_at(node, offset)
            if entry is None:
                return  # A snapshot replaces the rest.
            owed[entry.base_offset] = entry
            offset = entry.end_offset

    def _is_back(self, node: SimulatedNode) -> None:
        self._noted.discard(int(node.node_id))
        ledger = self.facts.ledger(node)
        for offset, entry in self._owed.pop(int(node.node_id), {}).items():
            is_missing = ledger.at(offset) != entry and ledger.begin.offset < entry.end_offset
            if is_missing and self.facts.committed.at(offset) == entry:
                seen = f"node {node.node_id} is out of quarantine with a log that ends at {ledger.end_offset}"
                raise self.violated(
                    f"{seen}, and had held what is committed from {offset} to {entry.end_offset} in epoch {entry.epoch}"
                )


class ServedIsSound(Invariant):
    """A node whose disk has lied answers a Fetch only with batches that are as they were written.

    A replica that fetches would notice a wrong checksum, fetch again, and get the same bytes again. A wrong epoch
    or offset it could not notice, because no checksum covers them.

    Source: ours; Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018): a copy that is damaged is no
    copy.
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if not spoken.served:
            return
        ledger = self.facts.ledger(node)
        try:
            for _, header in scan(spoken.served):
                written = ledger.at(header.base_offset)
                if Entry.of(header) != written:
                    raise self.violated(f"node {node.node_id} answers a Fetch with {Entry.of(header)}, not {written}")
        except ProtocolError as error:
            raise self.violated(f"node {node.node_id} answers a Fetch with a damaged batch: {error}") from error
