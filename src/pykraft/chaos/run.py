"""A run: a quorum under load, episode after episode of faults, and the check of what is left.

1. The nodes start, with proxies in front of them and small disks under some of them, and write a load while they lead.
2. An episode of the plan is done; then everything heals, and the quorum must acknowledge more within a bound.
3. When the time is over the load ends, every node catches up, all are stopped, and their logs are compared byte for
   byte and held against the journal, in which stands what was acknowledged.

Owns the order of these and the clock. Invariant: whatever ends a run, the nodes end with it; what was on small disks is
copied into the folder before it is gone, when the run failed. It refuses to know how a fault is done.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, Protocol

from pykraft.chaos.disks import Disks
from pykraft.chaos.faults import Faults, Ground
from pykraft.chaos.network import Network
from pykraft.chaos.outcome import Done, Outcome, failover_ms, longest_pause_ms
from pykraft.chaos.plan import Episode, Fault, Kind, episodes
from pykraft.client.journal import Led
from pykraft.errors import UsageError
from pykraft.local.child import Children
from pykraft.local.cluster import QUICK, Cluster, Site
from pykraft.local.ports import free_ports
from pykraft.local.waiting import wait_until

NODES_MIN: Final = 3
NODES_MAX: Final = 9
RECORDS_BETWEEN: Final = 100
"""So many are acknowledged after an episode, before the next one begins."""
WORKS_TIMEOUT_S: Final = 60.0
AUTO_JOIN: Final = {"controller.quorum.auto.join.enable": "true"}
"""A voter of a dynamic quorum whose directory was emptied comes back as another voter, by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOptions:
    """What is to be run. Errors: UsageError."""

    seed: int
    seconds: float
    kinds: tuple[Kind, ...]
    episodes_max: int | None = None
    nodes: int = 3
    is_dynamic: bool = False
    throughput: int = 500
    record_size_bytes: int = 100

    def __post_init__(self) -> None:
        if not NODES_MIN <= self.nodes <= NODES_MAX:
            raise UsageError(f"--nodes {self.nodes}: give {NODES_MIN} to {NODES_MAX}")
        if self.seconds <= 0:
            raise UsageError("--minutes: give more than 0")
        if not self.kinds:
            raise UsageError("all kinds of faults are left out")

    def plan(self) -> Iterator[Episode]:
        """The episodes, of which time runs as many as it can."""
        return islice(episodes(self.seed, self.kinds, nodes=self.nodes), self.episodes_max)


class Watcher(Protocol):
    """Who is told what happens."""

    def passing(self, text: str, elapsed_s: float) -> None:
        """What is done now."""
        ...

    def done(self, fault: Done) -> None:
        """A fault that is over, and the quorum works again."""
        ...


def run_chaos(options: ChaosOptions, folder: Path, watcher: Watcher) -> Outcome:
    """Run it; every file is in ``folder``.

    Errors: LocalQuorumError for whatever a quorum must not do; UsageError when there are faults that this machine
    cannot have.
    """
    with _ground(options, folder) as ground:
        return _Run(options, ground, watcher).run()


@contextmanager
def _ground(options: ChaosOptions, folder: Path) -> Iterator[Ground]:
    """The quorum, not yet started, and everything around it. Every second node has a small disk, if any has."""
    node_ids = range(1, options.nodes + 1)
    on_disks = [node_id for node_id in node_ids if node_id % 2] if Kind.FULL_DISK in options.kinds else []
    indexes = {node_id: index for index, node_id in enumerate(on_disks)}
    published, listening = (dict(zip(node_ids, free_ports(options.nodes), strict=True)) for _ in range(2))
    with ExitStack() as stack:
        disks = stack.enter_context(Disks(folder, len(on_disks))) if on_disks else None
        data: dict[int, Path] = {}
        if disks is not None:
            stack.enter_context(_kept(disks, indexes, folder))
            data = {node_id: disks.folder(index) / "data" for node_id, index in indexes.items()}
            for path in data.values():
                path.mkdir()
        fronts = {node_id: (published[node_id], listening[node_id]) for node_id in node_ids}
        network = stack.enter_context(Network(fronts, Random(options.seed)))
        children = stack.enter_context(Children())
        sites = {
            node_id: Site(port=listening[node_id], published_port=published[node_id], data=data.get(node_id))
            for node_id in node_ids
        }
        cluster = Cluster(
            children,
            folder,
            throughput=options.throughput,
            record_size_bytes=options.record_size_bytes,
            properties={**QUICK, **(AUTO_JOIN if options.is_dynamic else {})},
            is_dynamic=options.is_dynamic,
            sites=sites,
        )
        yield Ground(
            cluster=cluster,
            network=network,
            ports=listening,
            disks=disks,
            disk_indexes=indexes,
            is_dynamic=options.is_dynamic,
        )


