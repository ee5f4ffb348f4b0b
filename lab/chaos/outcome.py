"""The result of a chaos run: one record for each fault, and figures over all of them.

The figures come from the journal, which is kept outside the nodes. They do not decide whether the run passed; the check
of the logs does.

- **pause**: the longest time without an acknowledgement, from the start of a fault until the quorum has healed.
- **fail-over**: from the start of a fault that hit the leader to the first acknowledgement by another node. There is
  none if the fault overlaps with another, or if no other node took over.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from pykraft.client.journal import Acknowledged
from pykraft.client.journal_check import JournalVerdict


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
        """The result as a JSON document."""
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
