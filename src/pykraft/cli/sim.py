"""`pykraft sim`: many simulated clusters, each from one seed."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial

import click

from pykraft.errors import UsageError
from pykraft.sim.run import Failure, replay_command, simulate, simulate_all
from pykraft.sim.world import Outcome

SEEDS_MAX = 100_000
"""Seeds of one call; more are for more calls."""


@click.group()
def sim() -> None:
    """Run the simulator: the production node on a virtual disk, network and clock."""


@sim.command()
@click.option("--seeds", "seeds_text", default="0:100", show_default=True, help="A:B runs seeds A to B-1; A alone one.")
@click.option("--workers", default=os.cpu_count() or 1, show_default=True, help="Processes; --trace takes one.")
@click.option("--trace", is_flag=True, help="Print everything that happens (with --json to the standard error).")
@click.option("--json", "is_json", is_flag=True, help="One JSON object a seed.")
def run(seeds_text: str, workers: int, *, trace: bool, is_json: bool) -> None:
    """Run a range of seeds; a failure prints the command that replays it, and the exit code is 1."""
    seeds = parse_seeds(seeds_text)
    if workers < 1:
        raise UsageError(f"--workers {workers}: give at least 1")
    results: Iterable[Outcome | Failure]
    if trace:
        results = map(partial(simulate, tell=partial(click.echo, err=is_json)), seeds)
    else:
        results = simulate_all(seeds, workers=min(workers, len(seeds)))
    failures = 0
    totals: Counter[str] = Counter()
    is_live = sys.stderr.isatty() and not (is_json or trace)
    with click.progressbar(results, length=len(seeds), label="seeds", file=sys.stderr, hidden=not is_live) as bar:
        for result in bar:
            if isinstance(result, Failure):
                failures += 1
                _tell_failure(result, is_json=is_json, is_told=trace)
                continue
            totals.update(result.faults)
            totals.update(records=result.committed, acknowledged=result.acknowledged, virtual_ms=result.virtual_ms)
            if is_json:
                click.echo(json.dumps(asdict(result)))
    if not is_json:
        click.echo(_summary(len(seeds), failures, totals))
    if failures:
        raise SystemExit(1)


def parse_seeds(text: str) -> range:
    """``A:B`` or one number. Errors: UsageError."""
    first, separator, end = text.partition(":")
    if not _is_number(first) or (separator and not _is_number(end)):
        raise UsageError(f"--seeds {text}: give A:B with whole numbers of at most 18 digits, or one number")
    seeds = range(int(first), int(end) if separator else int(first) + 1)
    if not seeds:
        raise UsageError(f"--seeds {text}: there is no seed in this range")
    if len(seeds) > SEEDS_MAX:
        raise UsageError(f"--seeds {text}: at most {SEEDS_MAX} seeds at a time")
    return seeds


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18


def _tell_failure(failure: Failure, *, is_json: bool, is_told: bool) -> None:
    """The last lines of the trace unless they were told, the traceback, and what to type."""
    if is_json:
        fields = {"seed": failure.seed, "failure": failure.reason, "replay": replay_command(failure.seed)}
        click.echo(json.dumps(fields))
        return
    if not is_told:
        click.echo("\n".join(failure.trace))
    click.echo(failure.story)
    click.echo(f"seed {failure.seed} failed: {failure.reason}\nreplay it: {replay_command(failure.seed)}")


def _summary(seeds: int, failures: int, totals: Counter[str]) -> str:
    faults = ", ".join(
        f"{name} {count}"
        for name, count in sorted(totals.items())
        if name not in ("records", "acknowledged", "virtual_ms")
    )
    head = f"{seeds} seeds, {failures} failed; {totals['virtual_ms'] / 1_000:.0f} s of virtual time, "
    return f"{head}{totals['records']} records committed, {totals['acknowledged']} acknowledged\nfaults: {faults}"
