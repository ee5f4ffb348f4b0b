"""Tables of the results: for a terminal, and for ``docs/performance.md``, where they stand between markers.

Between ``<!-- results: GROUP -->`` and ``<!-- end -->`` stands the table of a group, and when and where it was made.
Invariant: everything between markers comes from one file of results; a group that the file lacks keeps what it has.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lab.bench.comparison import Spread
from lab.benchmarks.suite.results import Results, SuiteRun
from lab.benchmarks.suite.summary import OURS, CaseSummary, left_out
from pykraft.text.table import table_lines
from pykraft.text.words import counted

UNKNOWN: Final = "-"
MARKED: Final = re.compile(r"(<!-- results: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
NOT_MEASURED: Final = "Not measured yet."
BUSY: Final = 0.4
"""Cores: with so many in use before most runs, other work was going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A figure of the results: heading, format, and whether least and most are shown."""

    figure: str
    head: str
    form: str
    has_spread: bool = False


RATE = Column(figure="rate", head="operations/s", form="{:,.0f}", has_spread=True)
MB = Column(figure="mb_per_s", head="MB/s", form="{:,.0f}")
P50 = Column(figure="p50_ms", head="p50 ms", form="{:.2f}", has_spread=True)
P99 = Column(figure="p99_ms", head="p99 ms", form="{:.2f}", has_spread=True)
CPU = Column(figure="cpu_us", head="CPU µs each", form="{:.2f}")
MEMORY = Column(figure="memory_mib", head="MiB", form="{:.0f}")
RATIO = Column(figure="", head="", form="{:.2f}", has_spread=True)
RECORDS = (RATE, MB, CPU, MEMORY, P50)
PACED = (RATE, P50, P99, CPU, MEMORY)
COLUMNS: Final[dict[str, tuple[Column, ...]]] = {
    "record-size": RECORDS,
    "record-size-memory": RECORDS,
    "tls": RECORDS,
    "tls-latency": PACED,
    "voters": RECORDS,
    "single": (RATE, P50, P99, CPU, MEMORY),
    "producer": (RATE, MB, P50, P99, CPU, MEMORY),
    "execute": (RATE, P50, P99, CPU, MEMORY),
    "execute-follower": (RATE, P50, P99, CPU, MEMORY),
    "read-follower": (RATE, P50, P99, CPU, MEMORY),
    "latency": PACED,
    "observers": PACED,
    "log-size": PACED,
    "failover": (
        Column(figure="p50_ms", head="median ms", form="{:.0f}", has_spread=True),
        Column(figure="worst_ms", head="worst ms", form="{:.0f}", has_spread=True),
    ),
    "start": (
        Column(figure="start_ms", head="ms", form="{:.0f}", has_spread=True),
        Column(figure="cpu_s", head="CPU s", form="{:.2f}"),
        MEMORY,
    ),
    "recovery": (
        Column(figure="mb_per_s", head="MB/s", form="{:,.0f}", has_spread=True),
        Column(figure="mb_per_cpu_s", head="MB for a second of CPU", form="{:,.0f}"),
    ),
}
TITLES: Final = {
    "record-size": "Record sizes, on disk",
    "record-size-memory": "Record sizes, in memory (tmpfs)",
    "tls": "With TLS and without, on disk",
    "tls-latency": "Latency with TLS and without, at a fixed rate",
    "voters": "Voters, records of 100 B",
    "single": "Single proposals of 100 B",
    "producer": "A Java producer, acks=all",
    "latency": "Latency at a fixed rate",
    "observers": "Observers, 10,000/s of 100 B with a linger of 25 ms",
    "log-size": "Size of the log, 10,000/s of 100 B without linger",
    "execute": "Commands of a state machine, on the leader",
    "execute-follower": "Commands of a state machine, on a follower",
    "read-follower": "Linearizable reads on a follower",
    "failover": "Fail-over",
    "start": "Start to the first committed record",
    "recovery": "Reading a whole log, by size of its batches",
}
GROWING: Final = ("observers", "log-size")
"""Groups whose first case is what the others are compared with."""
RATIO_OF: Final = {group: "start_ms" if group == "start" else "rate" for group in TITLES}


def text_tables(found: Sequence[CaseSummary], results: Results, *, width: int | None) -> Iterator[str]:
    for group in dict.fromkeys(each.case.group for each in found):
        heads, rows = table_of(group, found)
        yield TITLES[group]
        yield from table_lines(heads, rows, width=width)
        yield ""
    yield setting(results)
    yield from notes(found, results)


def table_of(group: str, found: Sequence[CaseSummary]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of a group: a row for each contender of each case."""
    columns = COLUMNS[group]
    heads = ["", "", *(column.head for column in columns), f"{OURS} ÷ it", "p99 ÷ that of the first row"]
    rows = []
    own = [each for each in found if each.case.group == group]
    for each in own:
        for place, contender in enumerate(each.contenders):
            cells = [_cell(each.spread(contender, column.figure), column) for column in columns]
            ratio = each.ratio(contender, RATIO_OF[group]) if contender != OURS else None
            growth = each.growth(own[0], "p99_ms") if group in GROWING and each is not own[0] else None
            compared = [_cell(spread, RATIO) for spread in (ratio, growth)]
            rows.append(["" if place else each.case.label, contender, *cells, *compared])
    kept = [at for at in range(len(heads)) if at < 2 or any(row[at] != UNKNOWN for row in rows)]
    return [heads[at] for at in kept], [[row[at] for at in kept] for row in rows]


