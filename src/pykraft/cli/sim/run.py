"""`pykraft sim run`: run a range of seeds on all cores; for a failure, print the command that replays it.

Defines the options, the bar and the exit status. `pykraft.sim` runs the worlds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pykraft.cli.json_option import json_lines_option
from pykraft.cli.parsing.value import NewFolder
from pykraft.cli.printable import print_lines
from pykraft.cli.sim.failure import shrink_and_draw, tell_failure
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
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row, row_of
from pykraft.sim.run.simulation import Failure, simulate, simulate_all
from pykraft.sim.run.world import Outcome

STORIES_MAX = 3
"""At most this many failures are shown in full, shrunk and drawn; the others only get the replay command."""
BAR_WIDTH_MIN: Final = 76
"""Columns of a terminal that shows all of the bar's numbers, for as many seeds as one may run."""

T = TypeVar("T")
SeedRows = Generator[tuple[Row, Failure | None]]


def run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a run on this machine."""
    options = (
        seed_options,
        scenario_options,
        workers_option("Number of processes; --trace uses one."),
        click.option("--trace", is_flag=True, help="Print the trace; with --json, to standard error."),
        json_lines_option("per seed"),
        click.option(
            "--html",
            "folder",
            type=NewFolder(),
            help="Shrink the first failures and write their pages to this folder.",
        ),
        coverage_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="Run a range of seeds.")
@run_options
def run(
    *,
    seeds: range,
    choice: Choice,
    workers: int,
    trace: bool,
    as_json: bool,
    folder: Path | None,
    with_coverage: bool,
) -> None:
    """Run a range of seeds. Exits with 1 if one fails, and prints the command that replays it."""
    began_s = time.monotonic()
    summary = CampaignSummary(identity=Identity.of(choice.scenario))
    rows = seed_rows(seeds, choice, workers=workers, tell=partial(click.echo, err=as_json) if trace else None)
    report_rows(rows, len(seeds), choice, summary, is_traced=trace, as_json=as_json, folder=folder)
    conclude(summary, began_s, as_json=as_json, with_coverage=with_coverage)


def seed_rows(seeds: Sequence[int], choice: Choice, *, workers: int, tell: Callable[[str], None] | None) -> SeedRows:
    """Each seed's row as it completes, and the whole failure; with ``tell`` for the trace, one after the other."""
    if tell is not None:
        results: Iterable[Outcome | Failure] = map(partial(simulate, scenario=choice.scenario, tell=tell), seeds)
    else:
        results = simulate_all(seeds, workers=max(1, min(workers, len(seeds))), scenario=choice.scenario)
    identity = Identity.of(choice.scenario)
    for result in results:
        yield row_of(result, identity), result if isinstance(result, Failure) else None


def report_rows(
    rows: SeedRows,
    count: int,
    choice: Choice,
    summary: CampaignSummary,
    *,
    is_traced: bool,
    as_json: bool,
    folder: Path | None,
    keep: Callable[[Row], None] = lambda _: None,
) -> None:
    """Add up ``count`` rows, show the failures, and ``keep`` each row before the next one is waited for."""
    require_folder(folder)
    say = partial(click.echo, err=as_json)
    with closing(rows):
        for row, failure in _watched(rows, count, hidden=as_json or is_traced):
            summary.add(row)
            keep(row)
            if as_json:
                click.echo(json.dumps(told_row(row, choice)))
            elif row["failed"]:
                is_short = is_traced or summary.failed > STORIES_MAX
                tell_failure(failure or _again(row, choice), choice.words, is_short=is_short)
            if row["failed"] and folder is not None and summary.failed <= STORIES_MAX:
                page = folder / f"seed-{row['seed']}.html"
                shrink_and_draw(failure or _again(row, choice), choice.scenario, page, say=say)


def conclude(summary: CampaignSummary, began_s: float, *, as_json: bool, with_coverage: bool) -> None:
    """Print the sums, and exit with 1 if a seed failed."""
    if not as_json:
        took_s = time.monotonic() - began_s
        print_lines(summary_lines(summary, took_s=took_s, oracles=ORACLES, with_coverage=with_coverage))
    if summary.failed:
        raise SystemExit(1)


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
