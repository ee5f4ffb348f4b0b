"""The faults of a history: which come in which order, drawn from a seed, and how each is made and undone.

An episode is one fault, or two that overlap; then everything is healed, and clients of all nodes must get answers.
Invariant: each kind comes once before any comes again; at most one voter's disk is lost at a time, and a node whose
disk is lost is started again only when it votes no more.

Source: Jepsen's nemeses.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final, TypeAlias

from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.errors import PykraftError
from pykraft.local.child import wait_until
from pykraft.local.voters import HOST
from pykraft.types import Endpoint
from tests.machine.histories.quorum import HistoryQuorum

FAULTS: Final = ("kill", "kill-all", "freeze", "isolate", "partition", "one-way", "clock", "change")
LASTS_S: Final = {
    "kill": (0.1, 2.0),
    "kill-all": (0.0, 0.5),
    "freeze": (0.8, 4.0),
    "isolate": (1.5, 4.5),
    "partition": (1.5, 4.5),
    "one-way": (1.0, 4.0),
    "clock": (0.5, 1.5),
    "change": (0.5, 2.0),
}
"""Seconds."""
OVERLAP_SHARE: Final = 0.4
LEADER_SHARE: Final = 0.6
JUMPS_MS: Final = (50, 5_000, 3_600_000, 40 * 86_400_000)
VOTERS_MIN: Final = 3
CHANGE_TIMEOUT_S: Final = 60.0
LIMITS: Final = Patience(timeout_ms=5_000, request_timeout_ms=2_000)

Undo: TypeAlias = Callable[[], None]


def episodes(rng: Random, kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All episodes; the iterator never ends."""
    deck: list[str] = []
    while True:
        deck = deck or rng.sample(kinds, len(kinds))
        episode = [deck.pop()]
        if len(kinds) > 1 and rng.random() < OVERLAP_SHARE:
            episode.append(rng.choice([kind for kind in kinds if kind != episode[0]]))
        yield tuple(episode)


