"""`pykraft sim run`: a range of seeds on all cores; a failure prints the one command that replays it.

Owns the options, the bar and the exit status. It refuses to know worlds (`pykraft.sim`).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import click

from pykraft.cli.sim_failure import shrink_and_draw, tell_failure
from pykraft.cli.sim_options import Choice, parse_seed, parse_seeds, scenario_options
from pykraft.cli.sim_table import lines_of
from pykraft.errors import UsageError
from pykraft.sim.campaign import Identity, Results, Row, row_of
from pykraft.sim.run import Failure, replay_command, simulate, simulate_all
from pykraft.sim.totals import Totals
from pykraft.sim.world import Outcome

STORIES_MAX = 3
"""Failures that one call tells at length, shrinks and draws; of the others it tells the replay command."""


@click.command(short_help="Run a range of seeds.")
@click.option("--seeds", "seeds_text", default="100", show_default=True, help="N: 0 to N-1; A:B: A to B-1.")
@click.option("--seed", "seed_text", metavar="S", help="This seed only.")
@scenario_options
@click.option("--workers", default=os.cpu_count() or 1, show_default=True, help="Processes; --trace takes one.")
@click.option("--trace", is_flag=True, help="Print everything that happens (with --json to the standard error).")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a seed.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows here; seeds in it are done.")
@click.option(
    "--html", "folder", type=click.Path(file_okay=False, path_type=Path), help="Shrink and draw failures here."
)
def run(
    seeds_text: str,
    seed_text: str | None,
    choice: Choice,
    workers: int,
    out: Path | None,
    folder: Path | None,
    *,
    trace: bool,
    is_json: bool,
) -> None:
    """Run a range of seeds; a failure prints the command that replays it, and the exit code is 1.

    With --out a run can be stopped and continued, and many machines can share it: `pykraft sim report` adds up their
    files.
    """
    seeds = parse_seeds(seeds_text) if seed_text is None else range(parse_seed(seed_text), parse_seed(seed_text) + 1)
    if workers < 1:
        raise UsageError(f"--workers {workers}: give at least 1")
    began_s, totals = time.monotonic(), Totals()
    say = partial(click.echo, err=is_json)
    identity = Identity.of(choice.scenario)
    with _results(out, identity, seeds, totals) as (left, keep):
        if trace:
            results: Iterable[Outcome | Failure] = map(partial(simulate, scenario=choice.scenario, tell=say), left)
        else:
            results = simulate_all(left, workers=max(1, min(workers, len(left))), scenario=choice.scenario)
        for result in _watched(results, len(left), hidden=is_json or trace):
            row = row_of(result, identity)
            totals.add(row)
            keep(result)
            if is_json:
                click.echo(json.dumps(_told(row, choice)))
            elif isinstance(result, Failure):
                tell_failure(result, choice.words, is_short=trace or len(totals.failures) > STORIES_MAX)
            if isinstance(result, Failure) and folder is not None and len(totals.failures) <= STORIES_MAX:
                shrink_and_draw(result, choice.scenario, folder / f"seed-{result.seed}.html", say=say)
    if not is_json:
        click.echo("\n".join(lines_of(totals, took_s=time.monotonic() - began_s)))
    if totals.failures:
        raise SystemExit(1)


def _keep_nothing(result: Outcome | Failure) -> None:
    del result


@contextmanager
def _results(
    out: Path | None, identity: Identity, seeds: Sequence[int], totals: Totals
) -> Iterator[tuple[Sequence[int], Callable[[Outcome | Failure], None]]]:
    """Seeds that are still to run, and what keeps a result; those that were run before are counted at once."""
    if out is None:
        yield seeds, _keep_nothing
        return
    with closing(Results(out, identity)) as results:
        for seed in seeds:
            if seed in results.rows:
                totals.add(results.rows[seed])
        yield results.left_of(seeds), results.add


def _watched(results: Iterable[Outcome | Failure], count: int, *, hidden: bool) -> Iterator[Outcome | Failure]:
    """A bar with rate and time left, where somebody looks."""
    if hidden or sys.__stderr__ is None or not sys.__stderr__.isatty():
        yield from results
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    rate, remaining = TextColumn("{task.fields[rate]}"), TimeRemainingColumn()
    columns = (BarColumn(), MofNCompleteColumn(), rate, TimeElapsedColumn(), TextColumn("left"), remaining)
    began_s = time.monotonic()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=count, rate="")
        for done, result in enumerate(results, start=1):
            bar.update(task, advance=1, rate=f"{done / (time.monotonic() - began_s):.1f} seeds/s")
            yield result


def _told(row: Row, choice: Choice) -> Row:
    return {**row, "replay": replay_command(row["seed"], choice.words)} if row["failed"] else row
