"""`pykraft version`."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as version_of

import click


@click.command()
def version() -> None:
    """Print the version."""
    try:
        click.echo(version_of("pykraft"))
    except PackageNotFoundError:
        click.echo("unknown: run from a source tree that is not installed")
