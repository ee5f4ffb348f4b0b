"""Values of options that are one of some names, or several of them separated by commas.

A misspelled name gets a suggestion, and the shell completes both kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from pykraft.cli.parsing.value import WrongValueError
from pykraft.text.words import did_you_mean

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


class OneOf(click.Choice):  # type: ignore[type-arg] # generic only in newer versions of click
    """One of these words."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as click has it
        """See `click.Choice`. Errors: WrongValueError."""
        if value not in self.choices:
            rule = f"give one of {', '.join(self.choices)}{did_you_mean(str(value), self.choices)}"
            raise WrongValueError(value, rule, param, ctx)
        return value


def several_of(names: Callable[[], Iterable[str]]) -> Complete:
    """A function for ``shell_complete``: completes the last name of ``A,B,…`` with names that are not yet in it."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del context, parameter
        before, comma, last = incomplete.rpartition(",")
        given = before.split(",")
        left = [name for name in names() if name.startswith(last) and name not in given]
        return [CompletionItem(before + comma + name) for name in left]

    return complete


def any_of(names: Callable[[], Iterable[str]]) -> Complete:
    """A function for ``shell_complete``: completes one name of a list that is only known when it is needed."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del context, parameter
        return [CompletionItem(name) for name in names() if name.startswith(incomplete)]

    return complete


start_option = click.option(
    "--from",
    "start",
    default="earliest",
    show_default=True,
    shell_complete=any_of(lambda: ("earliest", "latest")),
    help="Where to start: earliest, latest or an offset.",
)