class Nemesis:
    """Makes the faults of one quorum."""

    def __init__(self, quorum: HistoryQuorum, rng: Random, report: Callable[[str], None]) -> None:
        self._quorum = quorum
        self._rng = rng
        self._report = report
        self._lost: set[int] = set()
        """Nodes whose disk is lost, and which may still vote as far as the others know."""
        self._outcomes: list[Callable[[], str | None]] = []
        self.counts: dict[str, int] = {}
        """How often each fault was made, by what it was in particular."""
        self._make: dict[str, Callable[[], Undo]] = {
            "kill": self._kill,
            "kill-all": self._kill_all,
            "freeze": self._freeze,
            "isolate": self._isolate,
            "partition": self._partition,
            "one-way": self._one_way,
            "clock": self._jump,
            "change": self._change,
        }

    def episode(self, kinds: Sequence[str]) -> None:
        """Make these faults, one beginning while the one before lasts; heal, and wait until it works.

        Errors: LocalQuorumError when it does not work again, and when a node ends by itself.
        """
        undo = []
        for kind in kinds:
            lasts_s = self._rng.uniform(*LASTS_S[kind])
            if not self._quorum.running:
                self._revive()  # what overlaps a kill of all needs somebody whom it can hit
            undo.append(self._make[kind]())
            self._pass(lasts_s if kind == kinds[-1] else self._rng.uniform(0, lasts_s))
        for each in undo:
            each()
        self._heal()
        self._quorum.wait_until_it_works()
        if self._outcomes:
            self._settle()

    def _heal(self) -> None:
        self._quorum.network.heal()
        for node_id in self._quorum.running:
            self._quorum.thaw(node_id)
        self._revive()

    def _revive(self) -> None:
        for node_id in sorted(self._quorum.voters - {*self._quorum.running} - self._lost):
            self._quorum.start(node_id)

    def _pass(self, seconds: float) -> None:
        """Wait, and check that every node lives that should."""
        until_s = time.monotonic() + seconds

        def is_over() -> bool:
            self._quorum.require_life()
            return time.monotonic() >= until_s

        wait_until(is_over, "time to pass", timeout_s=2 * seconds + 60)

    def _count(self, what: str, story: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self._report(f"{what}: {story}")

    def _target(self) -> int:
        """A running node, mostly the leader."""
        leader_id = self._quorum.leader()
        if leader_id is not None and self._rng.random() < LEADER_SHARE:
            return leader_id
        return self._rng.choice(self._quorum.running)

    def _kill(self) -> Undo:
        node_id = self._target()
        self._count("kill -9", f"node {node_id}")
        self._quorum.kill(node_id)
        return self._revive

    def _kill_all(self) -> Undo:
        self._count("kill -9 of all", f"nodes {self._quorum.running}")
        for node_id in self._quorum.running:
            self._quorum.kill(node_id)
        return self._revive

    def _freeze(self) -> Undo:
        node_id = self._target()
        self._count("SIGSTOP", f"node {node_id}")
        self._quorum.freeze(node_id)
        return lambda: None

    def _isolate(self) -> Undo:
        """Nobody can reach the leader, nor it anybody."""
        leader_id = self._quorum.leader() or self._rng.choice(self._quorum.running)
        self._count("isolated leader", f"node {leader_id}")
        self._part({leader_id})
        return lambda: None

    def _partition(self) -> Undo:
        """Any part of the nodes cannot reach the rest."""
        running = self._quorum.running
        part = {*self._rng.sample(running, 1 + self._rng.randrange(max(1, len(running) - 1)))}
        self._count("partition", f"{sorted(part)} | {sorted({*running} - part)}")
        self._part(part)
        return lambda: None

    def _one_way(self) -> Undo:
        node_id = self._target()
        is_inbound = self._rng.random() < 0.5
        self._count("one-way cut", f"{'to' if is_inbound else 'from'} node {node_id}")
        others = [each for each in self._quorum.pool if each != node_id]
        self._cut([(other, node_id) if is_inbound else (node_id, other) for other in others])
        return lambda: None

    def _part(self, part: set[int]) -> None:
        rest = {*self._quorum.pool} - part
        self._cut([pair for one in part for other in rest for pair in ((one, other), (other, one))])

    def _cut(self, pairs: Sequence[tuple[int, int]]) -> None:
        for pair in pairs:
            self._quorum.network.wire(*pair).is_cut = True

    def _jump(self) -> Undo:
        for node_id in self._rng.sample(self._quorum.pool, 2):
            ms = self._rng.choice(JUMPS_MS) * self._rng.choice((-1, 1))
            self._count("clock jump", f"node {node_id} by {ms:+} ms")
            self._quorum.jump(node_id, ms)
        return lambda: None

    def _change(self) -> Undo:
        """Add, replace or remove a voter."""
        quorum = self._quorum
        free = [each for each in quorum.pool if each not in quorum.voters and each not in quorum.lives]
        choices = ["remove"] * (2 if len(quorum.voters) > VOTERS_MIN else 0)
        choices += ["join", "replace"] if free else []
        # Of fewer voters a majority would not remain.
        choices += ["replace a dead one"] if free and len(quorum.voters) >= VOTERS_MIN else []
        if not choices or self._lost:
            return lambda: None
        chosen, victim = self._rng.choice(choices), self._target()
        victim = victim if victim in quorum.voters else self._rng.choice(sorted(quorum.voters))
        if chosen == "remove":
            self._count(chosen, f"node {victim}")
            self._outcomes.append(quorum.ask(self._rng.choice(quorum.running), "remove", victim))
            return lambda: None
        newcomer = self._rng.choice(free)
        self._count(chosen, f"node {newcomer}" if chosen == "join" else f"node {victim} by node {newcomer}")
        if chosen == "replace a dead one":
            quorum.kill(victim)
            quorum.empty(victim)
            self._lost.add(victim)
        quorum.empty(newcomer)
        quorum.start(newcomer)
        self._outcomes.append(quorum.ask(newcomer, "join" if chosen == "join" else "replace", victim))
        return lambda: None

    def _settle(self) -> None:
        """Wait for the ends of the changes, learn who votes now, and end the nodes that do not."""

        def have_ended() -> bool:
            self._quorum.require_life()
            return all(outcome() is not None for outcome in self._outcomes)

        wait_until(have_ended, "a change of the voters to end", timeout_s=CHANGE_TIMEOUT_S)
        for outcome in self._outcomes:
            self._report(f"the change: {outcome() or 'done'}")
        self._outcomes.clear()
        before: set[int] | None = None
        # A change that its caller gave up may still be made: what a leader says counts once it has committed more.
        while (known := self._described()) != before:
            before = known
            self._quorum.voters = set(known)
            self._revive()
            self._quorum.wait_until_it_works()
            # Who was to be replaced may still vote: then it was not removed.
            for node_id in sorted(self._lost & known):
                self._remove(node_id)
                before = None
        self._lost.clear()
        for node_id in self._quorum.running:
            if node_id not in known:
                self._quorum.kill(node_id)
                self._quorum.empty(node_id)

    def _remove(self, node_id: int) -> None:
        outcome = self._quorum.ask(self._quorum.running[0], "remove", node_id)
        error = wait_until(outcome, f"node {node_id} to be removed", timeout_s=CHANGE_TIMEOUT_S)
        self._report(f"remove {node_id}: {error or 'done'}")

    def _described(self) -> set[int]:
        async def ask() -> set[int]:
            endpoints = [Endpoint(HOST, port) for port in self._quorum.ports()]
            async with Admin(endpoints, patience=LIMITS) as admin:
                return {int(voter.key.id) for voter in (await admin.describe_quorum()).voters}

        def voters() -> set[int] | None:
            self._quorum.require_life()
            try:
                return asyncio.run(ask())
            except PykraftError:
                return None

        return wait_until(voters, "the voters of the quorum", timeout_s=CHANGE_TIMEOUT_S)
