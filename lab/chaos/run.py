"""A chaos run: a quorum under load, one episode of faults after another, and the check of the logs.

1. Start the nodes, with proxies in front of them and small disks under some. The leader writes a load.
2. Run an episode of the plan. Then heal everything; the quorum must acknowledge more records within a bound.
3. When the time is over, stop the load, let every node catch up, and stop all nodes. Compare their logs byte for byte,
   and with the journal of acknowledgements.

The result has one record for each fault, and figures over all of them. They come from the journal, which is kept
outside the nodes, and do not decide whether the run passed; the check of the logs does.

- **pause**: the longest time without an acknowledgement, from the start of a fault until the quorum has healed.
- **fail-over**: from the start of a fault that hit the leader to the first acknowledgement by another node. There is
  none if the fault overlaps with another, or if no other node took over.

Invariant: the run ends if a node dies without a fault, or if the quorum does not work again within a bound.
`lab.chaos.faults` injects the faults.
"""

import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Protocol

from lab.chaos.faults import FaultInjector, Undo
from lab.chaos.ground import ChaosOptions, Ground, laid_out
from lab.chaos.plan import OF_ALL, Episode, Fault, FaultKind
from lab.nodes.verdict import JournalVerdict
from pykraft.local.child import wait_until
from pykraft.local.journal import Acknowledged, Led

RECORDS_BETWEEN: Final = 100
"""This many records must be acknowledged after an episode before the next one starts."""
OF_MANY: Final = OF_ALL | {FaultKind.WIPE_AND_LAG}
"""Faults after which no leader can be elected before other nodes come back, so that there is no fail-over."""
WORKS_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A fault that is over. Times are wall ms, except ``at_s``, which counts from the start of the run."""

    at_s: float
    kind: str
    told: str
    node_id: int | None
    """None if it hit all nodes."""
    hit_leader: bool
    lasted_s: float
    pause_ms: int
    failover_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOutcome:
    """The result of a run that passed."""

    seed: int
    nodes: int
    is_dynamic: bool
    seconds: float
    episodes: int
    elections: int
    """Reported leaderships in the journal."""
    memory_max_bytes: int
    """The largest resident set size of any node."""
    left_out: Mapping[str, str]
    """Kinds of faults that cannot be injected here, and why."""
    faults: tuple[Done, ...]
    verdict: JournalVerdict

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "kinds": [asdict(row) for row in rows(self.faults)]}


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """All faults of one kind."""

    kind: str
    count: int
    on_leader: int
    failover_median_ms: int | None
    failover_max_ms: int | None
    pause_max_ms: int


def rows(faults: Sequence[Done]) -> list[FaultRow]:
    """One row for each kind, in alphabetical order."""
    return [_row(kind, [fault for fault in faults if fault.kind == kind]) for kind in sorted({f.kind for f in faults})]


def _row(kind: str, faults: Sequence[Done]) -> FaultRow:
    failovers = [fault.failover_ms for fault in faults if fault.failover_ms is not None]
    return FaultRow(
        kind=kind,
        count=len(faults),
        on_leader=sum(fault.hit_leader for fault in faults),
        failover_median_ms=round(statistics.median(failovers)) if failovers else None,
        failover_max_ms=max(failovers, default=None),
        pause_max_ms=max(fault.pause_ms for fault in faults),
    )


def longest_pause_ms(said: Iterable[Acknowledged], *, begin_ms: int, end_ms: int) -> int:
    """The longest time without an acknowledgement between these two times."""
    times = sorted(each.wall_ms for each in said if begin_ms < each.wall_ms < end_ms)
    return max(later - earlier for earlier, later in pairwise([begin_ms, *times, end_ms]))


def failover_ms(said: Iterable[Acknowledged], *, begin_ms: int, former_leader: int) -> int | None:
    """From the start to the first acknowledgement by another node; None without one."""
    others = [each.wall_ms for each in said if each.node != former_leader and each.wall_ms > begin_ms]
    return min(others, default=begin_ms) - begin_ms if others else None


class Watcher(Protocol):
    """Gets the progress of a run."""

    def passing(self, text: str, elapsed_s: float) -> None:
        """The current activity."""

    def done(self, fault: Done) -> None:
        """A fault is over, and the quorum works again."""


def run_chaos(options: ChaosOptions, folder: Path, watcher: Watcher) -> ChaosOutcome:
    """Run it; all files are in ``folder``.

    Errors: LocalQuorumError for anything that a quorum must not do; UsageError for faults that this machine does not
    allow.
    """
    with laid_out(options, folder) as ground:
        return _Run(options, ground, watcher).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A fault in force; ``mark`` and ``wall_ms`` are from just before it."""

    fault: Fault
    node_id: int
    hit_leader: bool
    mark: int
    wall_ms: int
    begun_s: float
    ends_s: float
    undo: Undo


