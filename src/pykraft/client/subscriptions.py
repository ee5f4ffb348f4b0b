"""All listeners of one node: registered once each, begun together with the node, ended with it.

Invariant: an object is registered at most once at a time, and known by its identity; one that is registered anew is
not called before a call that began under its former registration is done. It refuses to know what listeners are told.

Source: Kafka's ``KafkaRaftClient.register`` and ``unregister``.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from pykraft.client.arguments import whole_number
from pykraft.client.listener import SAVE_SNAPSHOT, Listener, check_listener, has_method
from pykraft.client.serde import Serde
from pykraft.client.subscription import Owner, Subscription
from pykraft.errors import UsageError
from pykraft.host.host import Host
from pykraft.types import Offset

T = TypeVar("T")


class Subscriptions(Generic[T]):
    """Called on the application's loop, but for `attach`."""

    def __init__(self, owner: Owner, serde: Serde[T]) -> None:
        self._owner = owner
        self._serde = serde
        self._current: dict[int, Subscription[T]] = {}
        self._former: dict[int, asyncio.Task[None]] = {}
        self._beginning: set[Subscription[T]] = set()
        self._is_begun = False

    def add(self, listener: Listener[T], from_offset: int | None) -> None:
        """Register; calls begin now, or with the node. Errors: UsageError."""
        check_listener(listener)
        if id(listener) in self._current:
            raise UsageError(f"{listener!r} is registered already")
        if has_method(listener, SAVE_SNAPSHOT):
            for other in self._current.values():
                if has_method(other.listener, SAVE_SNAPSHOT):
                    raise UsageError(f"{other.listener!r} saves the state of this node already, and {listener!r} would")
        if from_offset is not None:
            whole_number("from_offset", from_offset, least=0)
        subscription = Subscription(
            self._owner,
            listener,
            self._serde,
            from_offset=None if from_offset is None else Offset(from_offset),
            after=self._former.get(id(listener)),
        )
        self._current[id(listener)] = subscription
        if self._is_begun:
            subscription.start()
            self._owner.call_host(subscription.attach)

    def remove(self, listener: object) -> None:
        """Unregister; no call begins any more. Errors: UsageError when it is not registered."""
        subscription = self._current.pop(id(listener), None)
        if subscription is None:
            raise UsageError(f"{listener!r} is not registered")
        subscription.end(drop=True)
        if self._is_begun:
            self._owner.call_host(subscription.detach)
        task = subscription.task
        if task is not None and not task.done():
            self._former[id(listener)] = task
            task.add_done_callback(lambda done: self._forget(id(listener), done))

    def begin(self) -> None:
        """The node is about to begin; who comes or goes from now on waits until `start`."""
        self._beginning = {*self._current.values()}

    def attach(self, host: Host) -> None:
        """On the node's side, before its first step: begin with all. Errors: UsageError for an offset."""
        for subscription in self._beginning:
            subscription.attach(host)

    def start(self) -> None:
        """The node has begun: calls may be made from now on."""
        self._is_begun = True
        current = {*self._current.values()}
        for subscription in current:
            subscription.start()
        for late in current - self._beginning:
            self._owner.call_host(late.attach)
        for gone in self._beginning - current:
            self._owner.call_host(gone.detach)

    def begin_shutdown(self) -> None:
        """Tell all that the node begins to leave."""
        for subscription in self._current.values():
            subscription.begin_shutdown()

    def end(self) -> None:
        """Begin no call any more, but for what has arrived."""
        for subscription in self._current.values():
            subscription.end()

    async def done(self, timeout_s: float) -> None:
        """Wait until all calls are done; those that take longer are cancelled.

        A listener that waits for the end of its node within a call of its own is not waited for.
        """
        running = {one.task for one in self._current.values() if one.task is not None} | {*self._former.values()}
        running -= {asyncio.current_task()}
        if not running:
            return
        _, late = await asyncio.wait(running, timeout=timeout_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    def _forget(self, key: int, done: asyncio.Task[None]) -> None:
        if self._former.get(key) is done:
            del self._former[key]
