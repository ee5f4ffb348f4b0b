"""A client's side of one session: it numbers commands, remembers who waits, and knows what it no longer needs.

Invariant: a number is used for one command only, and ``acknowledged`` never passes a command that somebody waits for.
"""

from __future__ import annotations

import asyncio
from collections import deque

from pykraft.errors import BufferFullError
from pykraft.machine.records import encode_command
from pykraft.machine.replica import WINDOW, CommandAnswer


class ClientSession:
    """One open session."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.waiters: dict[int, asyncio.Future[CommandAnswer]] = {}
        """Who waits for the answer to a command, by its number."""
        self._next_sequence = 0
        self._issued: deque[int] = deque()
        """Numbers in their order; those that nobody waits for any more leave when they come to the front."""

    def issue(self) -> tuple[int, asyncio.Future[CommandAnswer]]:
        """A number for a new command, and the future of its answer. Errors: BufferFullError."""
        if self._next_sequence - self.acknowledged >= WINDOW:
            raise BufferFullError(f"{WINDOW} commands of this client already wait for their results: execute it later")
        sequence, self._next_sequence = self._next_sequence, self._next_sequence + 1
        future = self.waiters[sequence] = asyncio.get_running_loop().create_future()
        self._issued.append(sequence)
        return sequence, future

    def done(self, sequence: int) -> None:
        """Nobody waits for this command any more: it has its answer, or was given up."""
        del self.waiters[sequence]

    @property
    def acknowledged(self) -> int:
        """The lowest number that somebody waits for."""
        while self._issued and self._issued[0] not in self.waiters:
            self._issued.popleft()
        return self._issued[0] if self._issued else self._next_sequence

    def record(self, sequence: int, command: bytes, time_ms: int) -> bytes:
        """The record of this command for the log."""
        return encode_command(time_ms, self.session_id, sequence, self.acknowledged, command)
