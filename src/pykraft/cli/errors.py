"""Shows errors to an operator: one line that says what is wrong, where, and what to do; and an exit code.

`EXIT_CODES` is the table of exit codes. A bug of ours, which is not a `PykraftError`, keeps its traceback and exits
with 1.
"""

import logging
import signal
import sys
from collections.abc import Mapping
from typing import NoReturn

import click

from pykraft import errors
from pykraft.cli.interrupt import EXIT_SIGNAL, hang_up, interruptible, is_input_output_error
from pykraft.cli.parsing.group import usage_line

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_STORAGE = 3
EXIT_DIRECTORY = 4
EXIT_CODES: Mapping[int, str] = {
    EXIT_DONE: "done",
    EXIT_FAILED: "failed, and the message says why; or the reader of the output is gone",
    EXIT_USAGE: "wrong arguments or configuration; nothing was done",
    EXIT_STORAGE: "storage failed: a disk that is full, broken or not writable, or a directory in use",
    EXIT_DIRECTORY: "the directory belongs to another node or cluster, or its files are corrupt or missing",
    EXIT_SIGNAL + signal.SIGHUP: "SIGHUP ended it: the terminal was closed",
    EXIT_SIGNAL + signal.SIGINT: "SIGINT ended it: Ctrl-C",
    EXIT_SIGNAL + signal.SIGTERM: "SIGTERM ended it",
}
"""What each code means; docs/cli.md has the same table."""

_ONLY_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""A group without a command, which shows its help; older versions of click show it themselves."""


def exit_code(error: Exception) -> int:
    """The exit code for an error; the most specific class is matched first."""
    match error:
        case errors.ForeignDirectoryError() | errors.CorruptionError() | errors.UnusableLogError():
            return EXIT_DIRECTORY
        case errors.StorageError():
            return EXIT_STORAGE
        case errors.AddressInUseError():
            return EXIT_FAILED  # the configuration may be right, and the same start succeed later
        case errors.UsageError():
            return EXIT_USAGE
        case _:
            return EXIT_FAILED


def error_text(error: Exception) -> str:
    """The text of an error; for one of the operating system without its number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def run_with_exit_codes(command: click.Command) -> None:
    """Run a command and leave the process. Errors: CommandInterrupted if a signal ended the command."""
    interruptible(lambda: _run(command))


def _run(command: click.Command) -> NoReturn:
    try:
        result = command.main(standalone_mode=False, prog_name="pykraft")
        if sys.stdout is not None:  # a rest that cannot be written is an error of the command
            sys.stdout.flush()
    except click.exceptions.Abort:
        hang_up()  # a question that a closed terminal cannot answer
        sys.exit(EXIT_FAILED)
    except click.ClickException as error:
        if isinstance(error, _ONLY_HELP):
            error.show()
        else:
            click.echo(f"pykraft: {usage_line(error)}", err=True)
        sys.exit(EXIT_USAGE)
    except (errors.PykraftError, OSError) as error:
        if is_input_output_error(error):
            hang_up()
        click.echo(f"pykraft: {error_text(error)}", err=True)
        sys.exit(exit_code(error))
    finally:
        logging.shutdown()
    sys.exit(result if isinstance(result, int) else EXIT_DONE)
