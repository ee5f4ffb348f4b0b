"""Who votes in a world: how its nodes were set up, which voter sets count now, and which requests may change them.

A static world configures every node with the voters. In a dynamic world the disks are formatted with a checkpoint,
which names the voters on a voter's disk and nobody on an observer's; real nodes' code writes it. The `Electorate` keeps
every voter set that a host ever asked its disk to append, decoded by code of its own. In force is the newest one that a
log holds, committed or not; without one, the set that the node began with. Logs differ, so several sets can count at
the same time, and code that decides what may be harmed has to check each of them (`Members.in_force`).

Invariant: a node may join, or leave, as long as an operator keeps asking for it or a request for it is under way. A
request whose connection broke may still be carried out while the process that received it runs.

Source: KIP-853; Raft dissertation §4.1; Kafka's ``Formatter`` (``--initial-controllers``).
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from pykraft import types
from pykraft.config import NodeConfig
from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.log.directory import LogDirectory
from pykraft.log.lane import AppendBytes
from pykraft.protocol.records import decode_control
from pykraft.sim.facts.platter import Platters
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.scenario import Scenario
from pykraft.sim.scenario.settings import LISTENER, newcomer
from pykraft.snapshot.writer import write_bootstrap


@dataclass(slots=True, kw_only=True, eq=False)
class VoterRequest:
    """One request and its answer."""

    message: AddVoterRequest | RemoveVoterRequest
    process: Process
    then: Callable[[VoterRequest], None]
    since: int
    """Committed end offset when it was sent: if it is carried out, then at or above this offset."""
    answer: ErrorCode | None = None
    """None until an answer comes, and for good when the connection broke."""

    @property
    def is_open(self) -> bool:
        """True while the request may still be carried out."""
        return self.answer is None and self.process.is_running

    @property
    def adds(self) -> bool:
        return isinstance(self.message, AddVoterRequest)


class VoterRequests:
    """The requests of one world."""

    def __init__(self) -> None:
        self.adding: Counter[SimulatedNode] = Counter()
        """Nodes that operators keep asking to add until they are voters."""
        self.removing: Counter[SimulatedNode] = Counter()
        """Voters that operators keep asking to remove."""
        self._asked: list[tuple[SimulatedNode, VoterRequest]] = []

    @property
    def joining(self) -> Collection[SimulatedNode]:
        """Nodes that may become voters because of these requests."""
        open_adds = (node for node, asked in self._asked if asked.is_open and asked.adds)
        return {*open_adds, *+self.adding}

    @property
    def leaving(self) -> Collection[SimulatedNode]:
        """Voters that may be removed because of these requests."""
        open_removals = (node for node, asked in self._asked if asked.is_open and not asked.adds)
        return {*open_removals, *+self.removing}

    def sent(self, node: SimulatedNode, asked: VoterRequest) -> None:
        """Record a request that concerns this node; requests that are over are dropped."""
        self._asked = [(each, former) for each, former in self._asked if former.is_open]
        self._asked.append((node, asked))

    def stop(self) -> None:
        """Stop asking; requests under way may still be carried out."""
        self.adding.clear()
        self.removing.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRecord:
    """A voter set in a log: its batch, the offset of its record, and other control records of the batch."""

    entry: Entry
    offset: int
    voters: types.VoterSet
    level: int | None = None
    """The kraft.version level in the same batch."""
    is_opening: bool = False
    """True in the first batch of a leader, which repeats the voters in force."""


class Electorate:
    """All voter sets of one world."""

    def __init__(self, initial: types.VoterSet) -> None:
        self.initial = initial
        """The voter set that the world begins with."""
        self.records: list[VoterRecord] = []
        """By offset, then epoch."""
        self._known: set[Entry] = set()

    def submitted(self, job: AppendBytes) -> list[VoterRecord]:
        """Read the control batches of this storage job; returns the voter sets in them."""
        appended = [Entry.of(header) for header, _ in job.batches if header.is_control]
        if not appended:
            return []
        for header, data in job.batches:
            if header.is_control and (entry := Entry.of(header)) not in self._known:
                self._known.add(entry)
                self._read(entry, data)
        return [record for record in self.records if record.entry in appended]

    def newest(self, holds: Callable[[Entry], bool]) -> VoterRecord | None:
        """The newest voter set in a log that holds these batches; None without one."""
        return next((one for one in reversed(self.records) if holds(one.entry)), None)

    def _read(self, entry: Entry, data: bytes | bytearray | memoryview) -> None:
        records = decode_control(data)
        level = next((record.level for record in records if isinstance(record, types.KRaftVersion)), None)
        is_opening = any(isinstance(record, types.LeaderChange) for record in records)
        for offset, record in enumerate(records, entry.base_offset):
            if isinstance(record, types.KRaftVoters):
                found = VoterRecord(
                    entry=entry, offset=offset, voters=record.voters, level=level, is_opening=is_opening
                )
                insort(self.records, found, key=lambda one: (one.offset, one.entry.epoch))


class Members:
    """Voter sets and nodes of one world."""

    def __init__(
        self,
        nodes: Mapping[int, SimulatedNode],
        scenario: Scenario,
        platters: Platters,
        committed: Ledger,
        rng: Random,
        *,
        is_formatted: bool,
        absent: Collection[int] = (),
    ) -> None:
        """``committed``: what leaders counted as committed; ``is_formatted``: an operator formatted all disks.

        ``absent``: machines that are switched off, see `Facts.absent`.
        """
        self._nodes = nodes
        self._absent = absent
        self._auto_join_probability = scenario.membership.auto_join_probability
        self._platters = platters
        self._ledger = committed
        self._rng = rng
        self.has_pre_votes = True
        """False once a node runs a version without pre-votes: from then on any node may campaign without them."""
        self.on_committed: Callable[[types.VoterSet, types.VoterSet], None] = lambda _was, _now: None
        """Called with the former and the new voter set when another one is committed."""
        self.is_dynamic = rng.random() < scenario.membership.dynamic_probability
        """True when the world began at kraft.version 1."""
        self.may_change = self.is_dynamic or scenario.has_operator
        """False where the configured voters never change."""
        if self.may_change:
            for node in nodes.values():
                node.config = self._able_to_join(node.config)
        self.first_list_only: set[int] = set()
        """Observers whose ``controller.quorum.bootstrap.servers`` names the world's first voters."""
        first = next(iter(nodes.values())).first_voters
        if self.is_dynamic:
            first = self._format(first)
        elif is_formatted:
            for node in nodes.values():
                format_directory(node)
        self.electorate = Electorate(first)
        self.committed = first
        """The newest committed voter set."""
        self.committed_record: VoterRecord | None = None

    @property
    def is_at_level_one(self) -> bool:
        """True when the voters are certainly in the log."""
        return self.is_dynamic or self.committed_record is not None

    def nodes_of(self, voters: types.VoterSet) -> list[SimulatedNode]:
        """Nodes that vote under this set; a node whose disk was replaced does not."""
        found = (self._nodes[int(voter.key.id)] for voter in voters.voters)
        return [node for node, voter in zip(found, voters.voters, strict=True) if voter.key.matches(node.key)]

    def replaced_in(self, voters: types.VoterSet) -> list[types.ReplicaKey]:
        """Voters of this set whose disk has been replaced since."""
        keys = (voter.key for voter in voters.voters)
        return [key for key in keys if not key.matches(self._nodes[int(key.id)].key)]

    def voters_of(self, node: SimulatedNode) -> types.VoterSet:
        """The set in force in the ledger of a node; without one in it, the set that the node began with."""
        newest = self.record_of(node)
        return newest.voters if newest is not None else node.first_voters

    def record_of(self, node: SimulatedNode) -> VoterRecord | None:
        """The newest voter set in the ledger of a node, or in the snapshot that it begins with."""
        return self.electorate.newest(partial(self._is_in_ledger, node)) if self.electorate.records else None

    def former_voters_of(self, node: SimulatedNode) -> types.VoterSet:
        """The set before the one in force in the ledger of a node."""
        held = [one for one in self.electorate.records if self._is_in_ledger(node, one.entry)]
        return held[-2].voters if len(held) > 1 else node.first_voters

    def in_force(self) -> list[types.VoterSet]:
        """Every set that counts for some node, as it runs now or after a power loss; the committed one first."""
        if not self.may_change:
            return [self.committed]
        found = {self.committed: None}
        for node_id, node in self._nodes.items():
            # A machine that is gone counts nobody's votes any more, and an observer that is no voter by its own log
            # never does: each may know voters that are gone, too.
            if node_id not in self._absent:
                is_observer = node_id in self.first_list_only
                found |= {voters: None for voters in self._sets_of(node) if not is_observer or node_id in voters.ids}
        return [voters for voters in found if len(voters)]

    def let_observers_know_first_list(self) -> None:
        """From now on the present observers are started with the addresses of the world's first voters."""
        self.first_list_only = self._nodes.keys() - {*self.electorate.initial.ids, *self.committed.ids}

    def knows_a_voter(self, node: SimulatedNode, *, without: SimulatedNode | None = None) -> bool:
        """Whether the log of this node, as it runs and after a power loss, names a machine that is where it says.

        ``without`` is not counted. An observer for which this is false has nobody to ask but its bootstrap servers.
        """
        return all(any(self._is_there(voter, without) for voter in voters.voters) for voters in self._sets_of(node))

    def committed_more(self) -> None:
        """Look for a newer committed voter set."""
        newest = self.electorate.newest(self.is_committed)
        if newest is not None and newest is not self.committed_record:
            was, self.committed, self.committed_record = self.committed, newest.voters, newest
            self.on_committed(was, newest.voters)

    def is_committed(self, entry: Entry) -> bool:
        """Whether some leader has counted this batch as committed."""
        return self._ledger.at(entry.base_offset) == entry

    def newcomer(self, join: Callable[[NodeConfig, Random], SimulatedNode]) -> SimulatedNode:
        """Add a machine: formatted to join the others, or configured with their static voters.

        ``join`` creates the node from its configuration and its generator, and adds it to the world.
        """
        node_id = max(self._nodes) + 1
        like = next(iter(self._nodes.values())).config
        config = self._able_to_join(newcomer(like, node_id))
        if not self.is_at_level_one:
            config = replace(config, voters=self.electorate.initial)
        node = join(config, Random(self._rng.random()))
        format_directory(node)
        if self.is_at_level_one:
            format_voters(node, None)
        return node

    def with_bootstrap(self, config: NodeConfig) -> NodeConfig:
        """The configuration for a process; where voters may change, with the present addresses of all nodes."""
        if not self.may_change:
            return config
        known = (
            node.config.advertised_listeners for node_id, node in self._nodes.items() if node_id not in self._absent
        )
        if config.node_id in self.first_list_only:
            known = (voter.listeners for voter in self.electorate.initial.voters)
        servers = (listeners.get(LISTENER) for listeners in known)
        return replace(config, bootstrap_servers=tuple(server for server in servers if server is not None))

    def voter(self, node: SimulatedNode) -> types.Voter:
        return types.Voter(key=node.key, listeners=node.config.advertised_listeners, kraft_version=types.KRAFT_VERSIONS)

    def _sets_of(self, node: SimulatedNode) -> Iterator[types.VoterSet]:
        for holds in (self._is_in_ledger, self._is_durable):
            newest = self.electorate.newest(partial(holds, node))
            yield newest.voters if newest is not None else node.first_voters

    def _is_there(self, voter: types.Voter, without: SimulatedNode | None) -> bool:
        node = self._nodes[int(voter.key.id)]
        is_off = node is without or int(voter.key.id) in self._absent
        return not is_off and voter.listeners == node.config.advertised_listeners

    def _is_in_ledger(self, node: SimulatedNode, entry: Entry) -> bool:
        ledger = node.ledger
        is_before = entry.end_offset <= ledger.begin.offset
        return self.is_committed(entry) if is_before else ledger.at(entry.base_offset) == entry

    def _is_durable(self, node: SimulatedNode, entry: Entry) -> bool:
        if self._platters.entry_at(node, entry.base_offset) == entry:
            return True
        return self.is_committed(entry) and self._platters.holds(node, entry)

    def _able_to_join(self, config: NodeConfig) -> NodeConfig:
        auto_join = self._rng.random() < self._auto_join_probability
        return replace(config, raft=replace(config.raft, auto_join=auto_join))

    def _format(self, configured: types.VoterSet) -> types.VoterSet:
        nodes = self._nodes
        for node in nodes.values():
            node.config = replace(node.config, voters=types.VoterSet(), directory_id=None)
            format_directory(node)
        voters = types.VoterSet.of(self.voter(nodes[int(node_id)]) for node_id in configured.ids)
        for node in nodes.values():
            format_voters(node, voters if types.NodeId(node.node_id) in configured.ids else None)
        return voters


