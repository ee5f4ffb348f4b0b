"""Draws the order of faults from one seed, without a clock and without a quorum.

Invariant: the same seed, nodes and kinds give the same episodes, however long a run lasts; a longer run only gets
further. Each kind comes once before any comes again. The plan does not decide moments: it says "the leader", and the
quorum decides who leads by then. So a repeated run has the same faults at other moments.

An episode is one fault, or two that overlap; between episodes the quorum heals and must work.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Final, Self


class FaultKind(Enum):
    """The kinds of faults: name in options and tables, meaning, and how many seconds a fault lasts."""

    def __new__(cls, name: str, meaning: str, lasts_s: tuple[float, float]) -> Self:
        kind = object.__new__(cls)
        kind._value_ = name
        kind.meaning, kind.lasts_s = meaning, lasts_s
        return kind

    meaning: str
    lasts_s: tuple[float, float]

    KILL = "kill", "kill -9 a node and restart it later", (0.1, 4.0)
    STOP = "stop", "SIGTERM a node and restart it once it has ended", (0.1, 3.0)
    RESTART_ALL = "restart-all", "kill -9 all nodes at once, then restart them all at once", (0.0, 0.0)
    PAUSE = "pause", "SIGSTOP and SIGCONT, shorter than any timeout of the quorum", (0.05, 0.4)
    FREEZE = "freeze", "SIGSTOP and SIGCONT, longer than elections take", (1.5, 6.0)
    FULL_DISK = "full-disk", "the node's file system is full (ENOSPC), and later has room again", (1.0, 4.0)
    SLOW_LINK = "slow-link", "all traffic of a node is throttled and delayed", (3.0, 8.0)
    RESETS = "resets", "connections of a node are reset in the middle of a frame", (2.0, 5.0)
    ONE_WAY_CUT = "one-way-cut", "what a node sends, or what others send to it, does not arrive", (2.0, 6.0)
    PARTITION = "partition", "a node is cut off in both directions", (2.0, 6.0)
    WIPE = "wipe", "kill -9 a node and restart it at once with an empty directory", (0.0, 0.0)
    WIPE_AND_LAG = (
        "wipe-and-lag",
        "like wipe, while other nodes lag behind and those with the whole log are down",
        (2.0, 4.0),
    )
    SILENT_READER = "silent-reader", "clients keep requesting the whole log and never read an answer", (2.0, 5.0)
    FEW_DESCRIPTORS = (
        "few-descriptors",
        "restart the node with ulimit -n 256 and open 400 silent connections",
        (2.0, 4.0),
    )
    POWER_CUT = "power-cut", "cut the power of a node: what it did not sync is lost; restart it later", (0.1, 4.0)
    POWER_CUT_ALL = "power-cut-all", "cut the power of all nodes at once, then restart them all at once", (0.0, 0.0)
    TWIN = "twin", "start a second process with the node's id and an empty directory", (2.0, 5.0)
    DELETED_LOCK = (
        "deleted-lock",
        "delete the node's lock file and start a second server on its directory, which must refuse",
        (0.0, 0.0),
    )
    FULL_SNAPSHOTS = (
        "full-snapshots",
        "no node has room for a snapshot (ENOSPC), while their logs have; later there is room again",
        (1.0, 4.0),
    )


OF_ALL: Final = frozenset({FaultKind.RESTART_ALL, FaultKind.POWER_CUT_ALL, FaultKind.FULL_SNAPSHOTS})
"""Faults that hit all nodes."""
POWER: Final = frozenset({FaultKind.POWER_CUT, FaultKind.POWER_CUT_ALL})
"""Faults that need a disk whose power can be cut."""
ALONE: Final = OF_ALL | {FaultKind.WIPE, FaultKind.WIPE_AND_LAG, FaultKind.TWIN, FaultKind.DELETED_LOCK}
"""Faults that no other may overlap. A wipe destroys a copy for good: together with a fault that stops another voter, no
majority with the acknowledged records might be left, which no quorum survives. What must follow from a twin or from a
deleted lock can be checked only while nothing else happens.
"""
OVERLAP_SHARE: Final = 0.35
LEADER_SHARE: Final = 0.6


class FaultTarget(Enum):
    """Which node a fault hits."""

    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. Times are in seconds; ``begins_s`` counts from the start of its episode."""

    kind: FaultKind
    role: FaultTarget
    nth: int
    """Which follower, counted by id; not used for a leader."""
    begins_s: float
    lasts_s: float
    bandwidth: int = 0
    """Of a slow link, in bytes per second."""
    latency_ms: int = 0
    is_inbound: bool = False
    """For a cut in one direction: True if it holds back what is sent to the node."""

    @property
    def ends_s(self) -> float:
        """Counts from the start of its episode."""
        return self.begins_s + self.lasts_s

    def __str__(self) -> str:
        who = {FaultTarget.LEADER: "leader", FaultTarget.FOLLOWER: f"follower {self.nth + 1}"}[self.role]
        told = f"{self.kind.value} of the {who} for {self.lasts_s:.1f} s"
        if self.kind in OF_ALL:
            told = self.kind.value
        if self.kind is FaultKind.SLOW_LINK:
            told += f", {self.bandwidth // 1_000} kB/s, {self.latency_ms} ms"
        if self.kind is FaultKind.ONE_WAY_CUT:
            told += ", inbound" if self.is_inbound else ", outbound"
        return told


Episode = tuple[Fault, ...]
"""Faults that overlap, in the order of their start."""

BANDWIDTH: Final = (100_000, 1_000_000)
LATENCY_MS: Final = (0, 60)


def episodes(seed: int, kinds: Sequence[FaultKind], *, nodes: int) -> Iterator[Episode]:
    """All episodes of a seed; the iterator never ends."""
    rng = Random(seed)
    deck: list[FaultKind] = []
    while True:
        if not deck:
            deck = rng.sample(kinds, len(kinds))
        episode = [_fault(rng, deck.pop(), nodes, begins_s=0.0)]
        others = [kind for kind in kinds if kind not in ALONE]
        overlaps = rng.random() < OVERLAP_SHARE
        if overlaps and others and episode[0].kind not in ALONE:
            begins_s = round(rng.uniform(0.0, episode[0].lasts_s), 2)
            episode.append(_fault(rng, rng.choice(others), nodes, begins_s=begins_s))
        yield tuple(episode)


def _fault(rng: Random, kind: FaultKind, nodes: int, *, begins_s: float) -> Fault:
    # The twin of a leader finds no other leader, so it stays unproven and fetches nothing.
    is_for_leader = rng.random() < LEADER_SHARE and kind is not FaultKind.TWIN
    return Fault(
        kind=kind,
        role=FaultTarget.LEADER if is_for_leader else FaultTarget.FOLLOWER,
        nth=rng.randrange(nodes - 1),
        begins_s=begins_s,
        lasts_s=round(rng.uniform(*kind.lasts_s), 2),
        bandwidth=rng.randrange(*BANDWIDTH) if kind is FaultKind.SLOW_LINK else 0,
        latency_ms=rng.randrange(*LATENCY_MS) if kind is FaultKind.SLOW_LINK else 0,
        is_inbound=kind is FaultKind.ONE_WAY_CUT and rng.random() < 0.5,
    )
