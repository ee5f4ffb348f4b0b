"""`pykraft sim run`: run a range of seeds on all cores; for a failure, print the command that replays it.

Defines the options, the bar and the exit status. `pykraft.sim` runs the worlds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import click

from pykraft.campaign.summary import CampaignSummary
from pykraft.cli.json_option import json_lines_option
from pykraft.cli.parsing.value import NewFile, NewFolder
from pykraft.cli.printable import print_lines
from pykraft.cli.sim.failure import shrink_and_draw, tell_failure
from pykraft.cli.sim.kept_rows import kept_rows, write_report
from pykraft.cli.sim.options import (
    ORACLES,
    Choice,
    require_folder,
    scenario_options,
    seed_options,
    told_row,
    workers_option,
)
from pykraft.cli.sim.table import coverage_option, summary_lines
from pykraft.errors import UsageError
from pykraft.process.extras import imported_for
from pykraft.sim.run.campaign import Identity, Row, row_of
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure, simulate, simulate_all

STORIES_MAX = 3
"""At most this many failures are shown in full, shrunk and drawn; the others only get the replay command."""
BAR_WIDTH_MIN: Final = 76
"""Columns of a terminal that shows all of the bar's numbers, for as many seeds as one may run."""

T = TypeVar("T")


@click.command(short_help="Run a range of seeds.")
@seed_options
@scenario_options
@workers_option("Number of processes; --trace uses one.")
@click.option("--spark", metavar="MASTER", help="Run the seeds on this Spark master: local[2], spark://host:port, …")
@click.option("--trace", is_flag=True, help="Print the trace; with --json, to standard error.")
@json_lines_option("per seed")
@click.option(
    "--out",
    type=NewFile(),
    help="Append a row for each seed to this file, and skip the seeds that it already holds.",
)
@click.option(
    "--html",
    "folder",
    type=NewFolder(),
    help="Shrink the first failures and write their pages to this folder.",
)
@click.option("--report", type=NewFile(), help="Write a page with the outcome, failures and coverage to this file.")
@coverage_option
def run(  # noqa: PLR0913 - one argument for each option
    *,
    seeds: range,
    choice: Choice,
    workers: int,
    spark: str | None,
    out: Path | None,
    folder: Path | None,
    report: Path | None,
    trace: bool,
    as_json: bool,
    with_coverage: bool,
) -> None:
    """Run a range of seeds. Exits with 1 if one fails, and prints the command that replays it.

    With --out, a run can be stopped and continued, and several machines can share the work: `pykraft sim report` adds
    up their files.
    """
    if spark is not None and trace:
        raise UsageError("--trace runs in one process: leave out --spark")
    require_folder(folder)
    began_s, ran = time.monotonic(), 0
    summary = CampaignSummary(identity=Identity.of(choice.scenario))
    say = partial(click.echo, err=as_json)
    with ExitStack() as stack:
        left, keep = stack.enter_context(kept_rows(out, seeds, summary))
        rows = stack.enter_context(
            closing(_rows(left, choice, workers=workers, spark=spark, tell=say if trace else None))
        )
        for row, failure in _watched(rows, len(left), hidden=as_json or trace):
            summary.add(row)
            keep(row)
            ran += 1
            if as_json:
                click.echo(json.dumps(told_row(row, choice)))
            elif row["failed"]:
                is_short = trace or summary.failed > STORIES_MAX
                tell_failure(failure or _again(row, choice), choice.words, is_short=is_short)
            if row["failed"] and folder is not None and summary.failed <= STORIES_MAX:
                page = folder / f"seed-{row['seed']}.html"
                shrink_and_draw(failure or _again(row, choice), choice.scenario, page, say=say)
    took_s = time.monotonic() - began_s
    if report is not None:
        write_report(report, summary, choice.words, ran=ran, took_s=took_s)
    if not as_json:
        print_lines(summary_lines(summary, took_s=took_s, oracles=ORACLES, with_coverage=with_coverage))
    if summary.failed:
        raise SystemExit(1)


def _rows(
    seeds: Sequence[int], choice: Choice, *, workers: int, spark: str | None, tell: Callable[[str], None] | None
) -> Generator[tuple[Row, Failure | None]]:
    """Each seed's row as it completes, and the whole failure if it happened in a process of ours."""
    if spark is not None:
        from pykraft.spark.session.master import session_at, settings_at

        settings = settings_at("pykraft sim", master=spark, option="--spark")
        with imported_for("--spark"):
            from pykraft.spark.campaign import run_seeds

        with session_at(settings) as session:
            yield from ((row, None) for row in run_seeds(session, seeds, choice.scenario))
        return
    if tell is not None:
        results: Iterable[Outcome | Failure] = map(partial(simulate, scenario=choice.scenario, tell=tell), seeds)
    else:
        results = simulate_all(seeds, workers=max(1, min(workers, len(seeds))), scenario=choice.scenario)
    identity = Identity.of(choice.scenario)
    for result in results:
        yield row_of(result, identity), result if isinstance(result, Failure) else None


def _again(row: Row, choice: Choice) -> Failure:
    """The failure of this row, with its traceback: running the seed again reproduces it."""
    result = simulate(row["seed"], scenario=choice.scenario)
    if not isinstance(result, Failure):
        raise UsageError(
            f"seed {row['seed']} failed elsewhere with {row['reason']}, but passes here: is it the same code?"
        )
    return result


def _watched(results: Iterable[T], count: int, *, hidden: bool) -> Iterator[T]:
    """Show a bar with rate and time left, if standard error is a terminal."""
    if hidden or sys.__stderr__ is None or not sys.__stderr__.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    rate, remaining = TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
    columns: tuple[ProgressColumn, ...]
    columns = (BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn(), TextColumn("left"), remaining)
    console = Console(stderr=True)
    began_s = time.monotonic()
    if console.width < BAR_WIDTH_MIN:  # rich would cut the times
        columns = (MofNCompleteColumn(), TextColumn("left"), remaining)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=count, rate="")
        for done, result in enumerate(results, start=1):
            bar.update(task, advance=1, rate=f"{done / (time.monotonic() - began_s):.1f} seeds/s")
            yield result
