"""A whole cluster in one thread, from one seed: nodes, network, clock, workload, faults and oracles.

All randomness comes from the seed, through a generator of its own for each part, so a change in one part does not
change the random draws of the others. After every event, all oracles look at the nodes that it concerned
(`Watch.touch`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from pykraft.config import NodeConfig
from pykraft.sim.clients.others import MakeUsers, OtherClients, Users
from pykraft.sim.clients.workload import Bystander, PreparedAppends, SimulatedWorkload, with_small_buffers
from pykraft.sim.facts.atlas import Atlas
from pykraft.sim.facts.facts import Claims, Facts
from pykraft.sim.facts.history import History
from pykraft.sim.facts.members import Members, VoterRequests
from pykraft.sim.facts.platter import Platters
from pykraft.sim.faults import Faults
from pykraft.sim.faults.process import plan_first_kills
from pykraft.sim.invariants import ALL, Invariant, ViolationError
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.kafka_rules import let_one_never_lead
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.network import Network, Weather
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.surroundings import Surroundings
from pykraft.sim.machine.trace import NodeState, Recorder, Trace
from pykraft.sim.scenario.scenario import DEFAULT, Scenario
from pykraft.sim.scenario.settings import (
    node_configs,
    size_limits,
    with_certificates,
    with_groups,
    with_memory,
    with_producers,
    with_small_segments,
    with_snapshots,
    without_operators,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The counts and digests of one run."""

    seed: int
    voters: int
    observers: int
    committed: int
    acknowledged: int
    epochs: int
    faults: dict[str, int]
    digest: str
    """Covers all lines of the trace and all frames that arrived."""
    virtual_ms: int
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""
    events: int = 0
    """Number of all events: frames, disk turns, timers, client calls, fault decisions."""
    wordless_digest: str = ""
    """The digest without the text of the trace lines: rewording a message does not change it."""


