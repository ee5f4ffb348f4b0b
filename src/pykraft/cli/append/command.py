"""``pykraft append``: lines from a terminal, a pipe or a file become records of a live quorum.

Lines that arrive while a batch is under way form the next one. A daemon thread reads them, so that the end of the
process need not wait for a line that nobody types, and the next piece only when there is room for it. Invariant: the
command never says that a record is, or is not, in the log unless it knows, and appends each record once.
"""

import asyncio
import base64
import binascii
import json
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from pykraft.cli.client_options import (
    ClientOptions,
    client_options,
    command_config_option,
    controllers_option,
    timeout_option,
)
from pykraft.cli.interrupt import CommandInterrupted, hang_up, is_input_output_error, signals_to
from pykraft.cli.parsing.value import OneOf
from pykraft.cli.printable import WaitingLine
from pykraft.client.remote.numbered_appender import BATCH_SIZE_BYTES_MAX, RECORD_OVERHEAD_BYTES_MAX, Appender
from pykraft.errors import OutcomeUnknownError, PykraftError, UsageError
from pykraft.text.words import counted
from pykraft.types import Offset

PIECE_SIZE_BYTES: Final = 64 * 1024
WAITING_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Bytes of whole lines that may wait; then the thread pauses."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its line feed; numbers begin at 1."""

    number: int
    data: bytes


class Lines:
    """The lines that come from a descriptor; create it on the loop."""

    def __init__(self, descriptor: int, *, line_size_bytes_max: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = os.dup(descriptor)  # the thread's own, since the caller may close its one meanwhile
        self._line_size_bytes_max = line_size_bytes_max
        self._lines: deque[Line] = deque()
        self._waiting_bytes = 0
        self._rest = b""
        self._count = 0
        self._has_ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._has_room = threading.Event()
        threading.Thread(target=self._read, name="append-lines", daemon=True).start()

    async def take(self, *, size_bytes_max: int, overhead_bytes: int) -> list[Line]:
        """The next lines, as many as are there and fit, at least one; empty at the end of the input.

        Errors: UsageError for a line above the limit, OSError of the descriptor, each after the lines before it.
        """
        while not (self._lines or self._has_ended):
            self._news.clear()
            await self._news.wait()
        if not self._lines and self._error is not None:
            raise self._error
        taken: list[Line] = []
        size_bytes = 0
        while self._lines and (not taken or size_bytes + len(self._lines[0].data) + overhead_bytes <= size_bytes_max):
            line = self._lines.popleft()
            size_bytes += len(line.data) + overhead_bytes
            self._waiting_bytes -= len(line.data)
            taken.append(line)
        self._let_read()
        return taken

    def _read(self) -> None:
        """On the thread: one piece at a time, each after the loop has taken the one before."""
        data = b"x"
        try:
            while data:
                data = os.read(self._descriptor, PIECE_SIZE_BYTES)
                self._has_room.clear()
                self._loop.call_soon_threadsafe(self._arrived, data)
                self._has_room.wait()
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass
        except OSError as error:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._failed, error)
        finally:
            os.close(self._descriptor)

    def _arrived(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data).split(b"\n")
        if not data and self._rest:
            whole = [self._rest]  # the last line has no line feed
        for each in whole:
            self._add(each)
        if len(self._rest) > self._line_size_bytes_max:
            self._add(self._rest)
        if not data:
            self._has_ended = True
        self._news.set()
        self._let_read()

    def _add(self, data: bytes) -> None:
        self._count += 1
        if self._has_ended:
            return
        if len(data) > self._line_size_bytes_max:
            most = self._line_size_bytes_max
            self._failed(UsageError(f"line {self._count} has more than {most} bytes, the most for one record"))
            return
        self._lines.append(Line(self._count, data))
        self._waiting_bytes += len(data)

    def _failed(self, error: Exception) -> None:
        self._error, self._has_ended = error, True
        self._news.set()

    def _let_read(self) -> None:
        if self._waiting_bytes < WAITING_SIZE_BYTES_MAX and self._error is None:
            self._has_room.set()


