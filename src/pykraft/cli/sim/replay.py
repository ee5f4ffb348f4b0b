"""`pykraft sim replay`: run one world again with its trace; optionally shrink it or write it as a page.

Defines the options and the exit status.
"""

from __future__ import annotations

from pathlib import Path

import click

from pykraft.cli.sim.failure import draw, shrink_and_draw, tell_failure
from pykraft.cli.sim.options import Choice, parse_seed, scenario_options
from pykraft.plural import counted
from pykraft.sim.run.simulation import Failure, simulate


@click.command(short_help="Run one seed again and show its trace or page.")
@click.option("--seed", "seed_text", metavar="S", required=True, help="The seed to replay.")
@scenario_options
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an HTML page for stepping through the run.",
)
@click.option("--shrink", "is_shrunk", is_flag=True, help="Search for a smaller run that fails the same way.")
@click.option("--quiet", is_flag=True, help="Do not print the trace.")
def replay(seed_text: str, choice: Choice, page: Path | None, *, is_shrunk: bool, quiet: bool) -> None:
    """Run one seed and print everything that happens; exits with 1 if it fails.

    --html writes a self-contained page: a lane for each node, messages as arrows, states, faults, and what failed.
    --shrink also writes the scenario of the smaller run, next to the page or as seed-S.toml.
    """
    seed = parse_seed(seed_text)
    tell = None if quiet or is_shrunk else click.echo
    if page is not None and not is_shrunk:
        result = draw(seed, choice.scenario, page, choice.words, tell=tell)
        click.echo(f"page: {page}")
    else:
        result = simulate(seed, scenario=choice.scenario, tell=tell)
    if not isinstance(result, Failure):
        records = counted(result.committed, "record")
        click.echo(f"seed {seed} passed: {records} committed in {result.virtual_ms / 1_000:.1f} s")
        return
    if tell is not None:
        click.echo(result.story)
    tell_failure(result, choice.words, is_short=True)
    if is_shrunk:
        shrink_and_draw(result, choice.scenario, page or Path(f"seed-{seed}.html"), say=click.echo)
    raise SystemExit(1)