class World:
    """A world built from a seed; `run` runs it once."""

    _last_goal: int | None = None

    def __init__(
        self,
        seed: int,
        *,
        scenario: Scenario = DEFAULT,
        oracles: Sequence[type[Invariant]] = ALL,
        print_line: Callable[[str], None] | None = None,
        recorder: Recorder | None = None,
        make_users: MakeUsers | None = None,
    ) -> None:
        """``print_line`` is called with each line of the trace; ``recorder`` collects the events for the page of a run.

        ``make_users`` makes what uses the quorum, instead of `SimulatedWorkload`.
        """
        rng, variant = self._dice(seed, "cluster"), scenario.course.variant
        self.seed, self.scenario = seed, scenario
        self.recorder = recorder
        self.clock = Clock()
        self.trace = Trace(self.clock, print_line, recorder)
        weather = Weather.draw(scenario.links, self._dice(seed, "weather"))
        self.network = Network(self.clock, self._dice(seed, "network", variant), weather, recorder)
        self.voter_count = rng.choice(scenario.cluster.voters)
        self.observer_count = rng.choice(scenario.cluster.observers)
        snapshot_dice = self._dice(seed, "snapshots")
        self.records_between = snapshot_dice.choice(scenario.snapshots.records_between)
        preparing = self._dice(seed, "prepared")
        prepares = preparing.random() < scenario.work.prepared_probability
        self._producer_dice = self._dice(seed, "producers")
        self._producer_count = self._producer_dice.choice(scenario.producers.count)
        self._group_count = self._dice(seed, "groups").choice(scenario.groups.count)
        self._surroundings = Surroundings(
            clock=self.clock,
            network=self.network,
            trace=self.trace,
            storage=scenario.storage,
            bulk_factor=self._dice(seed, "bulk").choice(scenario.storage.bulk_factor),
        )
        self.nodes = {
            int(config.node_id or 0): self._node(config, self._dice(seed, f"node {config.node_id}", variant))
            for config in self._configs(snapshot_dice, preparing if prepares else None)
        }
        self._let_one_never_lead()
        self.facts = self._facts()
        self.watch = Watch(self.facts, oracles, self.trace)
        for node in self.nodes.values():
            node.observer = self.watch
        if recorder is not None:
            recorder.nodes = {node_id: node_id <= self.voter_count for node_id in self.nodes}
        self.users: Users
        dice = partial(self._dice, seed)
        if make_users is not None:
            self.users = make_users(self.facts, self.watch, dice)
        else:
            prepared = PreparedAppends(preparing if prepares else None)
            work_dice = self._dice(seed, "workload", variant)
            self.users = SimulatedWorkload(self.facts, self.watch, work_dice, prepared, dice)
        self.faults = Faults(self, self._dice(seed, "faults"), self._dice(seed, "strangers"), dice)
        self.others = OtherClients(
            self.facts,
            self.watch,
            partial(self._dice, seed),
            producer_count=self._producer_count,
            group_count=self._group_count,
        )
        self._subscribe()
        self.bystanders: dict[int, Bystander] = {}
        """The plain listeners of the running nodes."""
        listening = self._dice(seed, "bystanders")
        if self.records_between and listening.random() < scenario.snapshots.bystander_probability:
            self.watch.subscribe("process_begun", partial(self._listen, listening))

    def _subscribe(self) -> None:
        self.members.on_committed = self.faults.voters_committed
        subscribe = self.watch.subscribe
        subscribe("voters_appended", self.faults.voters_appended)
        subscribe("process_begun", self.users.started)
        subscribe("process_ended", self._ended)
        subscribe("interrupted", self.faults.interrupted)
        subscribe("disk_failed", self.faults.wipe.failed)
        subscribe("performs", self.faults.snapshot.performs)
        subscribe("happened", self.faults.happened)
        subscribe("given", self.faults.committed)

    def _listen(self, dice: Random, node: SimulatedNode) -> None:
        self.bystanders[node.node_id] = bystander = Bystander(self.facts, self.watch, node, dice)
        bystander.listen()

    def _ended(self, node: SimulatedNode) -> None:
        self.bystanders.pop(node.node_id, None)
        self.faults.ended(node)

    def _let_one_never_lead(self) -> None:
        probability = self.scenario.quorum.never_leads_probability
        if self.voter_count > 1 and self._dice(self.seed, "never leads").random() < probability:
            let_one_never_lead(self.nodes, self.voter_count - self.scenario.cluster.absent)

    def _facts(self) -> Facts:
        scenario, committed = self.scenario, Ledger()
        absent = set(range(self.voter_count - scenario.cluster.absent + 1, self.voter_count + 1))
        is_drawn_formatted = self._dice(self.seed, "format").random() < scenario.membership.formatted_probability
        is_formatted = is_drawn_formatted or bool(absent)
        platters, requests = Platters(self.nodes.values()), VoterRequests()
        self.members = Members(
            self.nodes,
            scenario,
            platters,
            committed,
            self._dice(self.seed, "members"),
            is_formatted=is_formatted,
            absent=absent,
        )
        return Facts(
            seed=self.seed,
            scenario=scenario,
            records_between=self.records_between,
            is_formatted=is_formatted,
            absent=absent,
            clock=self.clock,
            network=self.network,
            nodes=self.nodes,
            platters=platters,
            committed=committed,
            members=self.members,
            requests=requests,
            atlas=Atlas(self.nodes, platters, committed, self.members, requests, absent),
            claims=Claims(),
            history=History(),
            counts=Counter(),
        )

    def _node(self, config: NodeConfig, rng: Random) -> SimulatedNode:
        self._surroundings.network.size_limits[int(config.node_id or 0)] = size_limits(config)
        return SimulatedNode(config, rng, self._surroundings)

    def _configs(self, taking: Random, preparing: Random | None) -> list[NodeConfig]:
        scenario, seed = self.scenario, self.seed
        settings = self._dice(seed, "settings")
        configs = node_configs(self.voter_count, self.observer_count, scenario.quorum, settings)
        if self.records_between:
            configs = with_snapshots(configs, scenario.snapshots, self.records_between, taking)
        if preparing is not None:
            configs = with_small_buffers(configs, preparing)
        if self._dice(seed, "segments").random() < scenario.quorum.small_segment_probability:
            configs = with_small_segments(configs)
        probability = scenario.quorum.without_operators_probability
        if not scenario.has_operator and self._dice(seed, "operators").random() < probability:
            configs = without_operators(configs)
        if self._producer_count:
            configs = with_producers(configs, scenario.producers, self._producer_dice)
        if self._group_count:
            configs = with_groups(configs, scenario.groups, self._dice(seed, "group settings"))
        if self._dice(seed, "principals").random() < scenario.security.protected_probability:
            configs = with_certificates(configs)
        return with_memory(configs, self._dice(seed, "memory").choice(scenario.quorum.recent_size_bytes_max))

    def run(self, *, until_us: int | None = None) -> Outcome:
        """Start all nodes, inject faults for a while, then wait until the cluster has healed; or stop at ``until_us``.

        Errors: ViolationError, or whatever a host raised.
        """
        course = self.scenario.course
        faults_us = course.faults_us if until_us is None else min(until_us, course.faults_us)
        for node in self.nodes.values():
            self.clock.after(node.rng.randrange(course.start_us_max), partial(self.faults.start, node))
        plan_first_kills(self.facts, self.watch, self._dice(self.seed, "first starts"))
        self.users.begin()
        self.others.begin()
        self.faults.begin()
        while self.clock.now_us < faults_us:
            self.turn()
        if until_us is not None and until_us <= course.faults_us:
            return self._outcome()
        self.trace.note(None, "the faults end")
        self.faults.stop()
        self.watch.faults_ended()
        goal = self._committed() + course.progress_records
        limit_us = course.faults_us + course.heal_us + max(map(self.facts.doubts_us, self.nodes.values()))
        while not self._has_healed(goal):
            if self.clock.now_us > limit_us:
                self.watch.not_healed(f"no progress to {goal} on all nodes, they are at {self.watch.ends}")
                break
            self.turn()
        self.watch.ended()
        self.users.over()
        return self._outcome()

    def _outcome(self) -> Outcome:
        return Outcome(
            seed=self.seed,
            voters=self.voter_count,
            observers=self.observer_count,
            committed=self._committed(),
            acknowledged=self.users.acknowledged,
            epochs=max((host.status.epoch for host in self.facts.hosts()), default=0),
            faults=dict(sorted(self.faults.counts.items())),
            states=self.faults.states,
            digest=self.trace.digest,
            virtual_ms=self.clock.now_us // 1_000,
            events=self.clock.happened,
            wordless_digest=self.trace.wordless_digest,
        )

    def newcomer(self) -> SimulatedNode:
        """Add a machine; no process runs on it yet."""
        return self.members.newcomer(self._join)

    def _join(self, config: NodeConfig, rng: Random) -> SimulatedNode:
        node = self._node(config, rng)
        node.observer = self.watch
        self.nodes[int(node.node_id)] = node
        self.facts.platters.joined(node)
        self.facts.atlas.joined(node)
        self.faults.joined(node)
        if self.recorder is not None:
            self.recorder.nodes[int(node.node_id)] = False
        return node

    def restart(self, node: SimulatedNode) -> None:
        """Start a node that is down, as soon as the atlas allows it."""
        self.faults.start(node)

    def turn(self) -> None:
        """Carry out the next event, then ask the oracles. Errors: ViolationError, or whatever a host raised."""
        if not self.clock.advance():
            raise ViolationError("Liveness", "nothing is left to happen")
        if self.recorder is not None:
            self.record(self.watch.touched.values())
        for node in self.watch.touched.values():
            self.watch.event_over(node)
        self.watch.touched.clear()

    def record(self, nodes: Iterable[SimulatedNode]) -> None:
        """Record the present state of these nodes, if there is a recorder."""
        if self.recorder is None:
            return
        for node in nodes:
            status, election = node.status, self.facts.platters.election(node)
            state = NodeState(
                role=status.role if status is not None else "down",
                epoch=status.epoch if status is not None else election.epoch,
                leader_id=status.leader_id if status is not None else None,
                vote=election.voted_id,
                disk_epoch=election.epoch,
                log_end=status.log_end_offset if status is not None else None,
                flushed=self.facts.platters.end(node).offset,
                high_watermark=status.high_watermark if status is not None else None,
                is_damaged=node.is_damaged,
                voters=len(status.voters.ids) if status is not None else None,
            )
            self.recorder.state(self.clock.now_us, node.node_id, state)

    def record_end(self) -> None:
        """Record the state of everything at the end of the run, if there is a recorder."""
        if self.recorder is not None:
            self.record(self.nodes.values())
            self.recorder.under_way = self.network.under_way()

    @staticmethod
    def _dice(seed: int, part: str, variant: int = 0) -> Random:
        """The random generator of the named part: a world with a node less has the same network."""
        return Random(f"{seed} {part} {variant}" if variant else f"{seed} {part}")

    def _committed(self) -> int:
        return max(self.watch.ends.values(), default=0)

    def _has_healed(self, goal: int) -> bool:
        """True when all nodes have the goal, then what was acknowledged by that time, and one node everything since."""
        if not self._is_given(goal) or not self.others.are_served:
            return False
        if self._last_goal is None:
            self._last_goal = self.users.acknowledged_end_offset
        # The acknowledged end keeps rising, so not every node can have reached it: where followers learn of a commit
        # only with the next record, as from a leader of an old version, some node always lacks the newest one.
        is_told = self._committed() >= self.users.acknowledged_end_offset
        return is_told and self._is_given(self._last_goal)

    def _is_given(self, goal: int) -> bool:
        if len(self.watch.ends) < len(self.nodes) - len(self.facts.absent):
            return False
        kept = [node_id for node_id in self.nodes if not self._is_misled(node_id)]
        ends = [self.watch.ends[node_id] for node_id in kept if node_id in self.watch.ends]
        ends += [each.end_offset for node_id, each in self.bystanders.items() if node_id in kept]
        return bool(ends) and min(ends) >= goal

    def _is_misled(self, node_id: int) -> bool:
        """True for a node in an epoch beyond the leader's that the voters need not follow: nothing brings it back."""
        node, leader = self.nodes[node_id], self.facts.newest_leader()
        # A stranger moved it; or it missed its removal, knows no pre-votes, and campaigns without end.
        if not self.facts.claims.is_any and node.dialect is None:
            return False
        status = node.status
        if status is None or leader is None or status.epoch <= leader.host.status.epoch:
            return False
        # It must wait until the voters reach its epoch, because the leader answers its Fetches with
        # UNKNOWN_LEADER_EPOCH (docs/threat-model.md).
        return status.role == "observer" or node.is_damaged or node not in self.facts.voters()
