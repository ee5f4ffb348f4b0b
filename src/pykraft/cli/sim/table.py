"""Renders the totals of many worlds as text.

For `pykraft sim run` and `pykraft sim report`; `pykraft.sim.run.totals` counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from textwrap import wrap

from pykraft.plural import counted
from pykraft.sim.run.totals import Totals

WIDTH = 100
"""Longest line before it is wrapped."""


def lines_of(totals: Totals, *, took_s: float | None = None, oracles: Sequence[str] = ()) -> Iterator[str]:
    """The totals, the oracles, and how often each kind of fault occurred; ``took_s`` is real time."""
    virtual_s = totals.sums["virtual_ms"] / 1_000
    pace = "" if not took_s else f" in {took_s:,.0f} s ({virtual_s / took_s:,.1f} times as fast)"
    seeds = counted(totals.seeds, "seed")
    yield f"{seeds}, {len(totals.failures):,} failed; {virtual_s:,.0f} s of virtual time{pace}"
    yield f"{counted(totals.sums['committed'], 'record')} committed, {totals.sums['acknowledged']:,} acknowledged"
    if oracles:
        yield ""
        yield f"{len(oracles)} oracles watched each of them:"
        yield from wrap(", ".join(oracles), WIDTH, initial_indent="  ", subsequent_indent="  ")
    if totals.faults:
        yield ""
        yield from table(("fault", "times", "worlds", "happened to"), map(_row, sorted(totals.faults), repeat(totals)))


def _row(kind: str, totals: Totals) -> tuple[str, ...]:
    roles = totals.states.get(kind, Counter())
    told = ", ".join(f"{role} {count:,}" for role, count in roles.most_common())
    return kind, f"{totals.faults[kind]:,}", f"{totals.worlds_with[kind]:,}", told


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their content; numbers are aligned to the right, everything else to the left."""
    rows = list(rows)
    for row in (heads, *rows):
        cells = zip(row, *rows, heads, strict=True)
        yield "  ".join(_cell(cell, column) for cell, *column in cells).rstrip()


def _cell(cell: str, column: Sequence[str]) -> str:
    width = max(map(len, column))
    return cell.rjust(width) if column[0].replace(",", "").isdecimal() else cell.ljust(width)
