"""What the commands of `pykraft sim` share: seeds, and which scenario to draw worlds from.

Owns the words that choose a scenario, so that a replay command gives them again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click

from pykraft.errors import UsageError
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import Scenario

SEEDS_MAX = 10_000_000
"""Seeds of one call; more are for more calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A scenario, and the words of the command line that choose it."""

    scenario: Scenario
    words: tuple[str, ...]


def seed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--seeds`` and ``--seed``; the command gets ``seeds``. Errors: UsageError."""

    @click.option("--seeds", "text", default="100", show_default=True, help="N: 0 to N-1; A:B: A to B-1.")
    @click.option("--seed", "one", metavar="S", help="This seed only.")
    @wraps(command)
    def chosen(*, text: str, one: str | None, **given: object) -> object:
        seeds = parse_seeds(text) if one is None else range(parse_seed(one), parse_seed(one) + 1)
        return command(seeds=seeds, **given)

    return chosen


def scenario_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--faults`` and ``--scenario``; the command gets a ``choice``. Errors: UsageError."""

    @click.option(
        "--faults", metavar="NAME[,NAME…]", help="Shipped scenarios: all, quiet, … Of several the later wins."
    )
    @click.option(
        "--scenario",
        "files",
        multiple=True,
        type=click.Path(path_type=Path),
        help="A TOML file that says where worlds differ; it wins over --faults. May be repeated.",
    )
    @wraps(command)
    def chosen(*, faults: str | None, files: tuple[Path, ...], **given: object) -> object:
        return command(choice=choose(faults, files), **given)

    return chosen


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
        raise UsageError(f"--seeds {text}: there is no seed in this range")
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
