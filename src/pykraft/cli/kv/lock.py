"""`pykraft kv lock NAME -- COMMAND`: run a command while a lock of the service is held.

Invariant: the command does not run when the lock is certainly held by another one: if the lease cannot be kept, the
command is ended before the lease can end. Nor does it outlive this process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from pykraft.cli.json_option import json_option
from pykraft.cli.kv.options import SECONDS, client_of, url_option
from pykraft.cli.parsing.value import NumberType
from pykraft.errors import LeaseLostError, UsageError

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.kv.client_lease import ClientLease

TTL_S: Final = 10.0
END_SHARE: Final = 0.1
"""Of the lease's time, between SIGTERM and SIGKILL when the lock is lost; a fifth of it is left then."""
INTERRUPT_S: Final = 0.2
"""The same when a signal ends this process."""
EXIT_SIGNAL: Final = 128


@click.command(short_help="Run a command while a lock is held.")
@click.argument("name")
@click.argument("command", nargs=-1, required=True)
@click.option(
    "--ttl",
    type=NumberType(float, 1, 86_400),
    default=TTL_S,
    show_default=True,
    help="Seconds after which others get the lock if this process dies.",
)
@click.option("--wait", type=SECONDS, default=86_400.0, help="Seconds to wait for the lock.  [default: a day]")
@click.option("--holder", help="A text about the holder, for others to read.  [default: host and process id]")
@url_option
@json_option
def lock(
    *, name: str, command: Sequence[str], ttl: float, wait: float, holder: str | None, urls: str, as_json: bool
) -> None:
    """Wait for the lock NAME, run COMMAND, and exit with its status; 128 + N if signal N ended it.

    COMMAND gets PYKRAFT_LOCK_TOKEN, a number that is higher for each later holder, and PYKRAFT_LOCK_KEY. If the lock is
    lost, COMMAND is ended by SIGTERM, then SIGKILL.
    """
    from pykraft.kv.client_lease import ClientLease

    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: there is no such command")
    if not name:
        raise UsageError("NAME: a lock has a name of at least one character")
    told = f"{socket.gethostname()} {os.getpid()}" if holder is None else holder
    with ClientLease(client_of(urls, max(1.0, ttl / 2)), int(ttl * 1_000)) as lease:
        place = lease.lock(name, told, wait)
        if as_json:
            click.echo(json.dumps({"name": name, "key": place["key"], "token": place["token"], "lease": lease.lease}))
            sys.stdout.flush()
        with _running(command, place, ttl * END_SHARE) as process:
            _keep_until_ended(lease, process)
    sys.exit(process.returncode if process.returncode >= 0 else EXIT_SIGNAL - process.returncode)


def _keep_until_ended(lease: ClientLease, process: subprocess.Popen[bytes]) -> None:
    """Errors: LeaseLostError."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.01, lease.pause_s))
            return
        lease.keep()


@contextmanager
def _running(command: Sequence[str], place: dict[str, Any], end_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command within this block; after it the command has ended. Errors: UsageError, LeaseLostError."""
    from pykraft.local.keeper import Keeper
    from pykraft.process.signals import signals_later

    environment = {"PYKRAFT_LOCK_TOKEN": str(place["token"]), "PYKRAFT_LOCK_KEY": place["key"]}
    keeper = Keeper()
    try:
        with signals_later():
            process = subprocess.Popen(command, env=os.environ | environment)
            keeper.know_processes([process.pid])
        try:
            yield process
        except LeaseLostError as error:
            _end(process, end_s)
            raise LeaseLostError(f"{error}; {command[0]} was ended, since another one may hold the lock now") from error
        except BaseException:
            _end(process, INTERRUPT_S)
            raise
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}") from error
    finally:
        keeper.close()


def _end(process: subprocess.Popen[bytes], term_s: float) -> None:
    """SIGTERM, and SIGKILL after this time."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(term_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
