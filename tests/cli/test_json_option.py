"""``--json`` means the same for every command."""

from __future__ import annotations

import click

from tests.cli.command_tree import leaves

WITHOUT = {
    "pykraft completion": "prints a script",
    "pykraft kv serve": "runs until it is stopped",
    "pykraft local down": "prints what it stopped",
    "pykraft pipeline package": "writes a file",
    "pykraft server": "runs until it is stopped",
}
"""Commands without a result that a program would read."""


def test_every_command_with_a_result_has_the_same_flag() -> None:
    without = set()
    for name, command in leaves():
        found = [each for each in command.params if isinstance(each, click.Option) and "--json" in each.opts]
        if not found:
            without.add(name)
            continue
        [option] = found
        assert option.is_flag, name
        assert option.name == "as_json", name
        told = option.help or ""
        assert told.startswith("Print "), name
        assert "JSON" in told, name
    assert without == set(WITHOUT)