def format_directory(node: SimulatedNode) -> None:
    """Write ``meta.properties``, with a random directory id unless the configuration has one."""
    opened = LogDirectory.open(
        node.disk,
        node.config.log_dir,
        node_id=node.node_id,
        cluster_id=node.config.cluster_id,
        directory_id=node.config.directory_id,
        random_uuid=lambda: types.Uuid(node.rng.randbytes(16)),
    )
    opened.release()
    node.key = types.ReplicaKey(node.node_id, opened.directory_id)


def format_voters(node: SimulatedNode, voters: types.VoterSet | None) -> None:
    """Write the bootstrap checkpoint with these voters; None on a node that joins other voters."""
    write_bootstrap(node.disk, node.config.partition_directory, voters)
    node.first_voters = voters or types.VoterSet()


def wipe_disk(node: SimulatedNode) -> None:
    """Take the power, and replace the disk by an empty one that works."""
    node.lose_power()
    node.disk.wipe()
    node.disk.io_errors.mend()
    node.disk.on_operation = None
    node.disk.liar = None


def replace_disk(node: SimulatedNode) -> None:
    """Take the power, and replace the disk: the node comes back with another directory id, to join the others."""
    wipe_disk(node)
    node.config = replace(node.config, directory_id=None, voters=types.VoterSet())
    format_directory(node)
    format_voters(node, None)
