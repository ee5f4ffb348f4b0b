"""A client's side of one session: it numbers commands, remembers who waits, and knows what it no longer needs.

Invariant: a number is used for one command only, and ``acknowledged`` never passes a command that somebody waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

from pykraft.errors import BufferFullError
from pykraft.machine.records import encode_commands
from pykraft.machine.replica import WINDOW, CommandAnswer

Attempt: TypeAlias = tuple[int, bytes, "asyncio.Future[Any]", float]
"""A command that a caller waits for: number, bytes, the future of its answer, and until when (seconds of the loop)."""


class ClientSession:
    """One open session."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.waiters: dict[int, asyncio.Future[CommandAnswer]] = {}
        """Who waits for the answer to a command, by its number."""
        self._next_sequence = 0
        self._acknowledged = 0
        """Nobody waits for a lower number."""

    def issue(self) -> tuple[int, asyncio.Future[CommandAnswer]]:
        """A number for a new command, and the future of its answer. Errors: BufferFullError."""
        sequence = self._next_sequence
        if sequence - self._acknowledged >= WINDOW and sequence - self.acknowledged >= WINDOW:
            raise BufferFullError(f"{WINDOW} commands of this client already wait for their results: execute it later")
        self._next_sequence = sequence + 1
        future = self.waiters[sequence] = asyncio.get_running_loop().create_future()
        return sequence, future

    def answered(self, sequence: int, answer: CommandAnswer) -> None:
        """This node has applied the command: tell who waits for it."""
        waiter = self.waiters.get(sequence)
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def done(self, sequence: int) -> None:
        """Nobody waits for this command any more: it has its answer, or was given up."""
        del self.waiters[sequence]

    @property
    def acknowledged(self) -> int:
        """The lowest number that somebody waits for."""
        sequence, end, waiters = self._acknowledged, self._next_sequence, self.waiters
        while sequence < end and sequence not in waiters:
            sequence += 1
        self._acknowledged = sequence
        return sequence

    def records(self, attempts: Sequence[Attempt], time_ms: int) -> list[bytes]:
        """The records of these commands for the log."""
        sequences, commands, _, _ = zip(*attempts, strict=True)
        return encode_commands(
            sequences, commands, time_ms=time_ms, session_id=self.session_id, acknowledged=self.acknowledged
        )