@contextmanager
def _kept(disks: Disks, indexes: dict[int, int], folder: Path) -> Iterator[None]:
    """What is on the disks is in the folder too, if this block fails."""
    try:
        yield
    except BaseException:
        for node_id, index in indexes.items():
            shutil.copytree(disks.folder(index), folder / f"n{node_id}" / "disk", dirs_exist_ok=True)
        raise


class _Run:
    """One run on its ground."""

    def __init__(self, options: ChaosOptions, ground: Ground, watcher: Watcher) -> None:
        self._options = options
        self._cluster = ground.cluster
        self._journal = ground.cluster.journal
        self._faults = Faults(ground)
        self._watcher = watcher
        self._begun_s = time.monotonic()
        self._done: list[Done] = []
        self._memory_max_bytes = 0

    def run(self) -> Outcome:
        self._tell("the nodes start")
        self._cluster.start()
        self._wait_until_it_works()
        self._begun_s = time.monotonic()
        count = 0
        for episode in self._options.plan():
            self._episode(episode)
            count += 1
            if time.monotonic() - self._begun_s >= self._options.seconds:
                break
        self._tell("the load ends, and the logs are compared")
        self._faults.wait_for_all()
        verdict = self._cluster.finish()
        return Outcome(
            seed=self._options.seed,
            nodes=self._options.nodes,
            is_dynamic=self._options.is_dynamic,
            seconds=round(time.monotonic() - self._begun_s, 1),
            episodes=count,
            elections=sum(isinstance(event, Led) for event in self._journal.events()),
            memory_max_bytes=self._memory_max_bytes,
            faults=tuple(self._done),
            verdict=verdict,
        )

    def _episode(self, episode: Episode) -> None:
        begun_s = time.monotonic()
        begun: list[tuple[Fault, int, bool, int, int]] = []
        undo: list[tuple[float, Fault]] = []
        undos = {}
        for fault in episode:
            self._pass_until(begun_s + fault.begins_s)
            leader_id = self._journal.leader_id()
            node = self._faults.target(fault)
            self._tell(f"{fault}: node {node.node_id}")
            begun.append((fault, node.node_id, node.node_id == leader_id, self._journal.mark(), _wall_ms()))
            undos[fault] = self._faults.begin(fault, node)
            undo.append((time.monotonic() + fault.lasts_s, fault))
        for until_s, fault in sorted(undo, key=lambda each: each[0]):
            self._pass_until(until_s)
            undos[fault]()
        self._tell("everything heals")
        self._note_memory()
        self._faults.heal()
        self._wait_until_it_works()
        for fault, node_id, hit_leader, mark, wall_ms in begun:
            said = self._journal.acknowledgements(since=mark)
            is_measured = hit_leader and len(episode) == 1
            done = Done(
                at_s=round(begun_s + fault.begins_s - self._begun_s, 1),
                kind=fault.kind.value,
                told=str(fault),
                node_id=node_id,
                hit_leader=hit_leader,
                lasted_s=fault.lasts_s,
                pause_ms=longest_pause_ms(said, begin_ms=wall_ms, end_ms=_wall_ms()),
                failover_ms=failover_ms(said, begin_ms=wall_ms, former_leader=node_id) if is_measured else None,
            )
            self._done.append(done)
            self._watcher.done(done)

    def _pass_until(self, until_s: float) -> None:
        """Wait, and see whether all live that should. Errors: LocalQuorumError."""

        def look() -> bool:
            self._faults.require_life()
            return time.monotonic() >= until_s

        wait_until(look, "time to pass", timeout_s=WORKS_TIMEOUT_S)

    def _wait_until_it_works(self) -> None:
        self._journal.wait_for_acknowledged(RECORDS_BETWEEN, since=self._journal.mark(), timeout_s=WORKS_TIMEOUT_S)

    def _note_memory(self) -> None:
        for node in self._cluster.nodes.values():
            self._memory_max_bytes = max(self._memory_max_bytes, _peak_bytes(node.process.pid))

    def _tell(self, text: str) -> None:
        self._watcher.passing(text, time.monotonic() - self._begun_s)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _peak_bytes(pid: int) -> int:
    """The largest resident set that a process had, 0 when it has ended or the system does not say."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0
