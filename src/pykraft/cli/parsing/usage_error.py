"""One line for a wrong command line: what is wrong, and what to type instead or where to look.

click shows four lines, with suggestions in words of its own. Invariant: no hidden option is suggested.
"""

from __future__ import annotations

import click

from pykraft.cli.parsing.value import WrongValueError
from pykraft.cli.printable import printable
from pykraft.text.words import did_you_mean


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
    """As the help shows it."""
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return (param.metavar or (param.name or "").upper()).rstrip(".")
