"""Medians, spreads and ratios of the results; what tables and plots show.

Invariant: a ratio compares runs of one turn of one case, and its spread is that of the turns. A failed run has no
figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lab.bench.comparison import Spread
from lab.benchmarks.suite.cases import Case
from lab.benchmarks.suite.measures import Figures
from lab.benchmarks.suite.results import SuiteRun

OURS: Final = "pykraft"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSummary:
    """The runs of one case."""

    case: Case
    runs: tuple[SuiteRun, ...]

    @property
    def contenders(self) -> list[str]:
        """Those with at least one run that did not fail, in the order of the case."""
        good = {run.contender for run in self.runs if run.failure is None}
        return [name for name in self.case.contenders if name in good]

    def values(self, contender: str, figure: str) -> list[float]:
        own = (run for run in self.runs if run.contender == contender and run.failure is None)
        return [run.figures[figure] for run in own if figure in run.figures]

    def spread(self, contender: str, figure: str) -> Spread | None:
        """Least, median and most; None without a run that has the figure."""
        values = self.values(contender, figure)
        return Spread.of(values) if values else None

    def ratio(self, contender: str, figure: str, *, ours: str = OURS) -> Spread | None:
        """Ours divided by the contender's, turn by turn; None without a turn in which both have the figure."""
        found = {(run.turn, run.contender): run.figures for run in self.runs if run.failure is None}
        turns = sorted({turn for turn, _ in found})
        pairs = [(found.get((turn, ours), {}), found.get((turn, contender), {})) for turn in turns]
        return _quotients(pairs, figure)

    def growth(self, first: CaseSummary, figure: str) -> Spread | None:
        """Our figure divided by that of another case of the group, turn by turn."""
        found = [
            {run.turn: run.figures for run in each.runs if run.contender == OURS and run.failure is None}
            for each in (self, first)
        ]
        return _quotients(
            [(found[0][turn], found[1][turn]) for turn in sorted(found[0].keys() & found[1].keys())], figure
        )

    def failures(self) -> list[str]:
        """One line for each contender with failed runs."""
        names = dict.fromkeys(run.contender for run in self.runs if run.failure is not None)
        return [self._failure(name) for name in names]

    def _failure(self, contender: str) -> str:
        own = [run for run in self.runs if run.contender == contender]
        reasons = dict.fromkeys(run.failure for run in own if run.failure is not None)
        count = sum(run.failure is not None for run in own)
        return f"{self.case.name}, {contender}: {count} of {len(own)}: {'; '.join(reasons)}"


def _quotients(pairs: Sequence[tuple[Figures, Figures]], figure: str) -> Spread | None:
    ratios = [one[figure] / other[figure] for one, other in pairs if one.get(figure) and other.get(figure)]
    return Spread.of(ratios) if ratios else None


def summaries(cases: Sequence[Case], runs: Sequence[SuiteRun]) -> list[CaseSummary]:
    found = [(case, tuple(run for run in runs if run.case == case.name)) for case in cases]
    return [CaseSummary(case=case, runs=own) for case, own in found if own]


def left_out(runs: Sequence[SuiteRun]) -> dict[str, str]:
    """Why contenders have no runs, by name."""
    ran = {run.contender for run in runs if run.case}
    return {run.contender: run.failure or "" for run in runs if not run.case and run.contender not in ran}
