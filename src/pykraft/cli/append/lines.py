"""Reads lines from a terminal, a pipe or a file while the loop does something else.

A daemon thread blocks in ``read``, so that the end of the process need not wait for a line that nobody types.
Invariant: memory is bounded; the thread reads the next piece only when the loop has room for it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pykraft.errors import UsageError

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
