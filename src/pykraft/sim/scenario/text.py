"""Writes a scenario as a TOML file that `pykraft.sim.scenario.file` reads back as the same scenario.

It lists only what differs from the default scenario, except ``faults``: if that table differs, it is written whole.

Source: the TOML 1.0 specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from pykraft.sim.scenario.scenario import DEFAULT, Scenario


def scenario_text(scenario: Scenario) -> str:
    """The text, one table after the other; empty for the default scenario. The name is not part of it."""
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
    """The changed fields of one table of any class."""
    values = {field.name: (getattr(table, field.name), getattr(default, field.name)) for field in fields(table)}
    return {name: value for name, (value, usual) in values.items() if value != usual}


def _key(name: str) -> str:
    return f'"{name}"' if " " in name or "-" in name else name


def _value(value: Any) -> str:  # noqa: ANN401
    """An integer, a float, or a tuple of integers as TOML."""
    return f"[{', '.join(map(str, value))}]" if isinstance(value, tuple) else repr(value)
