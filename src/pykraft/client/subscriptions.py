"""All listeners of one node: each registered once, started together with the node, ended with it.

Invariant: an object is registered at most once at a time, by identity. If it is registered again, it is not called
before the last call of its former registration is done.

Source: Kafka's ``KafkaRaftClient.register`` and ``unregister``.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from pykraft.client.arguments import whole_number
from pykraft.client.listener import SAVE_SNAPSHOT, Listener, check_listener, has_method
from pykraft.client.serde import Serde
from pykraft.client.subscription import ListenerCall, Owner, Subscription, open_calls
from pykraft.errors import UsageError
from pykraft.host.host import Host
from pykraft.types import Offset

T = TypeVar("T")
CANCEL_TIMEOUT_S: Final = 1.0
"""How long a cancelled listener may take to end."""

logger = logging.getLogger("pykraft")


class Subscriptions(Generic[T]):
    """Called on the application's loop, except `attach`."""

    def __init__(self, owner: Owner, serde: Serde[T]) -> None:
        self._owner = owner
        self._serde = serde
        self._current: dict[int, Subscription[T]] = {}
        self._former: dict[int, asyncio.Task[None]] = {}
        self._beginning: set[Subscription[T]] = set()
        self._is_begun = False
        self._waiting: list[ListenerCall] = []
        """Calls that wait for the end of the node."""
        self._changed = asyncio.Event()

    def add(self, listener: Listener[T], from_offset: int | None, *, log_start_offset: Offset | None = None) -> None:
        """Register; calls begin now, or with the node. Errors: UsageError, also for an offset below the log start."""
        check_listener(listener)
        if id(listener) in self._current:
            raise UsageError(f"{listener!r} is already registered")
        if has_method(listener, SAVE_SNAPSHOT):
            # A node writes one snapshot for each offset, so only one listener can provide the state.
            for other in self._current.values():
                if has_method(other.listener, SAVE_SNAPSHOT):
                    raise UsageError(f"{other.listener!r} already saves this node's state: unregister it first")
        if from_offset is not None:
            whole_number("from_offset", from_offset, least=0)
        subscription = Subscription(
            self._owner,
            listener,
            self._serde,
            from_offset=None if from_offset is None else Offset(from_offset),
            after=self._former.get(id(listener)),
        )
        if log_start_offset is not None:
            subscription.check_offset(log_start_offset)
        self._current[id(listener)] = subscription
        if self._is_begun:
            subscription.start()
            self._owner.call_host(subscription.attach)

    def remove(self, listener: object) -> None:
        """Unregister; no further call begins. Errors: UsageError when it is not registered."""
        subscription = self._current.pop(id(listener), None)
        if subscription is None:
            raise UsageError(f"{listener!r} is not registered")
        subscription.end(drop=True)
        self._changed.set()
        if self._is_begun:
            self._owner.call_host(subscription.detach)
        task = subscription.task
        if task is not None and not task.done():
            # If the listener is registered again, its first call must wait for this one.
            self._former[id(listener)] = task
            task.add_done_callback(lambda done: self._forget(id(listener), done))

    def begin(self) -> None:
        """The node is about to start; listeners that come or go from now on wait until `start`."""
        self._beginning = {*self._current.values()}

    def attach(self, host: Host) -> None:
        """On the node's side, before its first step: attach all listeners. Errors: UsageError for an offset."""
        for subscription in self._beginning:
            subscription.attach(host)

    def start(self) -> None:
        """The node has started: calls may begin."""
        self._is_begun = True
        current = {*self._current.values()}
        for subscription in current:
            subscription.start()
        # These came or went while the node was starting.
        for late in current - self._beginning:
            self._owner.call_host(late.attach)
        for gone in self._beginning - current:
            self._owner.call_host(gone.detach)

    def begin_shutdown(self) -> None:
        """Tell all listeners that the node begins to shut down."""
        for subscription in self._current.values():
            subscription.begin_shutdown()

    def end(self) -> None:
        """Begin no further calls, except for deliveries that have arrived."""
        for subscription in self._current.values():
            subscription.end()

    @contextmanager
    def calls_that_wait(self) -> Iterator[None]:
        """During the block, the listener calls that this code runs in wait for the end of the node."""
        calls = open_calls()
        self._waiting += calls
        self._changed.set()
        try:
            yield
        finally:
            for call in calls:
                self._waiting.remove(call)

    async def applied(self, listener: object, end_offset: int) -> bool:
        """Wait until this listener has handled everything below; False when it is no longer called.

        Errors: UsageError when it is not registered, or unregistered meanwhile.
        """
        subscription = self._current.get(id(listener))
        if subscription is None:
            raise UsageError(f"{listener!r} is not registered")
        has_applied = await subscription.wait_applied(Offset(end_offset))
        if not has_applied and self._current.get(id(listener)) is not subscription:
            raise UsageError(f"{listener!r} was unregistered before it was given everything below {end_offset}")
        return has_applied

    async def done(self, timeout_s: float) -> None:
        """Wait until all calls are done; cancel those that take longer, and give them a moment to end.

        A call that waits for the end of its node is neither awaited nor cancelled.
        """
        late = await self._wait(timeout_s)
        for task in late:
            task.cancel()
        if late:
            for task in await self._wait(CANCEL_TIMEOUT_S):
                logger.error("%s was cancelled but still runs: the node has ended without it", task.get_name())

    async def _wait(self, timeout_s: float) -> set[asyncio.Task[None]]:
        """Wait until no call runs except those that wait themselves; returns the ones that took too long."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        is_over = False
        while (running := self._running()) and not is_over:
            self._changed.clear()
            changed = loop.create_task(self._changed.wait())
            left_s = end_s - loop.time()
            await asyncio.wait({*running, changed}, timeout=max(0, left_s), return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            is_over = left_s <= 0
        return running

    def _running(self) -> set[asyncio.Task[None]]:
        tasks = {one.task for one in self._current.values() if one.task is not None} | {*self._former.values()}
        # A call that waits for the end of its node would wait for itself, so it counts as done.
        return {task for task in tasks - {call.owner.task for call in self._waiting} if not task.done()}

    def _forget(self, key: int, done: asyncio.Task[None]) -> None:
        if self._former.get(key) is done:
            del self._former[key]
