"""The life of an embedded node, from bound sockets to its end, and the calls that wait for an answer meanwhile.

Invariant: each call gets exactly one answer, from the host or from the end of the node; a life runs once. Everything is
called on the application's loop.

Source: Kafka's ``KafkaRaftClient.initialize``, ``shutdown`` and ``close``.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from pykraft.client.configure import voter_set, with_ports, with_voters
from pykraft.client.engine import Engine
from pykraft.client.thread import NodeLoops
from pykraft.config import NodeConfig
from pykraft.errors import ConfigError, NotRunningError, OutcomeUnknownError, UsageError
from pykraft.host.host import Host
from pykraft.server.binding import listening_sockets, not_bound, port_of
from pykraft.types import VoterSet

R = TypeVar("R")
OnAnswer: TypeAlias = Callable[[R | BaseException], None]
"""Answers a waiting call, from the node's loop; an exception is raised there. Only the first answer counts."""

logger = logging.getLogger("pykraft")


class HostAccess(Protocol):
    """Passes calls on to the host: a `Life`, or the node that owns it."""

    async def ask(self, act: Callable[[Host, OnAnswer[R]], object], *, doubt: str | None = None) -> R: ...


class Life:
    """The life of one node: `begin` starts it, its ``over`` callback reports the end."""

    def __init__(self, config: NodeConfig, loops: NodeLoops, *, is_guest: bool) -> None:
        self.config = config
        self.engine = Engine()
        self._has_sockets = True
        self.loops = loops
        self.failure: BaseException | None = None
        """The error that ended the node; None if the application stopped it."""
        self.is_begun = False
        self.is_over = False
        self._is_stopped = False
        self._is_guest = is_guest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sockets: dict[str, list[socket.socket]] = {}
        self._task: asyncio.Task[None] | None = None
        self.before_calls: Callable[[], None] = lambda: None
        """Passes on the proposals that still gather; `ask` calls it first, so that calls reach the host in order."""
        self.waiting: dict[object, Callable[[], None]] = {}
        """Waiting calls, and what tells each of them that the node has ended."""

    def run_by(self, engine: Engine) -> None:
        """Before `bind`: this engine runs the node, and has a network of its own."""
        self.engine, self._has_sockets = engine, False

    def bind(self) -> None:
        """Listen on all listeners that have no socket yet; connections wait until `begin`.

        Errors: ConfigError for an address that cannot be bound; NotRunningError after the end.
        """
        if self.is_over:
            raise NotRunningError("the node has ended: make a new Node")
        if self._task is not None or self._sockets or not self._has_sockets:
            return
        for name, endpoint in self.config.listeners:
            try:
                self._sockets[name] = listening_sockets(endpoint)
            except OSError as error:
                self._unbind()
                raise not_bound("listeners", f"{name}://{endpoint}", error) from error
        self.config = with_ports(self.config, {name: port_of(sockets) for name, sockets in self._sockets.items()})

    async def begin(
        self, voters: VoterSet | Mapping[int, str] | None, *, attach: Callable[[Host], None], over: Callable[[], None]
    ) -> None:
        """Open, recover, ``attach`` and serve; ``over`` is called at the end, if this call succeeded.

        Errors: UsageError the second time; ConfigError; errors of opening the directory.
        """
        if self._task is not None:
            raise UsageError("a node is initialized once: make a new Node to start again")
        self.bind()
        try:
            if voters is not None and not isinstance(voters, VoterSet):
                voters = voter_set(voters)
            self.config = with_voters(self.config, voters)
        except ConfigError:
            self._unbind()
            raise
        self._loop = loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._live(attach, partial(_settle, begun)), name="pykraft node")
        try:
            await asyncio.wait([self._task, begun], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self.failure is not None:
            raise self.failure
        if self._is_stopped or self._task.done():
            raise NotRunningError("the node was closed while it was being initialized")
        self.is_begun = True
        self._task.add_done_callback(lambda _: over())

    async def ask(self, act: Callable[[Host, OnAnswer[R]], object], *, doubt: str | None = None) -> R:
        """Call the host on its loop, and wait until ``act`` answers. Cancelling the wait does not cancel the call.

        ``doubt`` is for a call that may take effect although the node ended before it answered: it describes that
        effect.

        Errors: the exception that it answers; UsageError from the host; NotRunningError; with ``doubt``
        OutcomeUnknownError, if the host got the call and the node ended before it answered.
        """
        loop = self.require_loop()
        self.before_calls()
        future: asyncio.Future[R] = loop.create_future()
        to_application = self.loops.to_application
        is_begun = False

        def call(host: Host) -> None:
            nonlocal is_begun
            is_begun = True
            act(host, answer)

        def answer(result: R | BaseException) -> None:
            to_application(_settle, future, result)

        # Only a call that reached the host can be in doubt; any other certainly had no effect.
        self.waiting[future] = lambda: _settle(
            future, self.in_doubt(doubt) if is_begun and doubt is not None else self.ended_error()
        )
        self.loops.to_node(self.engine.call, call, answer)
        try:
            return await future
        finally:
            del self.waiting[future]

    def require_running(self) -> None:
        """Check that the node runs. Errors: NotRunningError before it is initialized, and after its end."""
        if self.is_over:
            raise self.ended_error()
        if not self.is_begun:
            raise NotRunningError("the node is not initialized yet: `async with node:` or `await node.initialize()`")

    def require_loop(self) -> asyncio.AbstractEventLoop:
        """The application's loop, if this is a call on it of a node that runs. Errors: NotRunningError; UsageError."""
        self.require_running()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise UsageError("call a node on the loop that initialized it; asyncio.run_coroutine_threadsafe goes there")
        return loop

    async def ended(self) -> NotRunningError:
        """Wait until the node has ended; returns the error for a call that came too late."""
        await self.wait_over()
        return self.ended_error()

    async def wait_over(self) -> None:
        """Wait until the node has ended, for any reason."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """End the node now; before `begin`, release the ports."""
        self._is_stopped = True
        if self._task is None:
            self.is_over = True
            self._unbind()
        elif self.is_begun:
            self.loops.to_node(self.engine.stop)
        else:
            self._task.cancel()

    async def _live(self, attach: Callable[[Host], None], begun: Callable[[object], None]) -> None:
        sockets = dict(self._sockets)
        try:
            await self.loops.run(
                lambda: self.engine.run(
                    self.config,
                    sockets=sockets,
                    is_guest=self._is_guest,
                    begin=attach,
                    begun=lambda: self.loops.to_application(begun, None),
                ),
                self.engine.stop,
            )
        except Exception as error:
            self.failure = error
            if self.is_begun:
                logger.error("the node has ended: %s", error, exc_info=error)  # noqa: TRY400 - not where it was raised
        finally:
            self._unbind()
            self.is_over = True
            # Whatever ended the node, each waiting call gets its one answer.
            for wake in list(self.waiting.values()):
                wake()

    def ended_error(self) -> NotRunningError:
        """The error for a call after the end."""
        ended = NotRunningError("the node has ended" if self.failure is None else f"the node failed: {self.failure}")
        ended.__cause__ = self.failure
        return ended

    def in_doubt(self, doubt: str) -> OutcomeUnknownError:
        """The error for a call that reached the host but got no answer."""
        unknown = OutcomeUnknownError(f"the node ended before it answered: {doubt}")
        unknown.__cause__ = self.failure
        return unknown

    def _unbind(self) -> None:
        for sockets in self._sockets.values():
            for each in sockets:
                each.close()
        self._sockets.clear()


def _settle(future: asyncio.Future[Any], result: object) -> None:
    """Answer, unless the call is answered already or cancelled."""
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
