"""What the commands of `pykraft sim` share: seeds, the scenario to draw worlds from, and how a failing world is shown.

Keeps the words that choose a scenario, so that a replay command can repeat them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from pykraft.cli.parsing.value import WHOLE, several_of
from pykraft.errors import UsageError
from pykraft.sim.invariants import ALL
from pykraft.sim.machine.recorder import Recorder
from pykraft.sim.page.render import render
from pykraft.sim.run.campaign import Row
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.shrink import Shrinking, Small
from pykraft.sim.run.simulation import Failure, replay_command, simulate
from pykraft.sim.scenario.file import load, shipped_names
from pykraft.sim.scenario.scenario import Scenario
from pykraft.sim.scenario.text import scenario_text
from pykraft.text.words import counted

TRIES_A_LINE = 20


def tell_failure(failure: Failure, words: Sequence[str], *, is_short: bool) -> None:
    """Print the end of the trace and the traceback, unless ``is_short``, and the command that replays the seed."""
    if not is_short:
        click.echo("\n".join(failure.trace))
        click.echo(failure.story)
    click.echo(f"seed {failure.seed} failed: {failure.reason}\nreplay it: {replay_command(failure.seed, words)}")


def shrink(failure: Failure, scenario: Scenario, *, say: Callable[[str], None]) -> Small:
    """The smallest failing run that the search finds; prints progress now and then."""

    def tell(tries: int, best: Small) -> None:
        if tries % TRIES_A_LINE == 0:
            say(f"shrinking: {counted(tries, 'try', 'tries')}, {_size(best.failure)}")

    say(f"shrinking: {_size(failure)}")
    search = Shrinking(failure, scenario, tell=tell)
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
    seed: int, scenario: Scenario, page: Path, words: Sequence[str], *, tell: Callable[[str], None] | None = None
) -> Outcome | Failure:
    """Run a world and write its page."""
    recorder = Recorder()
    result = simulate(seed, scenario=scenario, tell=tell, recorder=recorder)
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


def told_row(row: Row, choice: Choice) -> Row:
    """A row with its oracles and, for a failure, the replay command: what ``--json`` prints of a seed."""
    replay = {"replay": replay_command(row["seed"], choice.words)} if row["failed"] else {}
    return {**row, "oracles": ORACLES, **replay}
