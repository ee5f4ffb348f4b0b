"""The life of an embedded node, from bound sockets to its end, and the calls that wait for an answer meanwhile.

Owns the sockets until the driver has them, the task that the node lives in, and every waiting call. Invariant: a call
is answered exactly once: by the host, or by the end of the node; a life is lived once. Everything is called on the
application's loop. It refuses to know records and listeners.

Source: Kafka's ``KafkaRaftClient.initialize``, ``shutdown`` and ``close``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from pykraft.client.configure import voter_set, with_ports, with_voters
from pykraft.client.engine import Engine
from pykraft.client.thread import Place
from pykraft.config import NodeConfig
from pykraft.errors import ConfigError, NotRunningError, OutcomeUnknownError, PykraftError, UsageError
from pykraft.host.host import Host
from pykraft.server.binding import listening_sockets, port_of
from pykraft.types import VoterSet

R = TypeVar("R")
Answer: TypeAlias = Callable[[R | BaseException], None]
"""Answers a waiting call, from the node's loop; an exception is raised. After the first answer others are dropped."""

logger = logging.getLogger("pykraft")


class Asked(Protocol):
    """Whoever passes a call on to the host: a `Life`, and the node that has it."""

    async def ask(self, act: Callable[[Host, Answer[R]], object], *, doubt: str | None = None) -> R:
        """See `Life.ask`."""
        ...


class Life:
    """One node's; `begin` comes first, `over` is the end."""

    def __init__(self, config: NodeConfig, place: Place, *, is_guest: bool) -> None:
        self.config = config
        self.engine = Engine()
        self.place = place
        self.failure: BaseException | None = None
        """What ended the node, if it was not asked to end."""
        self.is_begun = False
        self.is_over = False
        self._is_stopped = False
        self._is_guest = is_guest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sockets: dict[str, list[socket.socket]] = {}
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Future[Any], Callable[[], PykraftError]] = {}
        """Waiting calls, and the error of each if the node ends now."""

    def bind(self) -> None:
        """Listen on all listeners that have no socket yet; nobody is served before `begin`.

        Errors: ConfigError for an address that cannot be bound; NotRunningError after the end.
        """
        if self.is_over:
            raise NotRunningError("the node has ended: make a new Node")
        if self._task is not None or self._sockets:
            return
        for name, endpoint in self.config.listeners:
            try:
                self._sockets[name] = listening_sockets(endpoint)
            except OSError as error:
                self._unbind()
                raise ConfigError("listeners", f"{name}://{endpoint}", f"cannot be bound: {error}") from error
        self.config = with_ports(self.config, {name: port_of(sockets) for name, sockets in self._sockets.items()})

    async def begin(
        self, voters: VoterSet | Mapping[int, str] | None, *, attach: Callable[[Host], None], over: Callable[[], None]
    ) -> None:
        """Open, recover, ``attach``, serve; ``over`` is called at the end, if this returned.

        Errors: UsageError the second time; ConfigError; what opening the directory raises.
        """
        if self._task is not None:
            raise UsageError("a node is initialized once: make a new Node to begin again")
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

    async def ask(self, act: Callable[[Host, Answer[R]], object], *, doubt: str | None = None) -> R:
        """Call the host on its loop, and wait until ``act`` answers. When this is cancelled the call goes on.

        ``doubt`` is for what may be done although the node ended before it answered: it says so in words.

        Errors: whatever it answers; UsageError that the host raises; NotRunningError; with ``doubt``
        OutcomeUnknownError, if the host got the call and the node ended before it answered.
        """
        self.require_running()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise UsageError("call a node on the loop that initialized it; asyncio.run_coroutine_threadsafe goes there")
        future: asyncio.Future[R] = loop.create_future()
        to_application = self.place.to_application
        is_begun = False

        def call(host: Host) -> None:
            nonlocal is_begun
            is_begun = True
            act(host, answer)

        def answer(result: R | BaseException) -> None:
            to_application(_settle, future, result)

        self._waiting[future] = lambda: self._in_doubt(doubt) if is_begun and doubt is not None else self._ended()
        self.place.to_node(self.engine.call, call, answer)
        try:
            return await future
        finally:
            del self._waiting[future]

    def require_running(self) -> None:
        """Errors: NotRunningError before the node is initialized, and after its end."""
        if self.is_over:
            raise self._ended()
        if not self.is_begun:
            raise NotRunningError("the node is not initialized yet: `async with node:` or `await node.initialize()`")

    async def ended(self) -> NotRunningError:
        """Wait until the node has ended; the error of whoever wanted more of it."""
        await self.wait_over()
        return self._ended()

    async def wait_over(self) -> None:
        """Wait until the node has ended, in whatever way."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """End now; before the begin, give the ports back."""
        self._is_stopped = True
        if self._task is None:
            self.is_over = True
            self._unbind()
        elif self.is_begun:
            self.place.to_node(self.engine.stop)
        else:
            self._task.cancel()

    async def _live(self, attach: Callable[[Host], None], begun: Callable[[object], None]) -> None:
        sockets = dict(self._sockets)
        try:
            await self.place.run(
                lambda: self.engine.run(
                    self.config,
                    sockets=sockets,
                    is_guest=self._is_guest,
                    begin=attach,
                    begun=lambda: self.place.to_application(begun, None),
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
            for future, error_of_call in self._waiting.items():
                _settle(future, error_of_call())

    def _ended(self) -> NotRunningError:
        """The error of calls that come too late."""
        ended = NotRunningError("the node has ended" if self.failure is None else f"the node failed: {self.failure}")
        ended.__cause__ = self.failure
        return ended

    def _in_doubt(self, doubt: str) -> OutcomeUnknownError:
        """The error of calls that the host got and did not answer."""
        unknown = OutcomeUnknownError(f"the node ended before it answered: {doubt}")
        unknown.__cause__ = self.failure
        return unknown

    def _unbind(self) -> None:
        for sockets in self._sockets.values():
            for each in sockets:
                each.close()
        self._sockets.clear()


def _settle(future: asyncio.Future[Any], result: object) -> None:
    """Answer, unless it was answered or nobody waits any more."""
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)
