"""Groups of commands, their help, and one line for a wrong command line: what is wrong, and what to type instead.

click shows four lines, with suggestions in words of its own; an unknown command is looked for in every group. click's
help keeps two columns, and lines of at least 50, at any width: at 40 it split words into pieces of ten letters. Here
the help of an option is below it where two columns have no room.

Invariant: the help of a group cuts no sentence, and no hidden option is suggested.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import click

from pykraft.cli.parsing.value import WrongValueError
from pykraft.cli.printable import printable
from pykraft.text.words import closest, did_you_mean


def usage_line(error: click.ClickException) -> str:
    """The text about this error."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    told = printable(_problem(error, context))
    if context is None or isinstance(error, WrongValueError) or "; did you mean " in told:
        return told
    return f"{told}; see {context.command_path} --help"


def _problem(error: click.ClickException, context: click.Context | None) -> str:
    match error:
        case click.NoSuchOption():
            params = [] if context is None else context.command.get_params(context)
            names = [name for each in params if not getattr(each, "hidden", False) for name in each.opts]
            return f"no such option {error.option_name}{did_you_mean(error.option_name, names)}"
        case click.MissingParameter() if error.param is not None:
            choices = getattr(error.param.type, "choices", ())
            rule = f": give one of {', '.join(choices)}" if choices else ""
            return f"{_named(error.param)} is missing{rule}"
        case WrongValueError():
            return error.format_message()
        case _:
            text = error.format_message().removesuffix(".").replace("'", "")
            return text[:1].lower() + text[1:]


def _named(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return (param.metavar or (param.name or "").upper()).rstrip(".")


TWO_COLUMNS_WIDTH_MIN: Final = 60
WIDTH_MIN: Final = 20
WIDTH_MAX: Final = 80


class HelpText(click.HelpFormatter):
    """A help text of any width."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        if width is None:  # as click has it, but for its least width of 50
            width = max(min(shutil.get_terminal_size().columns, max_width or WIDTH_MAX) - 2, WIDTH_MIN)
        super().__init__(indent_increment, width, max_width)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        if self.width >= TWO_COLUMNS_WIDTH_MIN:
            super().write_dl(rows, col_max, col_spacing)
            return
        for name, text in rows:
            self.write_text(name)
            with self.indentation():
                self.write_text(text)


class CommandContext(click.Context):
    """The context of every command."""

    formatter_class = HelpText


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

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """See `click.Command`; `help COMMAND` is `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group`. Errors: click.UsageError."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise click.UsageError(f"no such command {args[0]!r}{_meant(ctx, args[0].lower())}", ctx)
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


def _meant(ctx: click.Context, word: str) -> str:
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
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        yield f"{path} {name}"
        below = command.get_command(context, name)
        if below is not None:
            yield from _names(below, f"{path} {name}")


def _called(word: str, commands: Sequence[str]) -> list[str]:
    return [name for name in commands if name.rpartition(" ")[2] == word]


def _similar(word: str, commands: Sequence[str]) -> list[str]:
    name = closest(word, (name.rpartition(" ")[2] for name in commands))
    return [] if name is None else _called(name, commands)
