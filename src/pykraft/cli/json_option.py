"""The option ``--json``, the same for every command that prints one result.

Defines its name and its help text.
"""

from __future__ import annotations

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
