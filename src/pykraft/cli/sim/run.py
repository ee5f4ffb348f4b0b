"""`pykraft sim run` and `replay`: a range of seeds on all cores with its totals, or one world again with its trace.

Keeps the words that choose a scenario, so that a replay command can repeat them.
"""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial, wraps
from itertools import repeat
from pathlib import Path
from textwrap import wrap
from typing import Any, Final, TypeVar

import click

from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import WHOLE, NewFile, NewFolder, json_lines_option, json_option, several_of
from pykraft.cli.printable import print_lines
from pykraft.errors import UsageError
from pykraft.sim.invariants import ALL
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.page.render import render
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row, Totals, row_of
from pykraft.sim.run.shrink import Shrinking, Small
from pykraft.sim.run.simulation import Failure, replay_command, simulate, simulate_all
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import load, scenario_text, shipped_names
from pykraft.sim.scenario.scenario import Scenario
from pykraft.text.table import table_lines, terminal_width
from pykraft.text.words import counted

TRIES_A_LINE = 20


def print_failure(failure: Failure, words: Sequence[str], *, is_short: bool) -> None:
    """Print the end of the trace and the traceback, unless ``is_short``, and the command that replays the seed."""
    if not is_short:
        click.echo("\n".join(failure.trace))
        click.echo(failure.story)
    click.echo(f"seed {failure.seed} failed: {failure.reason}\nreplay it: {replay_command(failure.seed, words)}")


def shrink(failure: Failure, scenario: Scenario, *, say: Callable[[str], None]) -> Small:
    """The smallest failing run that the search finds; prints progress now and then."""

    def report(tries: int, best: Small) -> None:
        if tries % TRIES_A_LINE == 0:
            say(f"shrinking: {counted(tries, 'try', 'tries')}, {_size(best.failure)}")

    say(f"shrinking: {_size(failure)}")
    search = Shrinking(failure, scenario, report=report)
    best = search.search()
    say(f"shrunk in {counted(search.tries, 'try', 'tries')}: {_size(best.failure)}")
    return best


def shrink_and_draw(failure: Failure, scenario: Scenario, page: Path, *, say: Callable[[str], None]) -> None:
    """Write the page of the shrunk run, and its scenario beside it."""
    best = shrink(failure, scenario, say=say)
    path = page.with_suffix(".toml")
    path.write_text(scenario_text(best.scenario))
    words = ("--scenario", str(path))
    draw(failure.seed, best.scenario, page, words)
    say(f"replay the shrunk run: {replay_command(failure.seed, words)}\npage: {page}")


def draw(
    seed: int, scenario: Scenario, page: Path, words: Sequence[str], *, echo: Callable[[str], None] | None = None
) -> Outcome | Failure:
    """Run a world and write its page."""
    recorder = Recorder()
    result = simulate(seed, scenario=scenario, print_line=echo, recorder=recorder)
    reason = result.reason if isinstance(result, Failure) else None
    title = f"pykraft sim, seed {seed}"
    text = render(recorder, title=title, replay=replay_command(seed, words), reason=reason)
    page.write_text(text)
    return result


def _size(failure: Failure) -> str:
    nodes, harm = failure.voters + failure.observers, len(failure.harm)
    kinds = len({kind for _, kind in failure.harm})
    faults = f"{counted(harm, 'fault')} of {counted(kinds, 'kind')}"
    return f"{counted(nodes, 'node')}, {faults}, {failure.at_us / 1e6:.3f} s"


ORACLES = tuple(oracle.__name__ for oracle in ALL)
SEEDS_MAX = 10_000_000
"""Most seeds of one call; split more over several calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A scenario, and the words of the command line that choose it."""

    scenario: Scenario
    words: tuple[str, ...]


def seed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--seeds`` and ``--seed``; the command gets ``seeds``. Errors: UsageError."""

    @click.option(
        "--seeds", "text", default="100", show_default=True, help="Seeds to run: N for 0 to N-1, or A:B for A to B-1."
    )
    @click.option("--seed", "one", metavar="S", help="Run only this seed.")
    @wraps(command)
    def chosen(*, text: str, one: str | None, **given: object) -> object:
        seeds = parse_seeds(text) if one is None else range(parse_seed(one), parse_seed(one) + 1)
        return command(seeds=seeds, **given)

    return chosen


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--faults`` and ``--scenario``; the command gets a ``choice``. Errors: UsageError."""

    @click.option(
        "--faults",
        metavar="NAME[,NAME…]",
        shell_complete=several_of(shipped_names),
        help="Shipped scenarios, such as all or quiet; later ones override earlier ones.",
    )
    @click.option(
        "--scenario",
        "scenario_files",
        multiple=True,
        type=click.Path(path_type=Path),
        help="TOML file that changes the scenario; overrides --faults. May be repeated.",
    )
    @wraps(command)
    def chosen(*, faults: str | None, scenario_files: tuple[Path, ...], **given: object) -> object:
        return command(choice=choose(faults, scenario_files), **given)

    return chosen


