"""Sums over many result rows: seeds, virtual time, records, and how often each kind of fault happened.

The rows are those of `pykraft.sim.run.campaign`, fresh or read from files. Nothing is printed here.

Source: TigerBeetle's VOPR (coverage marks of a run).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pykraft.sim.run.campaign import Row

COUNTED = ("committed", "acknowledged")


@dataclass(slots=True, kw_only=True)
class Totals:
    """The sum so far."""

    seeds: int = 0
    failures: list[Row] = field(default_factory=list)
    sums: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    worlds_with: Counter[str] = field(default_factory=Counter)
    """In how many worlds each kind of fault happened at least once."""
    states: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""

    def add(self, row: Row) -> None:
        """Add one seed; a failed one counts with what it did before it failed."""
        self.count(row)
        if row["failed"]:
            self.failures.append(row)

    def count(self, row: Row) -> None:
        """As `add`, for a caller that decides itself which failures are kept."""
        self.seeds += 1
        self.sums["virtual_ms"] += row["at_us"] // 1_000 if row["failed"] else row["virtual_ms"]
        for name in COUNTED:
            self.sums[name] += row.get(name, 0)
        # Plain loops: Counter.update takes twice as long for a few keys, and a file may have a million rows.
        for kind, count in row["faults"].items():
            self.faults[kind] += count
            self.worlds_with[kind] += 1
        for kind, roles in row.get("states", {}).items():
            known = self.states.get(kind)
            if known is None:
                known = self.states[kind] = Counter()
            for role, count in roles.items():
                known[role] += count