class _Run:
    def __init__(self, options: ChaosOptions, ground: Ground, watcher: Watcher) -> None:
        self._options = options
        self._cluster = ground.cluster
        self._journal = ground.cluster.journal
        self._faults = FaultInjector(ground)
        self._watcher = watcher
        self._begun_s = time.monotonic()
        self._done: list[Done] = []
        self._memory_max_bytes = 0

    def run(self) -> ChaosOutcome:
        # 1. Start.
        self._report("starting the nodes")
        self._cluster.start()
        self._wait_until_it_works()
        self._begun_s = time.monotonic()
        count = 0
        # 2. Episodes, until the time is over.
        for episode in self._options.plan():
            self._episode(episode)
            count += 1
            if time.monotonic() - self._begun_s >= self._options.seconds:
                break
        # 3. `finish` stops the nodes and compares their logs.
        self._report("stopping the load, comparing the logs")
        self._faults.wait_for_all()
        verdict = self._cluster.finish()
        return ChaosOutcome(
            seed=self._options.seed,
            nodes=self._options.nodes,
            is_dynamic=self._options.is_dynamic,
            seconds=round(time.monotonic() - self._begun_s, 1),
            episodes=count,
            elections=sum(isinstance(event, Led) for event in self._journal.events()),
            memory_max_bytes=self._memory_max_bytes,
            left_out={kind.value: why for kind, why in self._options.left_out.items()},
            faults=tuple(self._done),
            verdict=verdict,
        )

    def _episode(self, episode: Episode) -> None:
        begun_s = time.monotonic()
        begun: list[_Begun] = []
        for fault in episode:
            self._pass_until(begun_s + fault.begins_s)
            begun.append(self._begin(fault))
        for each in sorted(begun, key=lambda each: each.ends_s):
            self._pass_until(each.ends_s)
            each.undo()
        self._report("ending all faults")
        self._note_memory()
        self._faults.heal()
        self._wait_until_it_works()
        for each in begun:
            done = self._outcome(each, is_alone=len(begun) == 1)
            self._done.append(done)
            self._watcher.done(done)

    def _begin(self, fault: Fault) -> _Begun:
        leader_id = self._journal.leader_id()
        node = self._faults.target(fault)
        self._report(f"{fault}: node {node.node_id}")
        mark, wall_ms, begun_s = self._journal.mark(), _wall_ms(), time.monotonic()
        undo = self._faults.begin(fault, node)
        return _Begun(
            fault=fault,
            node_id=node.node_id,
            hit_leader=node.node_id == leader_id,
            mark=mark,
            wall_ms=wall_ms,
            begun_s=begun_s,
            ends_s=time.monotonic() + fault.lasts_s,
            undo=undo,
        )

    def _outcome(self, begun: _Begun, *, is_alone: bool) -> Done:
        said = self._journal.acknowledgements(since=begun.mark)
        hits_all = begun.fault.kind in OF_ALL
        is_measured = begun.hit_leader and is_alone and begun.fault.kind not in OF_MANY
        return Done(
            at_s=round(begun.begun_s - self._begun_s, 1),
            kind=begun.fault.kind.value,
            told=str(begun.fault),
            node_id=None if hits_all else begun.node_id,
            hit_leader=begun.hit_leader or hits_all,
            lasted_s=begun.fault.lasts_s,
            pause_ms=longest_pause_ms(said, begin_ms=begun.wall_ms, end_ms=_wall_ms()),
            failover_ms=failover_ms(said, begin_ms=begun.wall_ms, former_leader=begun.node_id) if is_measured else None,
        )

    def _pass_until(self, until_s: float) -> None:
        """Wait, and check that every node lives that should. Errors: LocalQuorumError."""

        def has_passed() -> bool:
            self._faults.require_life()
            return time.monotonic() >= until_s

        wait_until(has_passed, "time to pass", timeout_s=WORKS_TIMEOUT_S)

    def _wait_until_it_works(self) -> None:
        mark = self._journal.mark()

        def works() -> bool:
            if sum(said.count for said in self._journal.acknowledgements(since=mark)) >= RECORDS_BETWEEN:
                return True
            # What a Java voter writes as the leader is in no journal, so it must not stay leader.
            self._faults.depose_guest()
            return False

        wait_until(works, f"{RECORDS_BETWEEN} more acknowledged records", timeout_s=WORKS_TIMEOUT_S)

    def _note_memory(self) -> None:
        for node in self._cluster.nodes.values():  # not guests: a Java node uses the heap that it is given
            self._memory_max_bytes = max(self._memory_max_bytes, _peak_bytes(node.process.pid))

    def _report(self, text: str) -> None:
        self._watcher.passing(text, time.monotonic() - self._begun_s)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _peak_bytes(pid: int) -> int:
    """The peak resident set size of a process; 0 if it has ended or the system does not tell."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    found = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0]) * 1024 if found else 0
