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
        self.seeds += 1
        if row["failed"]:
            self.failures.append(row)
        self.sums["virtual_ms"] += row["at_us"] // 1_000 if row["failed"] else row["virtual_ms"]
        for name in COUNTED:
            self.sums[name] += row.get(name, 0)
        self.faults.update(row["faults"])
        self.worlds_with.update(row["faults"].keys())
        for kind, roles in row.get("states", {}).items():
            self.states.setdefault(kind, Counter()).update(roles)