def workers_option(help_text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--workers``; the command gets ``workers``. Errors: UsageError."""
    return click.option(
        "--workers", type=WHOLE, callback=_at_least_one, default=os.cpu_count() or 1, show_default=True, help=help_text
    )


def _at_least_one(context: click.Context, option: click.Parameter, workers: int) -> int:
    del context, option
    if workers < 1:
        raise UsageError(f"--workers {workers}: give at least 1")
    return workers


def choose(faults: str | None, files: tuple[Path, ...]) -> Choice:
    """The scenario of these options. Errors: UsageError."""
    names = [] if faults is None else [name.strip() for name in faults.split(",")]
    words = ["--faults", ",".join(names)] if names else []
    for path in files:
        words += ["--scenario", str(path)]
    return Choice(scenario=load(names, files), words=tuple(words))


def parse_seeds(text: str) -> range:
    """``A:B`` from A to B-1, or N for the first N. Errors: UsageError."""
    first, separator, end = text.partition(":")
    if not _is_number(first) or (separator and not _is_number(end)):
        raise UsageError(f"--seeds {text}: give N or A:B, with whole numbers of at most 18 digits")
    seeds = range(int(first), int(end)) if separator else range(int(first))
    if not seeds:
        raise UsageError(f"--seeds {text}: this range has no seeds")
    if len(seeds) > SEEDS_MAX:
        raise UsageError(f"--seeds {text}: at most {SEEDS_MAX:,} seeds at a time")
    return seeds


def parse_seed(text: str) -> int:
    """One seed. Errors: UsageError."""
    if not _is_number(text):
        raise UsageError(f"--seed {text}: give a whole number of at most 18 digits")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def require_folder(folder: Path | None) -> None:
    """Create the folder for pages before the run that may need it. Errors: UsageError that names --html."""
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--html: {folder}: {error.strerror}") from error


def printed_row(row: Row, choice: Choice) -> Row:
    """A row with its oracles and, for a failure, the replay command: what ``--json`` prints of a seed."""
    replay = {"replay": replay_command(row["seed"], choice.words)} if row["failed"] else {}
    return {**row, "oracles": ORACLES, **replay}


@click.command(short_help="Run one seed again and show its trace or page.")
@click.option("--seed", "seed_text", metavar="S", required=True, help="The seed to replay.")
@scenario_options
@click.option("--html", "page", type=NewFile(), help="Write an HTML page for stepping through the run.")
@click.option("--shrink", "is_shrunk", is_flag=True, help="Search for a smaller run that fails the same way.")
@click.option("--quiet", is_flag=True, help="Do not print the trace.")
@json_option
def replay(seed_text: str, choice: Choice, page: Path | None, *, is_shrunk: bool, quiet: bool, as_json: bool) -> None:
    """Run one seed and print everything that happens; exits with 1 if it fails.

    --html writes a self-contained page: a lane for each node, messages as arrows, states, faults, and what failed.
    --shrink also writes the scenario of the smaller run, next to the page or as seed-S.toml.
    """
    seed = parse_seed(seed_text)
    echo = None if quiet or is_shrunk or as_json else click.echo
    say = partial(click.echo, err=as_json)
    if page is not None and not is_shrunk:
        result = draw(seed, choice.scenario, page, choice.words, echo=echo)
        say(f"page: {page}")
    else:
        result = simulate(seed, scenario=choice.scenario, print_line=echo)
    if as_json:
        click.echo(json.dumps(printed_row(row_of(result, Identity.of(choice.scenario)), choice)))
    elif not isinstance(result, Failure):
        records = counted(result.committed, "record")
        click.echo(f"seed {seed} passed: {records} committed in {result.virtual_ms / 1_000:.1f} s")
    else:
        if echo is not None:
            click.echo(result.story)
        print_failure(result, choice.words, is_short=True)
    if not isinstance(result, Failure):
        return
    if is_shrunk:
        shrink_and_draw(result, choice.scenario, page or Path(f"seed-{seed}.html"), say=say)
    raise SystemExit(1)


WIDTH = 100
"""Longest line of names before it is wrapped."""
SEEDS_TOLD_MAX = 10

coverage_option = click.option(
    "--coverage", "with_coverage", is_flag=True, help="Also list the oracles, and how often each fault happened."
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
            "--html", "folder", type=NewFolder(), help="Shrink the first failures and write their pages to this folder."
        ),
        coverage_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="Run a range of seeds.")
@run_options
def run(
    *, seeds: range, choice: Choice, workers: int, trace: bool, as_json: bool, folder: Path | None, with_coverage: bool
) -> None:
    """Run a range of seeds. Exits with 1 if one fails, and prints the command that replays it."""
    began_s = time.monotonic()
    summary = CampaignSummary(identity=Identity.of(choice.scenario))
    rows = seed_rows(seeds, choice, workers=workers, echo=partial(click.echo, err=as_json) if trace else None)
    report_rows(rows, len(seeds), choice, summary, is_traced=trace, as_json=as_json, folder=folder)
    conclude(summary, began_s, as_json=as_json, with_coverage=with_coverage)


def seed_rows(seeds: Sequence[int], choice: Choice, *, workers: int, echo: Callable[[str], None] | None) -> SeedRows:
    """Each seed's row as it completes, and the whole failure; with ``echo`` for the trace, one after the other."""
    if echo is not None:
        results: Iterable[Outcome | Failure] = map(partial(simulate, scenario=choice.scenario, print_line=echo), seeds)
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
                click.echo(json.dumps(printed_row(row, choice)))
            elif row["failed"]:
                is_short = is_traced or summary.failed > STORIES_MAX
                print_failure(failure or _again(row, choice), choice.words, is_short=is_short)
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


@click.group(cls=Group)
def sim() -> None:
    """Run the simulator: the production node on a virtual disk, network and clock."""


sim.add_command(run)
sim.add_command(replay)
