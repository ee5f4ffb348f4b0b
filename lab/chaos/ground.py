"""Builds the target of the faults: a quorum ready to start, proxies in front of it, small disks under some nodes.

Invariant: however the block ends, the nodes end with it; if it failed, the content of the small disks is copied to the
folder.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final

from lab.chaos.disks import Disks
from lab.chaos.loop_disks import LoopDisks
from lab.chaos.network import ProxyNetwork
from lab.chaos.plan import POWER, Episode, FaultKind, episodes
from lab.kafka.java import JavaNode, Kafka
from lab.nodes.cluster import Cluster, Guest, Site
from pykraft.config import TEST_CLUSTER_ID
from pykraft.errors import UsageError
from pykraft.local.child import Children
from pykraft.local.voters import QUICK, free_ports

NODES_MIN: Final = 3
NODES_MAX: Final = 9
SECONDS_MAX: Final = 7 * 86_400
AUTO_JOIN: Final = {"controller.quorum.auto.join.enable": "true"}
"""A voter of a dynamic quorum whose directory was emptied joins again by itself, as another voter."""

NEVER_ELECTED: Final = {
    "controller.quorum.election.timeout.ms": "3600000",
    "controller.quorum.fetch.timeout.ms": "3600000",
}
"""A Java node votes, follows and acknowledges. It campaigns only when a leader resigns (`Faults.depose_guest`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """The parameters of a run. Errors: UsageError."""

    seed: int
    seconds: float
    kinds: tuple[FaultKind, ...]
    episodes_max: int | None = None
    nodes: int = 3
    is_dynamic: bool = False
    throughput: int = 500
    record_size_bytes: int = 100
    kafka: Kafka | None = None
    """If it is given, the last voter is Kafka's."""
    left_out: Mapping[FaultKind, str] = field(default_factory=dict)
    """Kinds that cannot be injected here, and why; `kinds` lacks them."""

    def __post_init__(self) -> None:
        if not NODES_MIN <= self.nodes <= NODES_MAX:
            raise UsageError(f"--nodes {self.nodes}: give {NODES_MIN} to {NODES_MAX}")
        if not 0 < self.seconds <= SECONDS_MAX:  # also false for NaN, with which no time would ever be over
            raise UsageError(f"--minutes {self.seconds / 60:g}: give more than 0 and at most {SECONDS_MAX // 60:,}")
        if self.kafka is not None and self.is_dynamic:
            raise UsageError("--java: Kafka's TestRaftServer has static voters only")
        if not self.kinds:
            raise UsageError("--only and --without leave no kind of fault")

    def plan(self) -> Iterator[Episode]:
        """All episodes; the run takes as many as fit into its time."""
        return islice(episodes(self.seed, self.kinds, nodes=self.nodes), self.episodes_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The target of the faults; ``ports`` are those that nodes listen on, ``disks`` are by node id."""

    cluster: Cluster
    network: ProxyNetwork
    ports: Mapping[int, int]
    disks: Disks | LoopDisks | None
    disk_indexes: Mapping[int, int]
    is_dynamic: bool


@contextmanager
def laid_out(options: ChaosOptions, folder: Path) -> Iterator[Ground]:
    """The quorum, not started yet, with everything around it."""
    node_ids = range(1, options.nodes + 1)
    guest_ids = [] if options.kafka is None else [options.nodes]
    ours = [node_id for node_id in node_ids if node_id not in guest_ids]
    indexes = {node_id: index for index, node_id in enumerate(_on_disks(options, ours))}
    published, listening = (dict(zip(node_ids, free_ports(options.nodes), strict=True)) for _ in range(2))
    with ExitStack() as stack:
        data: dict[int, Path] = {}
        disks = _disks(options, folder, len(indexes))
        if disks is not None:
            stack.enter_context(closing(disks))
            stack.enter_context(_kept(disks, indexes, folder))
            data = {node_id: disks.folder(index) / "data" for node_id, index in indexes.items()}
            for path in data.values():
                path.mkdir()
        fronts = {node_id: (published[node_id], listening[node_id]) for node_id in node_ids}
        network = stack.enter_context(closing(ProxyNetwork(fronts, Random(options.seed))))
        children = stack.enter_context(Children())
        sites = {
            node_id: Site(
                port=listening[node_id],
                published_port=published[node_id],
                data=data.get(node_id),
                # Every second node runs on asyncio's own loop, as most embedded nodes do.
                options=() if node_id % 2 else ("--loop", "asyncio"),
            )
            for node_id in node_ids
        }
        guests: dict[int, Guest] = {}
        if options.kafka is not None:
            guests = {
                node_id: JavaNode(
                    options.kafka,
                    children,
                    folder / f"n{node_id}",
                    node_id=node_id,
                    ports=published,
                    properties={**NEVER_ELECTED, **sites[node_id].properties},
                )
                for node_id in guest_ids
            }
        cluster = Cluster(
            children,
            folder,
            throughput=options.throughput,
            record_size_bytes=options.record_size_bytes,
            properties={**QUICK, **(AUTO_JOIN if options.is_dynamic else {})},
            is_dynamic=options.is_dynamic,
            sites=sites,
            cluster_id=TEST_CLUSTER_ID if guests else None,
            guests=guests,
        )
        yield Ground(
            cluster=cluster,
            network=network,
            ports=listening,
            disks=disks,
            disk_indexes=indexes,
            is_dynamic=options.is_dynamic,
        )


def _on_disks(options: ChaosOptions, ours: Sequence[int]) -> Sequence[int]:
    """The nodes with a disk of their own: all, if a fault needs those of all, else every second one, to be filled."""
    if {*POWER, FaultKind.FULL_SNAPSHOTS} & set(options.kinds):
        return ours
    return [node_id for node_id in ours if node_id % 2] if FaultKind.FULL_DISK in options.kinds else []


def _disks(options: ChaosOptions, folder: Path, count: int) -> Disks | LoopDisks | None:
    if POWER & set(options.kinds):
        return LoopDisks(folder, count)
    return Disks(folder, count) if count else None


@contextmanager
def _kept(disks: Disks | LoopDisks, indexes: dict[int, int], folder: Path) -> Iterator[None]:
    """Copy the content of the disks to the folder if this block fails; nobody reads it after an interrupt."""
    try:
        yield
    except Exception:
        for node_id, index in indexes.items():
            data = Path("disk", "data")
            shutil.copytree(disks.folder(index) / "data", folder / f"n{node_id}" / data, dirs_exist_ok=True)
        raise