RECORD_SIZE_BYTES_MAX: Final = BATCH_SIZE_BYTES_MAX - RECORD_OVERHEAD_BYTES_MAX
LINE_FORMS: Final = ("text", "json")
ANSWER_WAIT_S: Final = 0.5
"""How long Ctrl-C waits for the answer to what was already sent."""
_COMPACT: Final = json.JSONEncoder(separators=(",", ":"))


@click.command(short_help="Append lines to a live quorum, a record each.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@controllers_option
@click.option(
    "--input",
    "line_form",
    type=OneOf(LINE_FORMS),
    default="text",
    show_default=True,
    help="Form of a line: text, the record itself; json, an object as `tail --json` prints it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each batch.")
@command_config_option
@timeout_option
def append(
    *,
    file: Path | None,
    bootstrap_controller: str,
    line_form: str,
    as_json: bool,
    command_config: Path | None,
    timeout: float | None,
) -> None:
    """Append the lines of FILE, or of standard input, and print where they were committed.

    Each node must allow this with the property pykraft.client.listeners. The command follows leader changes, and
    appends each line once. If it cannot know in time whether records are in the log, it says so and exits with 1.
    """
    options = client_options(
        controllers=bootstrap_controller, command_config=command_config, timeout_s=timeout, client_id="pykraft-append"
    )
    value_of = json_value if line_form == "json" else text_value
    with ExitStack() as stack:
        descriptor = 0
        if file is not None and str(file) != "-":
            try:
                descriptor = stack.enter_context(file.open("rb")).fileno()
            except OSError as error:
                raise UsageError(f"{file}: {error.strerror}: give a file of lines, or - for standard input") from error
        elif sys.stdin.isatty():
            click.echo("Type a record and press Enter to append it; Ctrl-D ends.", err=True)
        ended_by = asyncio.run(AppendRun(options, value_of, as_json=as_json).run(descriptor))
    if ended_by is not None:
        raise CommandInterrupted(ended_by)


class AppendRun:
    """One run of the command: reads, appends, prints."""

    def __init__(self, options: ClientOptions, value_of: Callable[[Line], bytes | None], *, as_json: bool) -> None:
        """``value_of`` makes a record of a line, None for an empty line."""
        self._options = options
        self._value_of = value_of
        self._as_json = as_json
        self._committed_line = 0
        self._empty_count = 0
        self._under_way = ""
        """The lines of the batch that was sent and is not answered."""
        self._stopped = asyncio.Event()
        self._ended_by: signal.Signals | None = None

    async def run(self, descriptor: int) -> signal.Signals | None:
        """Append everything; returns the signal that ended it early. Errors: PykraftError, OSError."""
        loop = asyncio.get_running_loop()
        # Instead of what raises in the middle of it, so that the answer to what was sent can still be told.
        with signals_to(lambda number: loop.call_soon_threadsafe(self._stop, number)):
            return await self._run(descriptor)

    async def _run(self, descriptor: int) -> signal.Signals | None:
        options = self._options
        patience = options.patience(WaitingLine().show)
        async with Appender(
            options.bootstrap, client_id=options.client_id, patience=patience, security=options.security
        ) as appender:
            work = asyncio.ensure_future(self._append_all(appender, descriptor))
            stopped = asyncio.ensure_future(self._stopped.wait())
            await asyncio.wait([work, stopped], return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if self._ended_by is None:
                await work
                return None
            # A batch that was sent probably has its answer soon.
            await asyncio.wait([work], timeout=ANSWER_WAIT_S if self._under_way else 0)
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            doubt = f"; {self._under_way}, which may be in the log, or not" if self._under_way else ""
            how = "interrupted" if self._ended_by == signal.SIGINT else f"ended by {self._ended_by.name}"
            click.echo(f"pykraft: {how}: {self._so_far()}{doubt}; later lines were not sent", err=True)
            return self._ended_by

    def _stop(self, number: signal.Signals) -> None:
        self._ended_by = number
        self._stopped.set()

    async def _append_all(self, appender: Appender, descriptor: int) -> None:
        lines = Lines(descriptor, line_size_bytes_max=2 * RECORD_SIZE_BYTES_MAX)
        try:
            while self._ended_by is None:
                taken = await lines.take(size_bytes_max=BATCH_SIZE_BYTES_MAX, overhead_bytes=RECORD_OVERHEAD_BYTES_MAX)
                if not taken:
                    if not hang_up(descriptor):
                        break
                    await self._stopped.wait()
                    return
                values = [value for line in taken if (value := self._value_of(line)) is not None]
                self._empty_count += len(taken) - len(values)
                if values:
                    await self._append(appender, values, taken)
        except OutcomeUnknownError:
            raise
        except OSError as error:
            if not (is_input_output_error(error) and hang_up()):
                raise
            await self._stopped.wait()
            return
        except PykraftError as error:
            error.args = (f"{error}; {self._so_far()}",)
            raise
        if self._empty_count:
            empty = counted(self._empty_count, "empty line")
            click.echo(f"pykraft: skipped {empty}: a record has at least one byte", err=True)

    async def _append(self, appender: Appender, values: Sequence[bytes], taken: Sequence[Line]) -> None:
        first, last = taken[0].number, taken[-1].number
        told = f"line {first}" if first == last else f"lines {first} to {last}"
        self._under_way = f"{told} {'was' if first == last else 'were'} sent"
        try:
            offset = await appender.append_values(values)
        except OutcomeUnknownError as error:
            if self._as_json:
                outcome: dict[str, Any] = {"outcome": "unknown", "baseOffset": None, "count": len(values)}
                click.echo(_COMPACT.encode(outcome | {"firstLine": first, "lastLine": last}))
            story = f"the outcome of {told} is unknown: {error}; {self._so_far()}; later lines were not sent"
            raise OutcomeUnknownError(f"{story}; `pykraft tail` shows what is in the log") from error
        self._under_way = ""
        self._committed_line = last
        self._print_committed(offset, len(values), first, last)

    def _so_far(self) -> str:
        if not self._committed_line:
            return "nothing was committed"
        return f"the records up to line {self._committed_line} were committed"

    def _print_committed(self, offset: Offset, count: int, first: int, last: int) -> None:
        if self._as_json:
            outcome: dict[str, Any] = {"outcome": "committed", "baseOffset": offset, "count": count}
            click.echo(_COMPACT.encode(outcome | {"firstLine": first, "lastLine": last}))
        elif count == 1:
            click.echo(f"offset {offset}")
        else:
            click.echo(f"offsets {offset} to {offset + count - 1}: {counted(count, 'record')}")


def text_value(line: Line) -> bytes | None:
    """The line itself. Errors: UsageError for one that is too long."""
    return _checked(line, line.data) if line.data else None


def json_value(line: Line) -> bytes | None:
    """The value of an object that `tail --json` printed. Errors: UsageError that names the line."""
    if not line.data.strip():
        return None
    try:
        content = json.loads(line.data)
        value = base64.b64decode(content["valueBase64"], validate=True)
    except (ValueError, KeyError, TypeError, binascii.Error):
        raise UsageError(f"line {line.number} is not a JSON object with the record in valueBase64") from None
    if not value or "keyBase64" in content:
        problem = "a record of a quorum has no key, and a value of at least one byte"
        raise UsageError(f"line {line.number}: {problem}")
    return _checked(line, value)


def _checked(line: Line, value: bytes) -> bytes:
    if len(value) > RECORD_SIZE_BYTES_MAX:
        raise UsageError(f"line {line.number}: a record has at most {RECORD_SIZE_BYTES_MAX} bytes, not {len(value)}")
    return value
