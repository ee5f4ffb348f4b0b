"""The results as a table in Markdown, put between its markers in a document: a row for each case.

Invariant: every figure comes from the file of results; a ratio is the median of the ratios of single turns, which
compare runs of the same minute. The connector is the measure.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lab.bench.comparison import Spread
from lab.benchmarks.spark_source.cases import CONNECTOR, FILES, LIVE, QUERIES, Query
from lab.benchmarks.suite.results import Results, SuiteRun

HEADS: Final = (
    *("records", "query", "connector, million/s", "files ÷", "live ÷", "second form ÷"),
    *("µs, connector", "µs, files", "µs, live"),
)


def lines(results: Results) -> Iterator[str]:
    """The table, then where and when it was measured."""
    yield f"| {' | '.join(HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    for name in results.head["settings"]["sets"]:
        for query in QUERIES:
            yield _row(name, query, results.runs)
    machine = results.head["machine"]
    turns = max((run.turn for run in results.runs), default=0)
    settings: Mapping[str, Any] = results.head["settings"]
    yield ""
    yield (
        f"Measured {machine['date'][:10]}, commit {results.head['commit'] or 'unknown'}: {machine['cores']} cores "
        f"({machine['processor']}), Python {machine['python']}, Spark and connector {settings['spark']}, "
        f"Kafka {settings['kafka']}; median (least–most) of {turns} turns."
    )
    for session, contenders in (("the connector's session", (CONNECTOR,)), ("ours", (FILES, LIVE))):
        own = [run.figures for run in results.runs if run.contender in contenders]
        java, tasks = (max((each[name] for each in own), default=0) for name in ("java_mib", "tasks_mib"))
        yield f"Java took at most {java:.0f} MiB in {session}, Python processes of tasks {tasks:.0f} MiB."
    busy = sorted(run.busy_cores_before for run in results.runs)
    yield f"Other work used {busy[len(busy) // 2]:.1f} cores between the runs, and {busy[-1]:.1f} at most."


def _row(name: str, query: Query, runs: Sequence[SuiteRun]) -> str:
    by_turn: dict[str, dict[int, Mapping[str, float]]] = {}
    for run in runs:
        if run.case == f"{name}, {query.name}":
            by_turn.setdefault(run.contender, {})[run.turn] = run.figures
    measure = by_turn.get(CONNECTOR, {})
    cells = [name, query.name, _spread([each["rate"] / 1e6 for each in measure.values()])]
    others = [way.contender for way in query.ways if way.contender not in (CONNECTOR, FILES, LIVE)]
    for contender in (FILES, LIVE, *(others or [""])):
        own = by_turn.get(contender, {})
        cells.append(_spread([own[turn]["rate"] / measure[turn]["rate"] for turn in own if turn in measure]))
    for contender in (CONNECTOR, FILES, LIVE):
        times = [each["cpu_us"] for each in by_turn.get(contender, {}).values()]
        cells.append(f"{Spread.of(times).median:.2f}" if times else "")
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    found = Spread.of(values)
    middle = f"{found.median:.2f}"
    return middle if len(values) == 1 else f"{middle} ({found.low:.2f}–{found.high:.2f})"


def fill_document(text: str, results: Results) -> str:
    return filled(text, "connector", "\n".join(lines(results)))


def filled(text: str, name: str, table: str) -> str:
    """The document with this table in place of what stands between the markers of this name."""
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.DOTALL)
    return marked.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", text)
