"""A second process with the id of a static voter runs beside the real one for some seconds, then is gone for good.

Somebody copied a properties file: its directory is its own, formatted or not. It is a whole node that nobody watches:
no oracle, no application, no fault. It listens at a port of its own, so the voters do not dial it. It fetches as the
real voter does, and must not count as that voter: nothing may be acknowledged because of it. In most cases the
followers stand still for a while: then only the twin could acknowledge what the leader appends.

What the protocol cannot tell is left out (ADR 130), so the twin ends before it

- fetches from a leader from which the real voter has not fetched in this epoch: the first directory is the voter's;
- asks for votes: a twin that has the whole log may be elected while the real voter is silent, as that voter could be.

Source: ours (ADR 130); Kafka compares directory ids from kraft.version 1 on (KIP-853).
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final, cast

from pykraft.config import NodeConfig
from pykraft.core.state import Leader
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.members import format_directory
from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.machine.surroundings import NodeObserver
from pykraft.sim.scenario.scenario import TWINS
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import Endpoint, Listeners

PORTS_FROM: Final = 500
"""The twin of voter 2 is at port 502."""


class VoterTwin:
    """The twin, and all that observes it. See `NodeObserver`."""

    def __init__(self, facts: Facts, real: SimulatedNode, rng: Random, *, is_formatted: bool) -> None:
        self._facts = facts
        self._real = real
        self._led: tuple[int, int] | None = None
        """Leader and epoch that it followed at its last event, and where its log ended."""
        self._end_offset = 0
        self._fetched: tuple[int | None, int] | None = None
        """Whom it asked last under its id, and in which epoch: while it is unproven it fetches without one."""
        listeners = Listeners(((LISTENER, Endpoint("twin", PORTS_FROM + int(real.node_id))),))
        config = replace(
            real.config,
            directory_id=None,
            listeners=listeners,
            advertised_listeners=listeners,
            raft=replace(real.config.raft, auto_join=False),
        )
        self.node = SimulatedNode(config, rng, real.surroundings)
        self.node.observer = cast("NodeObserver[SimulatedNode]", self)
        if is_formatted:
            format_directory(self.node)
        facts.claims.twin_ids.add(int(real.node_id))
        self.node.start()

    def end(self) -> None:
        """The twin ends for good, without another word; nothing happens if it has ended."""
        if self.node.process is not None:
            self.node.lose_power()

    def before_send(self, _node: SimulatedNode, spoken: Spoken) -> None:
        """See `NodeObserver`: end before the twin takes the place of the real voter."""
        if spoken.fetched is not None:
            self._fetched = spoken.target_id, spoken.epoch
        is_first = (spoken.fetched or spoken.sliced) is not None and self._would_be_first(spoken)
        if is_first or spoken.candidate_id is not None:
            self._facts.clock.after(0, self.end)

    def _would_be_first(self, spoken: Spoken) -> bool:
        target = self._facts.nodes.get(spoken.target_id or 0)
        state = target.host.raft.state if target is not None and target.host is not None and target.host.raft else None
        if not isinstance(state, Leader) or state.epoch != spoken.epoch or target is self._real:
            return False
        return state.progress.directories.get(self._real.node_id) != self._real.key.directory_id

    def touch(self, node: SimulatedNode) -> None:
        """See `NodeObserver`: note which leader has sent it records."""
        status = node.status
        if status is None:
            return
        led = None if status.leader_id is None else (int(status.leader_id), int(status.epoch))
        if led is not None and led == self._led == self._fetched and status.log_end_offset > self._end_offset:
            self._facts.claims.fed_twins.add((*led, int(node.node_id)))
        self._led, self._end_offset = led, status.log_end_offset

    def configured(self, node: SimulatedNode) -> NodeConfig:
        return self._facts.members.with_bootstrap(node.config)

    def durable_epoch(self, node: SimulatedNode) -> int:
        """See `NodeObserver`: no oracle asks for more."""
        assert node.status is not None
        return node.status.epoch

    def __getattr__(self, _event: str) -> Callable[..., None]:
        """See `NodeObserver`: nothing else that happens to a twin matters."""
        return lambda *_: None


LASTS_US: Final = (300_000, 4_000_000)
LATER_US: Final = (100_000, 1_500_000)
PAUSE_US: Final = (50_000, 900_000)
PAUSES_PROBABILITY: Final = 0.6


class TwinFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        super().__init__(harm)
        self._twin: VoterTwin | None = None
        (kind,) = TWINS
        self._kind: Final = kind
        self.kinds = {kind: self._begin}

    def stop(self) -> None:
        if self._twin is not None:
            self._twin.end()
            self._twin = None

    def _begin(self) -> bool:
        """Start a twin of a voter that has fetched from the leader, one at a time.

        Voters in the log have directory ids. Without pre-votes an unproven voter may ask for votes.
        """
        facts, rng = self._harm.facts, self._rng
        leader = facts.newest_leader()
        if self._twin is not None or leader is None or not leader.host.status.high_watermark:
            return False
        if facts.members.is_at_level_one or not facts.members.has_pre_votes:
            return False
        real = rng.choice(facts.voters())
        self._harm.hit(self._kind, real, "has a twin from now on")
        self._twin = VoterTwin(facts, real, Random(rng.random()), is_formatted=rng.random() < 0.5)
        if rng.random() < PAUSES_PROBABILITY:
            self._harm.later(rng.randint(*LATER_US), lambda: self._pause_followers(leader.node_id, rng))
        self._harm.later(rng.randint(*LASTS_US), self.stop)
        return True

    def _pause_followers(self, leader_id: int, rng: Random) -> None:
        for node in self._harm.facts.voters():
            if node.node_id != leader_id:
                self._pause(node, rng.randint(*PAUSE_US))

    def _pause(self, node: SimulatedNode, duration_us: int) -> None:
        if node.process is not None and not node.process.is_paused:
            self._harm.note(node, f"stands still for {duration_us / 1e3:.0f} ms")
            node.process.pause(duration_us)
