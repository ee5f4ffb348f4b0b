"""``--json``, the same at every command that answers once.

Owns its name and its help. It refuses to know what is printed.
"""

from __future__ import annotations

import click

json_option = click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
