"""A whole cluster in one thread and one seed: nodes, network, clock, workload, faults and oracles.

Everything random comes from the seed, through generators of their own for each part, so that a change in
one part does not change the dice of the others. After every event all invariants look at the nodes that it
concerned (`World.touch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from pykraft.config import NodeConfig
from pykraft.host.host import Host
from pykraft.sim.clients.application import Application
from pykraft.sim.clients.bystander import Bystander
from pykraft.sim.clients.prepared_appends import PreparedAppends, with_small_buffers
from pykraft.sim.clients.visitor import Visitor
from pykraft.sim.clients.workload import Workload
from pykraft.sim.facts.atlas import Atlas
from pykraft.sim.facts.claims import Claims
from pykraft.sim.facts.members import Members
from pykraft.sim.facts.platter import DurableElection, Platter
from pykraft.sim.faults import Faults, first_start
from pykraft.sim.invariants import ALL, Invariant, ViolationError
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.ledger import Entry, Ledger
from pykraft.sim.machine.network import Network
from pykraft.sim.machine.node import Node, Process
from pykraft.sim.machine.recorder import NodeState, Recorder
from pykraft.sim.machine.trace import Trace
from pykraft.sim.machine.weather import Weather
from pykraft.sim.scenario.scenario import DEFAULT, Scenario
from pykraft.sim.scenario.settings import node_configs, with_memory, with_small_segments, with_snapshots
from pykraft.types import OffsetAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One run in numbers."""

    seed: int
    voters: int
    observers: int
    committed: int
    acknowledged: int
    epochs: int
    faults: dict[str, int]
    digest: str
    """Of all lines of the trace and all frames that arrived."""
    virtual_ms: int
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of fault: the roles of the nodes that it happened to."""
    events: int = 0
    """What happened in all: frames, turns of disks, alarms, calls of clients, decisions to do harm."""
    wordless_digest: str = ""
    """As the digest, without what the lines say: a change that only rewords the trace keeps it."""


class World:
    """Built from a seed; `run` lives through it once."""

    _last_goal: int | None = None

    def __init__(
        self,
        seed: int,
        *,
        scenario: Scenario = DEFAULT,
        oracles: Sequence[type[Invariant]] = ALL,
        tell: Callable[[str], None] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """``tell`` is given each line of the trace, ``recorder`` what the page of a run is made of."""
        rng, variant = self._dice(seed, "cluster"), scenario.course.variant
        self.seed, self.scenario = seed, scenario
        self.recorder = recorder
        self.clock = Clock()
        self.claims = Claims()
        self.trace = Trace(self.clock, tell, recorder)
        weather = Weather.draw(scenario.links, self._dice(seed, "weather"))
        self.network = Network(self.clock, self._dice(seed, "network", variant), weather, recorder)
        self.voter_count = rng.choice(scenario.cluster.voters)
        self.observer_count = rng.choice(scenario.cluster.observers)
        taking = self._dice(seed, "snapshots")
        self.records_between = taking.choice(scenario.snapshots.records_between)
        """About so many records from one snapshot of a node to the next; 0: there are no snapshots."""
        preparing = self._dice(seed, "prepared")
        prepares = preparing.random() < scenario.work.prepared_probability
        self.bulk_factor = self._dice(seed, "bulk").choice(scenario.storage.bulk_factor)
        """How many times as long a turn of the bulk lane takes as one of the ordered lane."""
        self._taking: dict[int, Random] = {}
        self._asking: dict[int, Random] = {}
        self.nodes = {
            int(config.node_id or 0): Node(self, config, self._dice(seed, f"node {config.node_id}", variant))
            for config in self._configs(taking, preparing if prepares else None)
        }
        self._platters = {
            node_id: Platter(node.disk, partition_directory(node)) for node_id, node in self.nodes.items()
        }
        self.absent = set(range(self.voter_count - scenario.cluster.absent + 1, self.voter_count + 1))
        """Voters that never start."""
        has_luck = self._dice(seed, "format").random() < scenario.membership.formatted_probability
        self.is_formatted = has_luck or bool(self.absent)
        """Whether an operator formatted the static voters; who never starts can prove nobody."""
        self.members = Members(self, self._dice(seed, "members"))
        self.electorate = self.members.electorate
        self.atlas = Atlas(self)
        prepared = PreparedAppends(preparing if prepares else None)
        self.workload = Workload(self, self._dice(seed, "workload", variant), prepared)
        self.faults = Faults(self, self._dice(seed, "faults"), self._dice(seed, "strangers"))
        self._visitor = Visitor(self, self._dice(seed, "visitor"))
        if recorder is not None:
            recorder.nodes = {node_id: node_id <= self.voter_count for node_id in self.nodes}
        self.has_pre_votes = True
        """False when some node runs, or ran, a version without them: then anybody may campaign without asking."""
        self.watch = Watch(self, oracles)
        self._ends: dict[int, int] = {}
        listening = self._dice(seed, "bystanders")
        has_bystanders = self.records_between and listening.random() < scenario.snapshots.bystander_probability
        self._bystander_dice = listening if has_bystanders else None
        self._bystanders: dict[int, Bystander] = {}
        self._touched: dict[int, Node] = {}

    def _configs(self, taking: Random, preparing: Random | None) -> list[NodeConfig]:
        """What the nodes are configured with; each part of it has dice of its own."""
        scenario, seed = self.scenario, self.seed
        settings = self._dice(seed, "settings")
        configs = node_configs(self.voter_count, self.observer_count, scenario.quorum, settings)
        if self.records_between:
            configs = with_snapshots(configs, scenario.snapshots, self.records_between, taking)
        if preparing is not None:
            configs = with_small_buffers(configs, preparing)
        if self._dice(seed, "segments").random() < scenario.quorum.small_segment_probability:
            configs = with_small_segments(configs)
        return with_memory(configs, self._dice(seed, "memory").choice(scenario.quorum.recent_size_bytes_max))

    def run(self, *, until_us: int | None = None) -> Outcome:
        """Start all, do harm for a while, then let it heal and serve; or only go on until then.

        Errors: ViolationError, or whatever a host raised.
        """
        course = self.scenario.course
        faults_us = course.faults_us if until_us is None else min(until_us, course.faults_us)
        for node in self.nodes.values():
            self.clock.after(node.rng.randrange(course.start_us_max), partial(self.faults.start, node))
        first_start.plan(self, self._dice(self.seed, "first starts"))
        self.workload.begin()
        self._visitor.begin()
        self.faults.begin()
        while self.clock.now_us < faults_us:
            self.turn()
        if until_us is not None and until_us <= course.faults_us:
            return self._outcome()
        self.trace.note(None, "the faults end")
        self.faults.stop()
        self.watch.faults_ended()
        goal = self._committed() + course.progress_records
        while not self._has_healed(goal):
            if self.clock.now_us > course.faults_us + course.heal_us:
                self.watch.not_healed(f"no progress to {goal} on all nodes, they are at {self._ends}")
                break
            self.turn()
        self.watch.ended()
        return self._outcome()

    def _outcome(self) -> Outcome:
        return Outcome(
            seed=self.seed,
            voters=self.voter_count,
            observers=self.observer_count,
            committed=self._committed(),
            acknowledged=self.workload.acknowledged,
            epochs=max((host.epoch for host in self.hosts()), default=0),
            faults=dict(sorted(self.faults.counts.items())),
            states=self.faults.states,
            digest=self.trace.digest,
            virtual_ms=self.clock.now_us // 1_000,
            events=self.clock.happened,
            wordless_digest=self.trace.wordless_digest,
        )

    def hosts(self) -> list[Host]:
        """Hosts of all running processes, in order of their ids."""
        return [node.host for node in self.nodes.values() if node.host is not None]

    def voters(self) -> list[Node]:
        """Nodes of the newest voter set that is committed, running or not; those that have the directory id in it."""
        return self.members.nodes_of(self.members.committed)

    def join(self, node: Node) -> None:
        """Another machine; nothing runs on it yet."""
        self.nodes[int(node.node_id)] = node
        self._platters[int(node.node_id)] = Platter(node.disk, partition_directory(node))
        self.atlas.joined(node)
        self.faults.joined(node)
        if self.recorder is not None:
            self.recorder.nodes[int(node.node_id)] = False

    def newest_leader(self) -> Process | None:
        """The running leader of the highest epoch."""
        processes = (node.process for node in self.nodes.values() if node.process is not None)
        leaders = [process for process in processes if process.host.role == "leader"]
        return max(leaders, key=lambda process: process.host.epoch, default=None)

    def durable_election(self, node: Node) -> DurableElection:
        """Election that a power loss now would leave on this node."""
        return self._platters[node.node_id].election()

    def durable_end(self, node: Node) -> OffsetAndEpoch:
        """Log end that a power loss now would leave on this node, and the epoch of the record before."""
        return self._platters[node.node_id].end()

    def durable_end_offset(self, node: Node) -> int:
        """That end alone."""
        return self.durable_end(node).offset

    def durable_snapshots(self, node: Node) -> Sequence[OffsetAndEpoch]:
        """Ids of the snapshots that a power loss now would leave on this node, oldest first."""
        return self._platters[node.node_id].snapshots()

    def durable_snapshot(self, node: Node, snapshot_id: OffsetAndEpoch) -> bytes | None:
        """The bytes of one of them; None when there is no such snapshot."""
        return self._platters[node.node_id].snapshot(snapshot_id)

    def touch(self, node: Node) -> None:
        """Something happens to this node: look at it once the event is over."""
        self._touched[int(node.node_id)] = node

    def is_set_aside(self, node: Node, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether this node found a snapshot damaged, as it is, and put it aside."""
        return self._platters[node.node_id].is_set_aside(snapshot_id)

    def has_news(self, node: Node) -> bool:
        """Whether the platter of a running node has a newer snapshot than its host has heard of: that is told soon."""
        raft = node.host.raft if node.host is not None else None
        newest = self.durable_snapshots(node)[-1:]
        return raft is not None and any(each not in raft.log.snapshots for each in newest)

    def durable_entry(self, node: Node, offset: int) -> Entry | None:
        """The batch that holds this offset and that a power loss now would leave on this node."""
        return self._platters[node.node_id].entry_at(offset)

    def durably_holds(self, node: Node, entry: Entry) -> bool:
        """Whether a power loss now would leave this batch on this node, or a snapshot that reaches beyond it."""
        platter = self._platters[node.node_id]
        if platter.entry_at(entry.base_offset) == entry:
            return True
        return any(entry.end_offset <= each.offset for each in platter.snapshots())

    def ledger(self, node: Node) -> Ledger:
        """The log of a node as its process sees it."""
        return node.ledger

    @property
    def committed(self) -> Ledger:
        """What leaders counted as committed."""
        return self.watch.committed

    def started(self, node: Node) -> None:
        """A process begins; its application listens from the first record on."""
        assert node.host is not None
        self._ends[node.node_id] = 0
        self.atlas.started(node)
        quarantine = node.host.quarantine
        keeps_damage = quarantine is not None and not quarantine.is_cut
        node.ledger = self._platters[node.node_id].recovered(keeps_damage=keeps_damage)
        node.ledger.cut(node.host.log_end_offset)
        if self.atlas.has_lost(node):
            self.watch.lost(node)
        self.watch.started(node)
        application = Application(self, node)
        self.workload.serve(node, application)
        application.listen()
        if self._bystander_dice is not None:
            self._bystanders[node.node_id] = bystander = Bystander(self, node, self._bystander_dice)
            bystander.listen()

    def ended(self, node: Node) -> None:
        """A process is gone."""
        self._ends.pop(node.node_id, None)
        self._bystanders.pop(node.node_id, None)
        self.faults.ended(node)

    def delivered(self, node: Node, end_offset: int) -> None:
        """A listener was given batches up to there."""
        self._ends[node.node_id] = end_offset
        self.faults.committed()

    def snapshot_dice(self, node: Node) -> Random:
        """When this node takes its next snapshot is drawn from these."""
        node_id = int(node.node_id)
        return self._taking.setdefault(node_id, self._dice(self.seed, f"snapshots {node_id}"))

    def asking_dice(self, node: Node) -> Random:
        """Whether the application of this node's next process is asked for its snapshots is drawn from these."""
        node_id = int(node.node_id)
        return self._asking.setdefault(node_id, self._dice(self.seed, f"asking {node_id}"))

    def turn(self) -> None:
        """The next event, then the invariants. Errors: ViolationError, or whatever a host raised."""
        if not self.clock.advance():
            raise ViolationError("Liveness", "nothing is left to happen")
        if self.recorder is not None:
            self.record(self._touched.values())
        for node in self._touched.values():
            self.watch.event_over(node)
        self._touched.clear()

    def record(self, nodes: Iterable[Node]) -> None:
        """Show the recorder, if there is one, how these nodes are now."""
        if self.recorder is None:
            return
        for node in nodes:
            host, election = node.host, self.durable_election(node)
            state = NodeState(
                role=host.role if host is not None else "down",
                epoch=host.epoch if host is not None else election.epoch,
                leader_id=host.leader_id if host is not None else None,
                vote=election.voted_id,
                disk_epoch=election.epoch,
                log_end=host.log_end_offset if host is not None else None,
                flushed=self.durable_end(node).offset,
                high_watermark=host.high_watermark if host is not None else None,
                is_damaged=node.is_damaged,
            )
            self.recorder.state(self.clock.now_us, node.node_id, state)

    def record_end(self) -> None:
        """Show the recorder, if there is one, how everything is when the run ends."""
        if self.recorder is not None:
            self.record(self.nodes.values())
            self.recorder.under_way = self.network.under_way()

    @staticmethod
    def _dice(seed: int, part: str, variant: int = 0) -> Random:
        """Each part has its own, by its name: a world with a node less has the same network."""
        return Random(f"{seed} {part} {variant}" if variant else f"{seed} {part}")

    def _committed(self) -> int:
        return max(self._ends.values(), default=0)

    def _has_healed(self, goal: int) -> bool:
        """All nodes were given the goal, then what was acknowledged when they had it, and one node all of it.

        What is acknowledged goes on rising: where followers hear of each commit only with the next record, as from a
        leader of an old version, some node always lacks the newest one.
        """
        if not self._is_given(goal):
            return False
        if self._last_goal is None:
            self._last_goal = self.workload.acknowledged_end_offset
        is_told = self._committed() >= self.workload.acknowledged_end_offset
        return is_told and self._is_given(self._last_goal)

    def _is_given(self, goal: int) -> bool:
        if len(self._ends) < len(self.nodes) - len(self.absent):
            return False
        kept = [node_id for node_id in self.nodes if not self.claims.is_any or not self._is_misled(node_id)]
        ends = [self._ends[node_id] for node_id in kept if node_id in self._ends]
        ends += [each.end_offset for node_id, each in self._bystanders.items() if node_id in kept]
        return bool(ends) and min(ends) >= goal

    def _is_misled(self, node_id: int) -> bool:
        """True for a node that a stranger told of an epoch beyond that of all voters, and that cannot campaign.

        It waits until they get there: a leader answers its Fetches with UNKNOWN_LEADER_EPOCH (docs/trust.md).
        """
        node, leader = self.nodes[node_id], self.newest_leader()
        if node.host is None or leader is None or node.host.epoch <= leader.host.epoch:
            return False
        raft = node.host.raft
        return raft is None or raft.role == "observer" or node.is_damaged or node not in self.voters()


def partition_directory(node: Node) -> Path:
    """Where a node keeps its log."""
    return node.config.partition_directory
