"""`pykraft sim report`: add up what the machines of a campaign found.

Defines the arguments and the exit status; `pykraft.sim.run.campaign` rejects files that do not belong together.
"""

from __future__ import annotations

from pathlib import Path

import click

from pykraft.cli.sim.table import lines_of
from pykraft.sim.run.campaign import merge
from pykraft.sim.run.totals import Totals

FAILURES_SHOWN = 20


@click.command(short_help="Add up the files of `sim run --out`.")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def report(files: tuple[Path, ...]) -> None:
    """Add up the FILES of `pykraft sim run --out`; each seed counts once. Exits with 1 if a seed failed.

    All files must be of the same scenario, version and source.
    """
    totals = Totals()
    for _, row in sorted(merge(files).items()):
        totals.add(row)
    click.echo("\n".join(lines_of(totals)))
    for row in totals.failures[:FAILURES_SHOWN]:
        click.echo(f"seed {row['seed']} failed: {row['reason']}")
    if len(totals.failures) > FAILURES_SHOWN:
        click.echo(f"and {len(totals.failures) - FAILURES_SHOWN} more")
    if totals.failures:
        raise SystemExit(1)
