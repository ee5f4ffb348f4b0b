"""Writes the report of a run: ``index.html``, one file with text and all pictures, and ``report.json``, its numbers.

Invariants: the numbers on the page are the story's; every problem of the result is mentioned, and a check passes only
if its number is right. All content from a run is escaped, and the page has no external address and no code.

Source: Content Security Policy Level 3 (W3C).
"""

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import pykraft
from lab.demo import plots
from lab.demo.plots import gap, lags, slices, spells
from lab.demo.result import DemoOptions, Kill, Story
from pykraft.errors import StorageError
from pykraft.page import render_page
from pykraft.page.plot_theme import drawing, figure_html
from pykraft.text.words import counted, ms_number

FOLDER = Path(__file__).parent
PAGE = "index.html"
NUMBERS = "report.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A claim, whether it holds, and what was found."""

    claim: str
    is_met: bool
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryNumber:
    """A number of the summary with its unit and meaning."""

    value: str
    unit: str
    meaning: str


def verdict(story: Story) -> tuple[str, str]:
    """One sentence in two parts; the first is emphasized."""
    if story.result.problems:
        count = len(story.result.problems)
        return "The run failed:", f"{counted(count, 'problem')} found."
    records = (
        f"all {story.result.audit.acknowledged:,} acknowledged records are in the tables exactly once and in order"
    )
    return "Nothing lost, nothing duplicated:", f"{records}{', although the leader was killed' if story.kills else ''}."


def setting(story: Story) -> str:
    options = story.options
    nodes = f"{counted(options.nodes, 'node')}, each a process" if options.nodes > 1 else "One node"
    load = f"{options.throughput:,} records of {options.record_size_bytes:,} bytes per second"
    killed = "".join(f" {_killed(story, kill)}" for kill in story.kills)
    return f"{nodes}; {load} for {story.result.seconds:,.0f} seconds.{killed} {_reading(story)}"


def _reading(story: Story) -> str:
    is_live = story.result.batch_latency_ms is not None
    return "Spark read the log while it grew." if is_live else "Spark began to read when the load was over."


def _killed(story: Story, kill: Kill) -> str:
    """When the kill really was: the first half of the load waits for the first rows in the tables."""
    at_s = story.seconds_since_begin(kill.killed_wall_ms)
    is_late = at_s > 0.5 * story.options.seconds + 1
    waited = ", once Spark had the first rows in the tables" if is_late else ""
    text = f"After {at_s:,.1f} seconds{waited}, the leader, node {kill.node_id}, was killed with kill -9"
    if kill.restarted_wall_ms is None:
        return f"{text}."
    return f"{text}; {(kill.restarted_wall_ms - kill.killed_wall_ms) / 1_000:,.1f} seconds later it was restarted."


def checks(story: Story) -> Iterator[Check]:
    audit, comparison = story.result.audit, story.result.comparison
    yield Check(
        claim="Nothing is lost",
        is_met=audit.missing == 0 and audit.acknowledged > 0,
        found=f"missing from the tables: {audit.missing:,} of {counted(audit.acknowledged, 'acknowledged record')}",
    )
    yield Check(
        claim="Nothing is duplicated",
        is_met=audit.duplicates == 0,
        found=f"{counted(audit.duplicates, 'duplicate')} among {counted(audit.spark_rows, 'row')}",
    )
    yield Check(
        claim="Everything is in order",
        is_met=audit.out_of_order == 0,
        found=f"{counted(audit.out_of_order, 'record')} placed before one that was written earlier",
    )
    yield Check(
        claim="Nothing is made up",
        is_met=audit.strays == 0,
        found=f"{counted(audit.strays, 'row')} that are not so in the log",
    )
    yield Check(
        claim="The tables are complete",
        is_met=audit.spark_rows == audit.committed_records and audit.tables_agree,
        found=f"{counted(audit.spark_rows, 'row')} for {audit.committed_records:,} committed records, "
        f"and the tables {'agree' if audit.tables_agree else 'do not agree'} with each other",
    )
    yield Check(
        claim="All nodes have the same log, with every acknowledged record",
        is_met=comparison.are_identical and not comparison.problems,
        found="identical, byte for byte"
        if comparison.are_identical and not comparison.problems
        else "; ".join(comparison.problems) or "the logs differ",
    )
    if story.options.kill_leader:
        found = story.result.not_killed or ", ".join(
            f"node {kill.node_id} was killed, node {kill.leader_id} acknowledged {kill.failover_ms:,} ms later"
            for kill in story.kills
        )
        is_met = bool(story.kills) and audit.leader_epochs > 1
        yield Check(claim="Another node took over", is_met=is_met, found=found)


