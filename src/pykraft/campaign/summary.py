"""What the seeds of one version of the code did, and which of them failed, in bounded memory.

Rows of another scenario, version or source are another summary (`pykraft.campaign.report`). Invariant: every failing
seed is counted, also by the rule that it broke; the rows of the first `FAILURES_KEPT_MAX` are kept.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from pykraft.sim.run.campaign import Identity, Row
from pykraft.sim.run.totals import Totals

FAILURES_KEPT_MAX: Final = 1_000
RULES_MAX: Final = 1_000
OTHERS: Final = "others"
VIOLATION: Final = "ViolationError"


@dataclass(slots=True, kw_only=True)
class CampaignSummary:
    """The sum so far."""

    identity: Identity
    totals: Totals = field(default_factory=Totals)
    """Its failures are those that are kept."""
    failed: int = 0
    rules: Counter[str] = field(default_factory=Counter)
    """Failing seeds by the rule that was broken."""

    def add(self, row: Row) -> None:
        """Add one seed; a failed one counts with what it did before it failed."""
        self.totals.count(row)
        if row["failed"]:
            self._fail(row)

    def _fail(self, row: Row) -> None:
        self.failed += 1
        rule, _ = rule_and_story(row)
        self.rules[rule if rule in self.rules or len(self.rules) < RULES_MAX else OTHERS] += 1
        if len(self.totals.failures) < FAILURES_KEPT_MAX:
            self.totals.failures.append(row)

    @property
    def failures(self) -> list[Row]:
        """The rows that are kept of failing seeds, by seed."""
        return sorted(self.totals.failures, key=seed_of)

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
