"""Every command of the command line, for tests that hold for all of them."""

from collections.abc import Iterator

import click

from lab.cli.main import pykraft


def every_command(group: click.Group = pykraft, name: str = "pykraft") -> Iterator[tuple[str, click.Command]]:
    """Each command with its full name, groups too."""
    context = click.Context(group)
    yield name, group
    for each in group.list_commands(context):
        command = group.get_command(context, each)
        assert command is not None
        if isinstance(command, click.Group):
            yield from every_command(command, f"{name} {each}")
        else:
            yield f"{name} {each}", command


def leaves() -> Iterator[tuple[str, click.Command]]:
    """The commands that are no groups."""
    return ((name, command) for name, command in every_command() if not isinstance(command, click.Group))
