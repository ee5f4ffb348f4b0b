"""`pykraft sim report`: add up what the machines of a campaign found.

Defines the arguments and the exit status; `pykraft.sim.run.campaign` rejects files that do not belong together.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import click

from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import ExistingPath
from pykraft.cli.printable import print_lines
from pykraft.cli.sim.table import coverage_option, summary_lines
from pykraft.sim.run.campaign import merge
from pykraft.sim.run.totals import Totals

FAILURES_SHOWN = 20


@click.command(short_help="Add up the files of `sim run --out`.")
@click.argument("files", nargs=-1, required=True, type=ExistingPath("give files that `pykraft sim run --out` wrote"))
@coverage_option
@json_option
def report(files: tuple[Path, ...], *, with_coverage: bool, as_json: bool) -> None:
    """Add up the FILES of `pykraft sim run --out`; each seed counts once. Exits with 1 if a seed failed.

    All files must be of the same scenario, version and source.
    """
    totals = Totals()
    for _, row in sorted(merge(files).items()):
        totals.add(row)
    if as_json:
        click.echo(json.dumps({each.name: getattr(totals, each.name) for each in fields(totals)}))
    else:
        for row in totals.failures[:FAILURES_SHOWN]:
            click.echo(f"seed {row['seed']} failed: {row['reason']}")
        if len(totals.failures) > FAILURES_SHOWN:
            click.echo(f"and {len(totals.failures) - FAILURES_SHOWN} more")
        print_lines(summary_lines(totals, with_coverage=with_coverage))
    if totals.failures:
        raise SystemExit(1)
