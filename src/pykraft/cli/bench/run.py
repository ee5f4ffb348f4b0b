"""Runs a measurement on a quorum of its own, cleans up however it ends, and prints its figures.

Shared by `bench join` and `bench transfer`. Invariant: however the command ends, also by a signal, it stops
the nodes and removes their files.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pykraft.cli.parsing.value import WHOLE
from pykraft.errors import LocalQuorumError

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.local.child import Children

T = TypeVar("T")
NAME_WIDTH: Final = 19

throughput_option = click.option(
    "--throughput", type=WHOLE, default=2_000, show_default=True, help="Records written per second."
)
record_size_option = click.option(
    "--record-size", type=WHOLE, default=100, show_default=True, help="Size of each record, in bytes."
)
folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    default=tempfile.gettempdir,
    help="Folder in which to keep the logs during the run; by default the system's folder for temporary files.",
)


def run_in(folder: Path, measure: Callable[[Children, Path], T], *, plan: str) -> T:
    """Call ``measure`` with a new folder below ``folder``, remove that folder, and return the result.

    ``plan`` says beforehand what happens, and for how long.

    Errors: LocalQuorumError, after the ends of the nodes' logs were printed.
    """
    from pykraft.local.child import Children
    from pykraft.local.keeper import temporary_folder

    click.echo(plan, err=True)
    with temporary_folder("pykraft-bench-", folder) as home, Children() as children:
        try:
            return measure(children, home)
        except LocalQuorumError:
            click.echo(children.log_ends(), err=True)
            raise


def tell(document: Mapping[str, Any], lines: Mapping[str, str], failures: Sequence[str], *, as_json: bool) -> None:
    """Print the document with the machine, or the lines; then each exceeded limit, and exit with 1 if there is one."""
    from pykraft.bench.machine import machine

    if as_json:
        click.echo(json.dumps({**document, "failures": failures, "machine": machine()}, indent=2))
    else:
        click.echo("\n".join(f"{name:<{NAME_WIDTH}}{text}" for name, text in lines.items()))
    for text in failures:
        click.echo(f"FAILED {text}", err=True)
    if failures:
        raise SystemExit(1)
