"""Linearizable reads of a state machine: all that wait share one confirmation of the leader.

Invariant: a read begins only when this node has applied everything that was committed when the read arrived. A
confirmation begins after all reads that it serves arrived; a read that may be out of date by a certain age uses the
last confirmation that began within that time.

Source: Raft dissertation §6.4; ours (ADR 069).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from pykraft.client.node import Node
from pykraft.errors import (
    BufferFullError,
    NotLeaderError,
    NotRunningError,
    PykraftError,
    QuorumUnavailableError,
    UnreachableError,
)
from pykraft.machine.applier import Applier
from pykraft.machine.forwarder import Forwarder
from pykraft.server.clock import now
from pykraft.types import Offset

PAUSE_S_MIN: Final = 0.01
PAUSE_S_MAX: Final = 0.25
"""Pauses between two tries of a confirmation; each is twice as long as the one before."""


class MachineReads:
    """The reads of one node."""

    def __init__(self, node: Node[bytes], applier: Applier[Any, Any], forwarder: Forwarder) -> None:
        self._node = node
        self._forwarder = forwarder
        self._applier = applier
        self._waiting: list[asyncio.Future[Offset]] = []
        """MachineReads for the next confirmation."""
        self._serving: list[asyncio.Future[Offset]] = []
        self._task: asyncio.Task[None] | None = None
        self._confirmed: tuple[float, Offset] | None = None
        """When the last confirmation began, and its offset."""
        self._error: Exception | None = None

    async def wait(self, max_age_ms: int, timeout_ms: int) -> None:
        """Wait until this node may be read. Errors: QuorumUnavailableError, NotRunningError, RefusedError."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                offset = self._fresh(max_age_ms)
                if offset is None:
                    offset = await self._join()
                await self._node.wait_applied(self._applier, offset)
        except TimeoutError:
            last = "" if self._error is None else f" (the last try: {self._error})"
            text = f"no leader confirmed within {timeout_ms} ms that this node's state is current{last}"
            raise QuorumUnavailableError(text) from self._error

    async def wait_loaded(self, timeout_ms: int) -> None:
        """Wait while this node loads a snapshot. Errors: QuorumUnavailableError, NotRunningError."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while (offset := self._applier.loading_offset) is not None:
                    await self._node.wait_applied(self._applier, offset)
        except TimeoutError:
            raise QuorumUnavailableError(f"this node has loaded a snapshot for {timeout_ms} ms, and goes on") from None

    async def close(self) -> None:
        """The node has ended: no read begins any more."""
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(NotRunningError("the node has ended"))

    def _fresh(self, max_age_ms: int) -> Offset | None:
        """The offset of the last confirmation, if it is young enough."""
        if self._confirmed is None:
            return None
        begun_s, offset = self._confirmed
        return offset if (asyncio.get_running_loop().time() - begun_s) * 1_000 < max_age_ms else None

    def _join(self) -> asyncio.Future[Offset]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Offset] = loop.create_future()
        self._waiting.append(waiter)
        if self._task is None:
            self._task = loop.create_task(self._confirm(), name="pykraft read index")
        return waiter

    async def _confirm(self) -> None:
        try:
            while self._waiting:
                self._serving, self._waiting = self._waiting, []
                begun_s = asyncio.get_running_loop().time()
                offset = await self._offset()
                if offset is not None:
                    self._confirmed = begun_s, offset
                    for waiter in self._serving:
                        if not waiter.done():
                            waiter.set_result(offset)
        except PykraftError as error:
            for waiter in (*self._serving, *self._waiting):
                if not waiter.done():
                    waiter.set_exception(error)
            self._waiting = []
        except asyncio.CancelledError:
            for waiter in self._serving:
                if not waiter.done():
                    waiter.set_exception(NotRunningError("the node has ended"))
            raise
        finally:
            self._serving = []
            self._task = None

    async def _offset(self) -> Offset | None:
        """The confirmed offset; None when nobody waits for it any more. Errors: NotRunningError."""
        pause_s = PAUSE_S_MIN
        while not all(waiter.done() for waiter in self._serving):
            try:
                offset = await self._ask()
            except (NotLeaderError, BufferFullError, UnreachableError) as error:
                self._error = error
            else:
                self._error = None
                return offset
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)
        return None

    async def _ask(self) -> Offset:
        """Ask the leader, which may be this node. Errors: see `pykraft.machine.forwarder.ForwardConnection.ask`."""
        if self._forwarder.is_needed:
            return await self._forwarder.read_index()
        return await self._node.ask(lambda host, answer: host.read_index(now(), answer))
