"""Sums over the result rows of one campaign: seeds, times, records, faults, and which seeds failed.

The rows are those of `pykraft.sim.run.campaign`, fresh or read from files. Rows of another scenario, version or source
are another summary. Invariant: memory is bounded; every failing seed is counted, also by the rule that it broke, and
the rows of the first `FAILURES_KEPT_MAX` are kept.

Source: TigerBeetle's VOPR (coverage marks of a run).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pykraft.sim.run.campaign import Identity, Row

COUNTED = ("committed", "acknowledged")
FAILURES_KEPT_MAX: Final = 1_000
RULES_MAX: Final = 1_000
OTHERS: Final = "others"
VIOLATION: Final = "ViolationError"


@dataclass(slots=True, kw_only=True)
class Totals:
    """The sum so far."""

    seeds: int = 0
    sums: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    worlds_with: Counter[str] = field(default_factory=Counter)
    """In how many worlds each kind of fault happened at least once."""
    states: dict[str, Counter[str]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""

    def add(self, row: Row) -> None:
        """Add one seed; a failed one counts with what it did before it failed."""
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


@dataclass(slots=True, kw_only=True)
class CampaignSummary:
    """The sum so far."""

    identity: Identity
    totals: Totals = field(default_factory=Totals)
    failed: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    """Failing seeds by the rule that was broken."""
    kept: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add one seed; a failed one counts with what it did before it failed."""
        self.totals.add(row)
        if row["failed"]:
            self._fail(row)

    def _fail(self, row: Row) -> None:
        self.failed += 1
        rule, _ = rule_and_story(row)
        self.rules[rule if rule in self.rules or len(self.rules) < RULES_MAX else OTHERS] += 1
        if len(self.kept) < FAILURES_KEPT_MAX:
            self.kept.append(row)

    @property
    def failures(self) -> list[Row]:
        """The rows that are kept of failing seeds, by seed."""
        return sorted(self.kept, key=seed_of)

    @property
    def passed(self) -> int:
        """Number of seeds that passed."""
        return self.totals.seeds - self.failed


def rule_and_story(row: Row) -> tuple[str, str]:
    """The oracle that a failing seed violated, or the error that it raised; and what happened, in one line."""
    kind, _, story = " ".join(row["reason"].split()).partition(": ")
    if kind != VIOLATION:
        return kind, story
    rule, _, story = story.partition(": ")
    return rule, story


def seed_of(row: Row) -> int:
    """The seed of a row."""
    return int(row["seed"])
