"""A scenario as the text of a TOML file: what `pykraft.sim.scenario.file` reads to get it again.

Only what differs from the default scenario is written, but for ``faults``, whose table is whole when it differs.

Source: the TOML 1.0 specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pykraft.sim.scenario.scenario import DEFAULT, Scenario


def scenario_text(scenario: Scenario) -> str:
    """The text, one table after the other; empty for the default scenario. Its name is that of the file."""
    tables = []
    for table in fields(Scenario):
        value, default = getattr(scenario, table.name), getattr(DEFAULT, table.name)
        if table.name == "name" or value == default:
            continue
        changed = value if isinstance(value, Mapping) else _changed(value, default)
        lines = "".join(f"{_key(name)} = {_value(each)}\n" for name, each in changed.items())
        tables.append(f"[{table.name}]\n{lines}")
    return "\n".join(tables)


def _changed(table: Any, default: Any) -> dict[str, Any]:  # noqa: ANN401
    """Fields of one table; whichever class has it."""
    values = {field.name: (getattr(table, field.name), getattr(default, field.name)) for field in fields(table)}
    return {name: value for name, (value, usual) in values.items() if value != usual}


def _key(name: str) -> str:
    return f'"{name}"' if " " in name or "-" in name else name


def _value(value: Any) -> str:  # noqa: ANN401
    """A whole number, a float, or a tuple of whole numbers."""
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else repr(value)
