"""Errors as an operator sees them: one line that says what is wrong, where and what to do, and an exit code.

Owns the table of exit codes. A bug of ours, which is no `PykraftError`, keeps its traceback and ends with 1.

0  done
1  failed; the line says why
2  wrong arguments or configuration
3  storage failed: a disk that is full, broken or not writable
4  the directory belongs to another node or cluster, or its files are corrupt
"""

from __future__ import annotations

import logging
import sys

import click

from pykraft.errors import CorruptionError, ForeignDirectoryError, PykraftError, StorageError, UsageError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_STORAGE = 3
EXIT_DIRECTORY = 4


def exit_code(error: Exception) -> int:
    """The code for an error, most special first."""
    match error:
        case ForeignDirectoryError() | CorruptionError():
            return EXIT_DIRECTORY
        case StorageError():
            return EXIT_STORAGE
        case UsageError():
            return EXIT_USAGE
        case _:
            return EXIT_FAILED


def run_with_exit_codes(command: click.Command) -> None:
    """Run a command and leave the process."""
    try:
        result = command.main(standalone_mode=False, prog_name="pykraft")
    except click.exceptions.Abort:
        sys.exit(EXIT_FAILED)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (PykraftError, OSError) as error:
        click.echo(f"pykraft: {error}", err=True)
        sys.exit(exit_code(error))
    finally:
        logging.shutdown()
    sys.exit(result if isinstance(result, int) else 0)
