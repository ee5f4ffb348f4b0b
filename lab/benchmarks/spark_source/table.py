"""The results as a table in Markdown, put between its markers in a document: a row for each contender of each case.

Invariant: every figure comes from the file of results; a ratio is the median of the ratios of single turns, which
compare runs of the same minute. The connector is the measure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lab.bench.comparison import Spread
from lab.benchmarks.spark_source.cases import CONNECTOR, LIVE, LIVE_ASKED, QUERIES, Query
from lab.benchmarks.suite.results import Results, SuiteRun

HEADS: Final = ("", "", "million records/s", "÷ connector", "asked", "µs a record", "Java MiB", "tasks MiB")


def lines(results: Results) -> Iterator[str]:
    """The table, then where and when it was measured."""
    yield f"| {' | '.join(HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    for name in results.head["settings"]["sets"]:
        for query in QUERIES:
            yield from _rows(f"{name}, {query.name}", query, results.runs)
    machine = results.head["machine"]
    turns = max((run.turn for run in results.runs), default=0)
    settings: Mapping[str, Any] = results.head["settings"]
    yield ""
    yield (
        f"Measured {machine['date'][:10]}, commit {results.head['commit'] or 'unknown'}: {machine['cores']} cores "
        f"({machine['processor']}), Python {machine['python']}, Spark and connector {settings['spark']}, "
        f"Kafka {settings['kafka']}; median (least–most) of {turns} turns."
    )
    busy = sorted(run.busy_cores_before for run in results.runs)
    yield f"Other work used {busy[len(busy) // 2]:.1f} cores between the runs, and {busy[-1]:.1f} at most."


def _rows(case: str, query: Query, runs: Sequence[SuiteRun]) -> Iterator[str]:
    by_turn: dict[str, dict[int, Mapping[str, float]]] = {}
    for run in runs:
        if run.case == case:
            by_turn.setdefault(run.contender, {})[run.turn] = run.figures
    measure = by_turn.get(CONNECTOR, {})
    for way in query.ways:
        own = by_turn.get(way.contender)
        if not own:
            continue
        shared = [turn for turn in own if turn in measure]
        ratios = [own[turn]["rate"] / measure[turn]["rate"] for turn in shared]
        is_measure = way.contender == CONNECTOR
        asked = LIVE_ASKED if way.contender == LIVE else query.asked
        cells = [
            case if is_measure else "",
            way.contender,
            _spread([each["rate"] / 1e6 for each in own.values()]),
            "" if is_measure or not ratios else _spread(ratios),
            "" if is_measure else f"{asked:.1f}",
            _spread([each["cpu_us"] for each in own.values()]),
            f"{max(each['java_mib'] for each in own.values()):.0f}",
            f"{max(each['tasks_mib'] for each in own.values()):.0f}",
        ]
        yield f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    found = Spread.of(values)
    middle = f"{found.median:.2f}"
    return middle if len(values) == 1 else f"{middle} ({found.low:.2f}–{found.high:.2f})"


def fill_document(text: str, results: Results) -> str:
    return filled(text, "connector", "\n".join(lines(results)))


def filled(text: str, name: str, table: str) -> str:
    """The document with this table in place of what stands between the markers of this name."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text)
