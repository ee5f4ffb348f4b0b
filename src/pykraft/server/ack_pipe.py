"""Tells whoever started the node what it acknowledged, one JSON object a line, on a file descriptor.

So a journal can be kept outside the node, and a killed node cannot take back what it said. Writing never
blocks the loop; a reader that does not read stops the node, since a journal with holes proves nothing.

Lines: ``started`` (node, run, pid, port), ``leader`` (node, run, epoch), ``ack`` (node, run, epoch,
first_sequence, count, base_offset, wall_ms, latency_ms), ``resigned`` (node, epoch), ``stopped`` (node).
"""

from __future__ import annotations

import asyncio
import json
import os

from pykraft.errors import UsageError

PENDING_SIZE_BYTES_MAX = 16 * 1024 * 1024


class AckPipe:
    """Writes lines to a descriptor as it takes them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int) -> None:
        """Errors: UsageError when the descriptor is not open."""
        try:
            os.set_blocking(descriptor, False)
        except OSError as error:
            raise UsageError(f"--ack-fd {descriptor}: {error.strerror}") from error
        self._loop = loop
        self._descriptor = descriptor
        self._pending = bytearray()
        self._is_open = True

    def tell(self, event: str, **fields: object) -> None:
        """One line. Errors: UsageError when the reader is too far behind."""
        if not self._is_open:
            return
        was_empty = not self._pending
        self._pending += json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(self._pending) > PENDING_SIZE_BYTES_MAX:
            raise UsageError(f"nobody reads the descriptor given with --ack-fd: {len(self._pending)} bytes wait")
        if was_empty:
            self._write()

    def close(self) -> None:
        """Write what can be written at once, then let go of the descriptor."""
        if self._is_open:
            self._write()
        if self._is_open:
            self._loop.remove_writer(self._descriptor)
            self._is_open = False
            os.close(self._descriptor)

    def _write(self) -> None:
        try:
            written = os.write(self._descriptor, self._pending)
        except BlockingIOError:
            written = 0
        except OSError:
            self._loop.remove_writer(self._descriptor)
            self._pending.clear()
            self._is_open = False
            os.close(self._descriptor)
            return
        del self._pending[:written]
        if self._pending:
            self._loop.add_writer(self._descriptor, self._write)
        else:
            self._loop.remove_writer(self._descriptor)
