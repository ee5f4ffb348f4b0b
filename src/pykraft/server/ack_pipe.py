"""Tells the process that started the node what the node acknowledged, as JSON lines on a file descriptor.

That process can keep a journal outside the node, so a killed node cannot take back an acknowledgement. This module owns
the descriptor and the bytes not written yet. Invariant: lines leave whole and in order, and writing never blocks the
loop. If the reader is gone or does not read, the node ends, because a journal with gaps proves nothing.

Lines: ``started`` (node, run, pid, port), ``leader`` (node, run, epoch), ``ack`` (node, run, epoch, first_sequence,
count, base_offset, wall_ms, latency_ms), ``resigned`` (node, epoch), ``stopped`` (node). `pykraft.client.journal` reads
them.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pykraft.errors import UsageError

PENDING_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
LAST_WORDS_TIMEOUT_S: Final = 1.0


class AckPipe:
    """Writes lines to a descriptor as fast as the reader takes them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, *, failed: Callable[[BaseException], None]
    ) -> None:
        """``failed`` is called when nobody reads any more. Errors: UsageError when the descriptor is not open."""
        try:
            os.set_blocking(descriptor, False)
        except (OSError, OverflowError) as error:
            raise UsageError(f"--ack-fd {descriptor}: it is not an open file descriptor") from error
        self._loop = loop
        self._failed = failed
        self._descriptor = descriptor
        self._pending = bytearray()
        self._is_open = True

    def tell(self, event: str, **fields: object) -> None:
        """Write one line; after the end of the pipe it is dropped."""
        if not self._is_open:
            return
        was_empty = not self._pending
        self._pending += json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(self._pending) > PENDING_SIZE_BYTES_MAX:
            # A reader that does not read leaves gaps in its journal as surely as one that is gone.
            self._give_up(f"{len(self._pending)} bytes are unread, and the reader does not keep up")
        elif was_empty:
            self._write()

    def close(self) -> None:
        """Wait a moment for the reader to take everything, then close the descriptor."""
        deadline_s = time.monotonic() + LAST_WORDS_TIMEOUT_S
        poll = select.poll()
        while self._pending and self._is_open and (left_s := deadline_s - time.monotonic()) > 0:
            poll.register(self._descriptor, select.POLLOUT)
            poll.poll(left_s * 1_000)
            self._write()
        self._end()

    def _write(self) -> None:
        try:
            written = os.write(self._descriptor, self._pending)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._give_up(str(error))
            return
        del self._pending[:written]
        if self._pending:
            self._loop.add_writer(self._descriptor, self._write)
        else:
            self._loop.remove_writer(self._descriptor)

    def _give_up(self, reason: str) -> None:
        self._end()
        self._failed(UsageError(f"--ack-fd {self._descriptor}: {reason}"))

    def _end(self) -> None:
        self._pending.clear()
        if self._is_open:
            self._is_open = False
            self._loop.remove_writer(self._descriptor)
            with suppress(OSError):
                os.close(self._descriptor)
