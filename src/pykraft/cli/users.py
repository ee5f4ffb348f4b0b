"""`pykraft users`: the file of SCRAM's users: add, remove, list.

Invariant: a password is asked for, or comes from standard input, so that no list of processes shows it; the file never
has it.

Source: our own; Kafka keeps these users in its metadata log (``kafka-configs --alter --add-config SCRAM-SHA-256=…``).
"""

import json
import sys
from pathlib import Path
from typing import Final

import click

from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import NumberType, OneOf, json_option
from pykraft.errors import UsageError
from pykraft.security.exchanges import ITERATIONS_MAX
from pykraft.security.users import ITERATIONS_MIN, SCRAM, NewUser, ScramUsers, read_users, write_users

_FILE: Final = click.option(
    "--file", "path", required=True, type=click.Path(path_type=Path), help="The file that pykraft.scram.users names."
)
_PASSWORD_SIZE_MAX: Final = 1024


@click.group(cls=Group, short_help="Add, remove and list the users of SCRAM.")
def users() -> None:
    """Change the file of SCRAM's users. Nodes read it again within seconds."""


@users.command()
@_FILE
@click.option("--mechanism", "mechanisms", multiple=True, type=OneOf(SCRAM), help="One of the two; by default both.")
@click.option(
    "--iterations",
    type=NumberType(int, ITERATIONS_MIN, ITERATIONS_MAX),
    default=ITERATIONS_MIN,
    show_default=True,
    help="How often the password is hashed.",
)
@click.argument("name")
def add(*, path: Path, mechanisms: tuple[str, ...], iterations: int, name: str) -> None:
    """Add a user, or change a user's password. The password is asked for, or read from standard input."""
    if not name:
        raise UsageError("the name of a user is not empty")
    known = existing(path)
    password = _password(name)
    for mechanism in mechanisms or SCRAM:
        NewUser(mechanism, name, password, iterations).add_to(known)
    write_users(path, known)


@users.command()
@_FILE
@click.argument("name")
def remove(*, path: Path, name: str) -> None:
    """Remove a user. The user's connections stay open until they must authenticate again."""
    known = existing(path, may_be_absent=False)
    if not [mechanism for mechanism in known if known[mechanism].pop(name, None)]:
        raise UsageError(f"{path}: it has no user {name!r}")
    write_users(path, known)


@users.command("list")
@_FILE
@json_option
def list_command(*, path: Path, as_json: bool) -> None:
    """Print the users, with their mechanisms."""
    known = existing(path, may_be_absent=False)
    names = sorted({name for mechanism in known for name in known[mechanism]})
    found = {name: [mechanism for mechanism in SCRAM if name in known.get(mechanism, {})] for name in names}
    if as_json:
        click.echo(json.dumps({"users": found}, indent=2))
        return
    for name in names:
        click.echo(f"{name}  {', '.join(found[name])}")


def existing(path: Path, *, may_be_absent: bool = True) -> ScramUsers:
    """What the file has; nothing if there is none, and need not be. Errors: UsageError."""
    if may_be_absent and not path.exists():
        return {}
    try:
        return read_users(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _password(name: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
    password = sys.stdin.readline(_PASSWORD_SIZE_MAX + 2).rstrip("\r\n")
    if not password or len(password) > _PASSWORD_SIZE_MAX:
        raise UsageError(f"standard input: its first line is the password, of 1 to {_PASSWORD_SIZE_MAX} characters")
    return password
