"""A second process with the id of a static voter, on a directory of its own: somebody copied a properties file.

It is a whole node that nobody watches: no oracle, no application, no fault. The voters do not dial it, because it
listens at a port of its own. It fetches as the real voter does, and must not count as that voter.

What the protocol cannot tell is left out (ADR 130), so the twin ends before it

- fetches from a leader from which the real voter has not fetched in this epoch: the first directory is the voter's;
- asks for votes: a twin that has the whole log may be elected while the real voter is silent, as that voter could be.

Source: ours; Kafka compares directory ids from kraft.version 1 on (KIP-853).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final, cast

from pykraft.config import NodeConfig
from pykraft.core.state.leader import Leader
from pykraft.sim.facts.facts import Facts
from pykraft.sim.machine.format import format_directory
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.machine.surroundings import NodeObserver
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import Endpoint, Listeners

PORTS_FROM: Final = 500
"""The twin of voter 2 is at port 502."""


class VoterTwin:
    """The twin, and all that observes it."""

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
        """See `NodeObserver`."""
        return self._facts.members.with_bootstrap(node.config)

    def durable_epoch(self, node: SimulatedNode) -> int:
        """See `NodeObserver`: no oracle asks for more."""
        assert node.status is not None
        return node.status.epoch

    def __getattr__(self, _event: str) -> Callable[..., None]:
        """See `NodeObserver`: nothing else that happens to a twin matters."""
        return lambda *_: None
