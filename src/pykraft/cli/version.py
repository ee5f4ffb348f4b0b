"""`pykraft version`: the version of pykraft, its platform, optional packages, and the versions of Kafka's APIs.

Invariant: without options it prints one line and imports nothing else.
"""

import json
import platform
import sys
from typing import Any

import click

from pykraft import __version__
from pykraft.cli.parsing.value import json_option
from pykraft.process.extras import OPTIONAL, kind_of_modules
from pykraft.text.table import table_lines, terminal_width


@click.command(short_help="Print the version.")
@click.option(
    "--verbose", "-v", is_flag=True, help="Also show Python, platform, optional packages and the versions of APIs."
)
@json_option
def version(*, verbose: bool, as_json: bool) -> None:
    """Print the version of pykraft."""
    if as_json:
        click.echo(json.dumps(_facts(), indent=2))
    elif verbose:
        for line in _lines(_facts()):
            click.echo(line)
    else:
        click.echo(__version__)


def _facts() -> dict[str, Any]:
    from importlib import metadata
    from importlib.util import find_spec

    from pykraft.protocol.messages import API_VERSIONS, CLIENT_VERSIONS

    def installed(package: str, module: str) -> str | None:
        if find_spec(module) is None:
            return None
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "unknown"

    return {
        "version": __version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "platform": platform.platform(),
        "modules": kind_of_modules(),
        "packages": {package: installed(package, module) for module, (package, _) in OPTIONAL.items()},
        "apis": [
            {"key": int(key), "name": key.name, "min": versions.min, "max": versions.max, "listeners": listeners}
            for served, listeners in ((API_VERSIONS, "all"), (CLIENT_VERSIONS, "pykraft.client.listeners"))
            for key, versions in sorted(served.items())
        ],
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    lines = [f"{name + ':':<12}{facts[name]}" for name in ("version", "python", "executable", "platform", "modules")]
    lines += [f"{name + ':':<20}{found or 'not installed'}" for name, found in facts["packages"].items()]
    rows = [(api["name"], str(api["key"]), f"{api['min']} to {api['max']}", api["listeners"]) for api in facts["apis"]]
    return [*lines, *table_lines(("API", "key", "versions", "listeners"), rows, width=terminal_width())]
