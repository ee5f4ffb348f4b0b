"""Groups of commands, and what they say about an unknown one: which was probably meant, in whichever group it is.

Invariant: the help of a group cuts no sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from pykraft.cli.parsing.narrow_help import CommandContext
from pykraft.text.words import closest

OTHER_NAMES: Final[Mapping[str, Sequence[str]]] = {
    "add-voter": ("quorum add-controller",),
    "consume": ("tail",),
    "delete": ("kv del",),
    "produce": ("append",),
    "remove-voter": ("quorum remove-controller",),
    "start": ("server", "local up"),
    "stop": ("local down",),
}
"""Words that people try, and the commands that do this."""
_UNLIMITED: Final = 10_000


class Group(click.Group):
    """A group whose errors about unknown commands know all commands of the program."""

    context_class = CommandContext

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group`. Errors: click.UsageError."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"no such command {args[0]!r}{_meant(ctx, args)}", ctx)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            command.context_class = CommandContext
        return name, command, rest

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group`, which would cut the sentences to one line each."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, each.get_short_help_str(_UNLIMITED)) for name, each in commands if each is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _meant(ctx: click.Context, args: Sequence[str]) -> str:
    """``; did you mean pykraft GROUP COMMAND?``, or nothing."""
    word = args[0].lower()
    if word == "help":
        found = [" ".join([ctx.command_path, *args[1:], "--help"])]
    else:
        root = ctx.find_root()
        commands = list(_names(root.command, root.command_path))
        own = [name for name in commands if name.startswith(f"{ctx.command_path} ")]
        others = [f"{root.command_path} {name}" for name in OTHER_NAMES.get(word, ())]
        found = (
            _called(word, own)
            or _called(word, commands)
            or [name for name in others if name in own]
            or others
            or _similar(word, own)
            or _similar(word, commands)
        )
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _names(command: click.Command, path: str) -> Iterator[str]:
    """The full names of all commands below this one."""
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield f"{path} {name}"
        below = command.get_command(context, name)
        if below is not None:
            yield from _names(below, f"{path} {name}")


def _called(word: str, commands: Sequence[str]) -> list[str]:
    """The commands whose last word this is."""
    return [name for name in commands if name.rpartition(" ")[2] == word]


def _similar(word: str, commands: Sequence[str]) -> list[str]:
    """The commands whose last word is the most similar."""
    name = closest(word, (name.rpartition(" ")[2] for name in commands))
    return [] if name is None else _called(name, commands)
