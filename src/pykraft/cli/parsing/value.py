"""Values of options and arguments: numbers within bounds, names out of a list, files, folders, and addresses.

``--json`` is a flag and never takes a file: a command with one result prints one document, and one that prints while it
works prints an object per line. Invariant: a wrong value is refused with the option, the value and what to give
instead, before the command does anything; a misspelled name gets a suggestion, and the shell completes names.
"""

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from pykraft.errors import UsageError
from pykraft.object_storage.uris import UriPath, is_uri, located
from pykraft.text.words import did_you_mean
from pykraft.types import PORT_MAX, Endpoint


def listen_address(option: str, text: str, *, host: str | None = None) -> Endpoint:
    """Parse ``host:port``, IPv6 in brackets; a port alone is one of ``host``, if that is given. Errors: UsageError."""
    from pykraft.client.arguments import parse_bootstrap

    wanted = "one host:port" if host is None else "a port, or one host:port"
    name, colon, port = text.rpartition(":")
    if not colon and host is not None:
        name = host
    try:
        # A bootstrap list has no port 0.
        found = parse_bootstrap(option, f"{name}:1" if port == "0" else f"{name}:{port}")
    except UsageError:
        found = ()
    if len(found) != 1:
        raise UsageError(f"{option} {text!r}: give {wanted} (IPv6 in brackets), with a port from 0 to {PORT_MAX}")
    return Endpoint(found[0].host, 0) if port == "0" else found[0]


_Command = TypeVar("_Command", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def json_lines_option(of: str) -> Callable[[_Command], _Command]:
    """The option of a command that prints an object per line, one for each of these."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON lines instead of text: one object {of}.")


class WrongValueError(click.BadParameter):
    """A value of an option or argument that is refused, and the reason or what to give instead."""

    def __init__(self, value: object, problem: str, param: click.Parameter | None, ctx: click.Context | None) -> None:
        super().__init__(f"{value}: {problem}", ctx, param)

    def format_message(self) -> str:
        """See `click.ClickException`; an argument needs no name, since its value is what was typed."""
        option = self.param if isinstance(self.param, click.Option) else None
        return self.message if option is None else f"{max(option.opts, key=len)} {self.message}"


class NumberType(click.ParamType):  # type: ignore[type-arg] # generic only in newer versions of click
    """A number within bounds, both inclusive."""

    name = "number"

    def __init__(self, kind: type[int | float] = int, least: float | None = None, most: float | None = None) -> None:
        self._kind = kind
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | float:  # noqa: ANN401 - as click has it
        """See `click.ParamType`. Errors: WrongValueError."""
        try:
            number = self._kind(value)
        except ValueError:
            self._refuse(value, param, ctx)
        # Written so that NaN, which compares as false, is refused too.
        is_enough = self._least is None or number >= self._least
        is_small = self._most is None or number <= self._most
        if not (is_enough and is_small):
            self._refuse(value, param, ctx)
        return number

    def _refuse(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> NoReturn:
        allowed = "a whole number" if self._kind is int else "a number"
        if self._most is not None:
            allowed += f" from {_plain(self._least)} to {_plain(self._most)}"
        elif self._least is not None:
            allowed += f" of at least {_plain(self._least)}"
        raise WrongValueError(value, f"give {allowed}", param, ctx)


WHOLE: Final = NumberType()
DECIMAL: Final = NumberType(float)


class _PathType(click.ParamType):  # type: ignore[type-arg] # generic only in newer versions of click
    name = "path"
    is_folder = False

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        return [CompletionItem(incomplete, type="dir" if self.is_folder else "file")]


class ExistingPath(_PathType):
    """A file, or a folder, that exists and may be read."""

    def __init__(self, wanted: str, *, is_folder: bool = False, may_be_uri: bool = False) -> None:
        """``wanted`` says what to give; it follows the message about a path that is missing or of the other kind.

        What a URI of object storage names is looked up by the command.
        """
        self._wanted = wanted
        self.is_folder = is_folder
        self._may_be_uri = may_be_uri

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401 - as click has it
        """See `click.ParamType`. Errors: WrongValueError."""
        path = located(value) if self._may_be_uri and is_uri(str(value)) else Path(value)
        if isinstance(path, UriPath):
            return path
        try:
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise WrongValueError(value, f"{error.strerror or error}: {self._wanted}", param, ctx) from error
        if is_folder != self.is_folder:
            problem = "Not a directory" if self.is_folder else "Is a directory"
            raise WrongValueError(value, f"{problem}: {self._wanted}", param, ctx)
        if not os.access(path, os.R_OK):
            raise WrongValueError(value, "Permission denied", param, ctx)
        return path


class NewFile(_PathType):
    """A file to write; it may exist, and its folder must: a misspelled folder is never made."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401 - as click has it
        """See `click.ParamType`. Errors: WrongValueError."""
        path = Path(value)
        if path.is_dir():
            raise WrongValueError(value, "Is a directory; give a file", param, ctx)
        if not path.parent.is_dir():
            raise WrongValueError(value, f"there is no folder {path.parent}; make it first", param, ctx)
        return path


class NewFolder(_PathType):
    """A folder for files of the command; it is made if it does not exist."""

    name = "folder"
    is_folder = True

    def __init__(self, *, may_be_uri: bool = False) -> None:
        """Whether it may be in object storage is for the command to look up."""
        self._may_be_uri = may_be_uri

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ANN401 - as click has it
        """See `click.ParamType`. Errors: WrongValueError."""
        path = located(value) if self._may_be_uri and is_uri(str(value)) else Path(value)
        if isinstance(path, UriPath):
            return path
        if is_uri(str(value)) and not self._may_be_uri:
            # The value is not repeated: whoever gives a URI here may have put a key into it.
            raise WrongValueError("a URI", "these files are written on disks only; give a folder", param, ctx)
        if path.exists() and not path.is_dir():
            raise WrongValueError(value, "Not a directory", param, ctx)
        return path


def _plain(bound: float | None) -> str:
    return str(bound).removesuffix(".0")


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
