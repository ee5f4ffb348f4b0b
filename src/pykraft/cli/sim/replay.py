"""`pykraft sim replay`: run one world again with its trace; optionally shrink it or write it as a page.

Defines the options and the exit status.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import click

from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import NewFile
from pykraft.cli.sim.failure import draw, shrink_and_draw, tell_failure
from pykraft.cli.sim.options import Choice, parse_seed, scenario_options, told_row
from pykraft.sim.run.campaign import Identity, row_of
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.text.words import counted


@click.command(short_help="Run one seed again and show its trace or page.")
@click.option("--seed", "seed_text", metavar="S", required=True, help="The seed to replay.")
@scenario_options
@click.option(
    "--html",
    "page",
    type=NewFile(),
    help="Write an HTML page for stepping through the run.",
)
@click.option("--shrink", "is_shrunk", is_flag=True, help="Search for a smaller run that fails the same way.")
@click.option("--quiet", is_flag=True, help="Do not print the trace.")
@json_option
def replay(seed_text: str, choice: Choice, page: Path | None, *, is_shrunk: bool, quiet: bool, as_json: bool) -> None:
    """Run one seed and print everything that happens; exits with 1 if it fails.

    --html writes a self-contained page: a lane for each node, messages as arrows, states, faults, and what failed.
    --shrink also writes the scenario of the smaller run, next to the page or as seed-S.toml.
    """
    seed = parse_seed(seed_text)
    tell = None if quiet or is_shrunk or as_json else click.echo
    say = partial(click.echo, err=as_json)
    if page is not None and not is_shrunk:
        result = draw(seed, choice.scenario, page, choice.words, tell=tell)
        say(f"page: {page}")
    else:
        result = simulate(seed, scenario=choice.scenario, tell=tell)
    if as_json:
        click.echo(json.dumps(told_row(row_of(result, Identity.of(choice.scenario)), choice)))
    elif not isinstance(result, Failure):
        records = counted(result.committed, "record")
        click.echo(f"seed {seed} passed: {records} committed in {result.virtual_ms / 1_000:.1f} s")
    else:
        if tell is not None:
            click.echo(result.story)
        tell_failure(result, choice.words, is_short=True)
    if not isinstance(result, Failure):
        return
    if is_shrunk:
        shrink_and_draw(result, choice.scenario, page or Path(f"seed-{seed}.html"), say=say)
    raise SystemExit(1)