def numbers(story: Story) -> Iterator[SummaryNumber]:
    result = story.result
    rate = result.audit.acknowledged / result.seconds if result.seconds else 0.0
    commit, table = result.commit_latency_ms, result.batch_latency_ms
    yield SummaryNumber(value=f"{result.audit.acknowledged:,}", unit="", meaning="records acknowledged")
    yield SummaryNumber(value=f"{rate:,.0f}", unit="per s", meaning="records acknowledged, fail-over included")
    if result.failover_ms is not None:
        yield SummaryNumber(
            value=ms_number(result.failover_ms), unit="ms", meaning="fail-over: kill to next acknowledgement"
        )
    yield SummaryNumber(
        value=ms_number(commit["p50"]), unit="ms", meaning="append to commit, half of the records (p50)"
    )
    yield SummaryNumber(value=ms_number(commit["p99"]), unit="ms", meaning="append to commit, 99 of 100 (p99)")
    if table is not None:
        yield SummaryNumber(
            value=f"{table['p50'] / 1_000:,.2f}", unit="s", meaning="commit to table, half of the records (p50)"
        )
    yield SummaryNumber(value=f"{result.audit.leader_epochs:,}", unit="", meaning="leaders in the log (epochs)")


def command(options: DemoOptions) -> str:
    words = [
        *("bin/demo", "--nodes", str(options.nodes), "--seconds", f"{options.seconds:g}"),
        *("--throughput", str(options.throughput), "--record-size", str(options.record_size_bytes)),
        *(["--kill-leader"] if options.kill_leader else []),
        *("--report", "report"),
    ]
    return shlex.join(words)


def render(story: Story, figures: Iterable[str]) -> str:
    problems = story.result.problems
    stressed, rest = verdict(story)
    begun = datetime.fromtimestamp(story.begin_wall_ms / 1_000, tz=UTC)
    parts = {
        "title": escape(f"pykraft demo: {stressed} {rest}"),
        "outcome": "failed" if problems else "passed",
        "when": f"{begun:%Y-%m-%d %H:%M} UTC",
        "verdict": f"<b>{'✘' if problems else '✔'} {escape(stressed)}</b> {escape(rest)}",
        "setting": escape(setting(story)),
        "problems": _list(problems),
        "tiles": "\n".join(map(_tile, numbers(story))),
        "checks": "\n".join(map(_check, checks(story))),
        "command": escape(command(story.options)),
        "version": escape(pykraft.__version__),
        "figures": "\n".join(figures),
    }
    return render_page(FOLDER, parts)


def _list(problems: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(problem)}</li>" for problem in problems)
    return f'<ul class="problems">{items}</ul>' if items else ""


def _tile(number: SummaryNumber) -> str:
    unit = f" <small>{escape(number.unit)}</small>" if number.unit else ""
    return f"<div><strong>{escape(number.value)}{unit}</strong><span>{escape(number.meaning)}</span></div>"


def _check(check: Check) -> str:
    outcome, sign = ("passed", "✔") if check.is_met else ("failed", "✘")
    words = f"<strong>{escape(check.claim)}</strong><span>{escape(check.found)}</span>"
    return f'<li class="{outcome}"><b>{sign}</b><div>{words}</div></li>'


