"""What many worlds add up to, as lines for a person.

Owns the tables of `pykraft sim run` and `pykraft sim report`. It refuses to count (`pykraft.sim.totals`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pykraft.sim.totals import Totals

FAILURES_SHOWN = 10


def lines_of(totals: Totals, *, took_s: float | None = None) -> Iterator[str]:
    """The sum, then how often each kind of harm was done; ``took_s``: seconds of a clock on the wall."""
    virtual_s = totals.sums["virtual_ms"] / 1_000
    pace = "" if not took_s else f" in {took_s:,.0f} s ({virtual_s / took_s:,.1f} times as fast)"
    yield f"{totals.seeds:,} seeds, {len(totals.failures):,} failed; {virtual_s:,.0f} s of virtual time{pace}"
    yield f"{totals.sums['committed']:,} records committed, {totals.sums['acknowledged']:,} acknowledged"
    if totals.faults:
        yield ""
        rows = [(kind, f"{count:,}", f"{totals.worlds_with[kind]:,}") for kind, count in sorted(totals.faults.items())]
        yield from table(("fault", "times", "in worlds"), rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they must be: the first to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
