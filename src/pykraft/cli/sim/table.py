"""Renders the totals of many worlds as text, the verdict last.

For `pykraft sim run` and `pykraft sim report`; `pykraft.sim.run.campaign` counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import repeat
from textwrap import wrap

import click

from pykraft.sim.run.campaign import CampaignSummary, Totals
from pykraft.text.table import table_lines, terminal_width
from pykraft.text.words import counted

WIDTH = 100
"""Longest line of names before it is wrapped."""
SEEDS_TOLD_MAX = 10

coverage_option = click.option(
    "--coverage",
    "with_coverage",
    is_flag=True,
    help="Also list the oracles, and how often each fault happened.",
)


def summary_lines(
    summary: CampaignSummary, *, took_s: float | None = None, oracles: Sequence[str] = (), with_coverage: bool = False
) -> Iterator[str]:
    """Counts, and the verdict as the last line; ``took_s`` is real time."""
    totals = summary.totals
    if with_coverage:
        yield from _coverage_lines(totals, oracles)
    times = f"{counted(sum(totals.faults.values()), 'fault')} of {counted(len(totals.faults), 'kind')}"
    watched = f", watched by {counted(len(oracles), 'oracle')}" if oracles else ""
    hint = "" if with_coverage else " (--coverage lists them)"
    committed = counted(totals.sums["committed"], "record")
    yield f"{committed} committed, {totals.sums['acknowledged']:,} acknowledged; {times}{watched}{hint}"
    virtual_s = totals.sums["virtual_ms"] / 1_000
    pace = "" if not took_s else f" in {took_s:,.0f} s ({virtual_s / took_s:,.1f} times as fast)"
    yield f"{_verdict(summary)}; {virtual_s:,.0f} s of virtual time{pace}"


def _verdict(summary: CampaignSummary) -> str:
    count = counted(summary.totals.seeds, "seed")
    if not summary.failed:
        return f"PASSED: {count}"
    seeds = [str(row["seed"]) for row in summary.failures]
    more = ", …" if summary.failed > SEEDS_TOLD_MAX else ""
    named = f"{', '.join(seeds[:SEEDS_TOLD_MAX])}{more}"
    return f"FAILED: {summary.failed:,} of {count} ({named})"


def _coverage_lines(totals: Totals, oracles: Sequence[str]) -> Iterator[str]:
    if oracles:
        yield f"{counted(len(oracles), 'oracle')} watched each world:"
        yield from wrap(", ".join(oracles), WIDTH, initial_indent="  ", subsequent_indent="  ")
        yield ""
    if totals.faults:
        rows = map(_row, sorted(totals.faults), repeat(totals))
        yield from table_lines(("fault", "times", "worlds", "happened to"), rows, width=terminal_width())
        yield ""


def _row(kind: str, totals: Totals) -> tuple[str, ...]:
    roles = totals.states.get(kind, Counter())
    told = ", ".join(f"{role} {count:,}" for role, count in roles.most_common())
    return kind, f"{totals.faults[kind]:,}", f"{totals.worlds_with[kind]:,}", told