def write_report(story: Story, directory: Path) -> Path:
    """Write both files into this folder, which is created if needed; returns the path of the page.

    Errors: StorageError if they cannot be written.
    """
    page = render(story, _figures(story))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / NUMBERS).write_text(json.dumps(_numbers(story), indent=1) + "\n", encoding="utf-8")
        (directory / PAGE).write_text(page, encoding="utf-8")
    except OSError as error:
        raise StorageError(directory, f"the report cannot be written: {error.strerror}") from error
    return directory / PAGE


def _figures(story: Story) -> Iterator[str]:
    yield _figure(
        "leadership",
        "Who led when",
        "A lane for each node. A wide bar is a leader with its epoch; no two bars may overlap "
        "in time. A hatched bar is a node that is down.",
        partial(plots.draw_leadership, story=story),
        height_inches=0.75 + 0.46 * story.options.nodes,
    )
    for number, kill in enumerate(story.kills):
        yield _figure(
            f"gap-{number}",
            f"The fail-over: {kill.failover_ms:,} ms without a leader that writes",
            "Each dot is an acknowledgement; its height is the number of records so far. The first bar is the time "
            f"until the others noticed that node {kill.node_id} was gone and node {kill.leader_id} was elected, the "
            "second one until a majority had its first records on disk. No record acknowledged before is lost.",
            partial(plots.draw_gap, found=gap(story, kill)),
            height_inches=3.6,
        )
    yield _figure(
        "throughput",
        "Records per second",
        "The rate that the quorum acknowledged, and the requested rate. The red range is the fail-over; the records "
        "of that time are not written later.",
        partial(plots.draw_throughput, story=story),
        height_inches=2.7,
    )
    yield _figure(
        "latency",
        "From append to commit",
        "The time until a majority had a record on disk: p50 covers half of the records, p99 covers 99 of 100.",
        partial(plots.draw_latency, story=story),
        height_inches=2.7,
    )
    yield _figure(
        "tables",
        "From the log to the tables",
        "Above: the log, and the tables, which follow in steps, one dot per micro-batch. Below: how long a record that "
        "was acknowledged at this time waited until it was in the tables. The first ones wait for Spark to start.",
        partial(plots.draw_tables, story=story),
        height_inches=4.2,
    )
    if lags(story):
        yield _figure(
            "lag",
            "Lag of the replicas",
            "How many records a node's log was behind its leader's, as the leader reported several times per "
            "second; the largest lag of each interval. A line is broken while nobody leads, and while the leader has "
            "not heard of the node.",
            partial(plots.draw_lag, story=story),
            height_inches=2.7,
        )


def _figure(name: str, title: str, reading: str, draw: Callable[[Figure], None], *, height_inches: float) -> str:
    @contextmanager
    def drawn(*, is_narrow: bool) -> Iterator[Figure]:
        with drawing(f"{name}-{is_narrow}", height_inches=height_inches, is_narrow=is_narrow) as figure:
            draw(figure)
            yield figure

    return figure_html(name, title=title, reading=reading, drawn=drawn)


def _numbers(story: Story) -> dict[str, Any]:
    """All numbers on the page; times are in seconds since the load began, or wall ms if the name says so."""
    return {
        "result": story.result.as_json(),
        "options": asdict(story.options),
        "begin_wall_ms": story.begin_wall_ms,
        "end_wall_ms": story.end_wall_ms,
        "kills": [asdict(kill) for kill in story.kills],
        "leaders": [asdict(spell) for spell in spells(story)],
        "slices": [{**asdict(each), "records_per_s": each.records_per_s} for each in slices(story)],
        "micro_batches": [asdict(batch) for batch in story.batches],
        "lags": {str(node_id): looks for node_id, looks in lags(story).items()},
    }
