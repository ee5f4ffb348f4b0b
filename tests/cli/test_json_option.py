"""``--json`` means the same for every command."""

from __future__ import annotations

from collections.abc import Iterator

import click

from pykraft.cli.main import pykraft

WITHOUT = {
    "pykraft completion": "prints a script",
    "pykraft local down": "prints what it stopped",
    "pykraft pipeline package": "writes a file",
    "pykraft server": "runs until it is stopped",
}
"""Commands without a result that a program would read."""


def commands(group: click.Group, name: str) -> Iterator[tuple[str, click.Command]]:
    """Each command below a group with its full name."""
    context = click.Context(group)
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} {each}")
        else:
            yield f"{name} {each}", command


def test_every_command_with_a_result_has_the_same_flag() -> None:
    without = set()
    for name, command in commands(pykraft, "pykraft"):
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