def setting(results: Results, runs: Sequence[SuiteRun] | None = None) -> str:
    """Where, when and how these runs (None: all of them) were measured, in a sentence or two."""
    runs = results.runs if runs is None else runs
    machine, asked = results.head["machine"], results.head["settings"]
    date, processor, cores = machine["date"][:10], machine["processor"], machine["cores"]
    memory = f"{machine['memory_mib'] / 1024:.0f} GiB"
    turns = max((run.turn for run in runs), default=0)
    version = results.head["commit"] or "unknown"
    where = f"{cores} cores ({processor}), {memory}, {machine['kernel']}, Python {machine['python']}, {machine['loop']}"
    # Files of results from before there were compiled modules do not say so.
    where += ", compiled modules" if machine.get("modules") == "compiled" else ""
    window = f"{asked['seconds']:g} s after {asked['warm_up_s']:g} s of load"
    words = [
        f"Measured {date}, commit {version}: {where}.",
        f"Up to {counted(turns, 'run')} of {window}, in turn; median (least–most).",
    ]
    busy = sorted(run.busy_cores_before for run in runs)
    if busy and busy[len(busy) // 2] >= BUSY:
        words.append(f"Other work used {busy[len(busy) // 2]:.1f} cores meanwhile: a draft.")
    return " ".join(words)


def notes(found: Sequence[CaseSummary], results: Results) -> Iterator[str]:
    """Failures in these cases, and contenders of them that were left out."""
    contenders = {name for each in found for name in each.case.contenders}
    for name, reason in left_out(results.runs).items():
        if name in contenders:
            yield f"{name} was left out: {reason}"
    for each in found:
        yield from (f"FAILED {text}" for text in each.failures())


def fill_document(text: str, found: Sequence[CaseSummary], results: Results) -> str:
    """The document with the tables of all groups that were measured."""

    def part(match: re.Match[str]) -> str:
        own = [each for each in found if each.case.group == match[2]]
        return f"{match[1]}\n{_filled(match[2], own, results)}\n\n{match[3]}" if own else match[0]

    return MARKED.sub(part, text)


def _filled(group: str, own: Sequence[CaseSummary], results: Results) -> str:
    heads, rows = table_of(group, own)
    lines = [heads, ["---"] * len(heads), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows else NOT_MEASURED
    measured = setting(results, [run for each in own for run in each.runs])
    return "\n\n".join([table, measured, *(f"- {one}" for one in notes(own, results))])


def _cell(spread: Spread | None, column: Column) -> str:
    if spread is None:
        return UNKNOWN
    middle = column.form.format(spread.median)
    if not column.has_spread or spread.low == spread.high:
        return middle
    return f"{middle} ({column.form.format(spread.low)}–{column.form.format(spread.high)})"
