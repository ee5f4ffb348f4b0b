"""The option ``--json``, which has one meaning for every command: print JSON to standard output instead of text.

It is a flag and never takes a file; the shell redirects standard output. Progress and errors go to standard error. A
command with one result prints one document; one that prints while it works prints an object per line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def json_lines_option(of: str) -> Callable[[_Command], _Command]:
    """The option of a command that prints an object per line, one for each of these."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON lines instead of text: one object {of}.")
