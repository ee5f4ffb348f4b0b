"""``pykraft sim``: the list of its commands."""

from __future__ import annotations

from pykraft.cli.sim.command import sim


def test_the_commands_are_there_and_say_what_they_do() -> None:
    assert {"run", "replay"} == sim.commands.keys()
    assert all(command.get_short_help_str() for command in sim.commands.values())
