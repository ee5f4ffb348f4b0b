"""Brings commands into the log, with retries, until their answer is known or their time is over.

Invariant: ``copies`` counts the copies of a record that are or may be in the log. Only an error that says that a copy
certainly is not takes it off again. So when the time is over, a command without copies was certainly not applied.

1. The node opens a session with the first command, and a new one when the log says that it has ended.
2. Each command gets a number in the session, and all its copies have that number.
3. A copy is sent to the leader. When it may be in the log, the answer comes from this node's own replica, as soon as it
   applies the command.
4. If no answer came, another copy follows after a pause: to another leader, perhaps.

Source: Raft dissertation §6.3; ours (ADR 068).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pykraft.client.node import Node
from pykraft.errors import (
    BufferFullError,
    NotAppliedError,
    NotLeaderError,
    NotRunningError,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
)
from pykraft.machine.applier import Applier
from pykraft.machine.client_session import ClientSession
from pykraft.machine.forwarder import Forwarder
from pykraft.machine.records import NONCE_SIZE_BYTES, OpenRecord, encode_log_record
from pykraft.machine.replica import CommandAnswer, CommandVerdict

C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")
PAUSE_S_MIN: Final = 0.01
PAUSE_S_MAX: Final = 0.25
"""Pauses between two copies of a record; each is twice as long as the one before."""


class Submission(Generic[C, R]):
    """The commands of one node."""

    def __init__(
        self,
        node: Node[bytes],
        applier: Applier[C, R],
        forwarder: Forwarder,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._node = node
        self._forwarder = forwarder
        self._random_bytes = random_bytes
        self._applier = applier
        self._session: ClientSession | None = None
        self._opening: asyncio.Task[ClientSession] | None = None

    async def execute(self, command: bytes, timeout_ms: int) -> CommandAnswer:
        """Bring this command into the log and wait for its answer.

        Errors: NotAppliedError, BufferFullError, NotRunningError, OutcomeUnknownError.
        """
        attempt = _Attempt()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while True:
                    attempt.copies = 0
                    # 1. The first command opens a session, and so does the first after its end.
                    session = self._session or await self._opened()
                    answer = await self._execute(session, command, attempt)
                    if answer.verdict is not CommandVerdict.REFUSED:
                        return answer
                    # The session has ended, or another client's copy of us filled it: use it no more.
                    self._leave(session)
                    if attempt.copies > 1:
                        text = f"{answer.value.decode()}; an earlier copy of the command may have been applied"
                        raise OutcomeUnknownError(text)
        except TimeoutError:
            raise attempt.late(f"no answer within {timeout_ms} ms") from attempt.error
        except (NotRunningError, RefusedError) as error:
            if attempt.copies or isinstance(error, RefusedError):
                raise attempt.late(str(error)) from error
            raise

    def ended(self) -> None:
        """The node has ended: nobody gets an answer any more."""
        error = NotRunningError("the node has ended")
        waiters: list[asyncio.Future[Any]] = [*self._applier.openings.values()]
        for session in self._applier.sessions.values():
            waiters += session.waiters.values()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()  # its caller may have heard of the end from the node already

    async def _execute(self, session: ClientSession, command: bytes, attempt: _Attempt) -> CommandAnswer:
        # 2. All copies have this number.
        sequence, future = session.issue()
        try:
            return await self._send_until(
                future, lambda: session.record(sequence, command, self._applier.time_ms()), attempt
            )
        finally:
            session.done(sequence)
            if session is not self._session:
                self._leave(session)

    def _leave(self, session: ClientSession) -> None:
        """Use this session no more, and forget it when nobody waits in it."""
        if self._session is session:
            self._session = None
        if not session.waiters:
            self._applier.sessions.pop(session.session_id, None)

    async def _opened(self) -> ClientSession:
        """Open a session, or wait for the one that another caller opens."""
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._open(), name="pykraft session")
            self._opening.add_done_callback(self._opening_ended)
        return await asyncio.shield(self._opening)

    def _opening_ended(self, opening: asyncio.Task[ClientSession]) -> None:
        self._opening = None
        if not opening.cancelled():
            opening.exception()  # its callers got it, unless their time was over

    async def _open(self) -> ClientSession:
        nonce = self._random_bytes(NONCE_SIZE_BYTES)
        future: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._applier.openings[nonce] = future
        try:
            session_id = await self._send_until(
                future, lambda: encode_log_record(OpenRecord(self._applier.time_ms(), nonce)), _Attempt()
            )
        finally:
            del self._applier.openings[nonce]
        if session_id is None:
            raise BufferFullError("there are too many open sessions: execute it later")
        self._session = self._applier.sessions[session_id] = ClientSession(session_id)
        return self._session

    async def _send_until(self, future: asyncio.Future[T], record: Callable[[], bytes], attempt: _Attempt) -> T:
        """Send copies of a record to the leader until the future has its answer."""
        pause_s = PAUSE_S_MIN
        while not future.done():
            attempt.copies += 1
            try:
                await self._send(record())
            except (NotLeaderError, BufferFullError, UnreachableError) as error:
                attempt.copies -= 1
                attempt.error = error
            except (NotRunningError, RefusedError):
                attempt.copies -= 1
                raise
            except OutcomeUnknownError as error:
                attempt.error = error
            else:
                # 3. It is committed, so this node's replica will have its answer.
                return await asyncio.shield(future)
            # 4. An earlier copy may bring the answer meanwhile.
            await asyncio.wait([future], timeout=pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)
        return future.result()

    async def _send(self, record: bytes) -> None:
        """Append one record, here or at the leader; returns when it is committed.

        Errors: see `pykraft.client.Node.propose` and `pykraft.machine.forwarder.ForwardConnection.ask`.
        """
        if self._forwarder.is_needed:
            await self._forwarder.append(record)
        else:
            await self._node.propose([record])


class _Attempt:
    """What is known of one command: how many copies may be in the log, and the last error."""

    def __init__(self) -> None:
        self.copies = 0
        self.error: Exception | None = None

    def late(self, reason: str) -> Exception:
        """The error for a caller who waits no longer."""
        last = "" if self.error is None else f" (the last try: {self.error})"
        if self.copies:
            return OutcomeUnknownError(f"{reason}{last}: the command may be applied, or not")
        return NotAppliedError(f"{reason}{last}: the command was not applied, and will not be")
