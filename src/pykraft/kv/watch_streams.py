"""The watches of one node's clients: each is an answer of JSON lines without an end.

A watch has no queue: it reads the store's changes as fast as its client reads the answer. A client that is slower than
the changes loses nothing until they are compacted, and then its last line says so; one that reads nothing at all is
disconnected (`pykraft.kv.exchange`). Invariant: a watch either delivers every change from its revision on, each once
and in order, or its answer ends: with a last line that has the error, or without a last chunk.

Source: ours (ADR 085).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

from pykraft.errors import BufferFullError, CompactedError, NotRunningError, UsageError
from pykraft.kv.exchange import Exchange
from pykraft.kv.json_answers import change_json
from pykraft.machine import Replicated
from pykraft.recipes import KeyChange, KeyValues, KeyValueStore

WATCHES_MAX: Final = 250
"""Half of the connections, so that other requests find a place."""
SIGN_OF_LIFE_S: Final = 5.0
"""After this time without a change there is an empty line, so that both sides notice when the other is gone."""


class WatchStreams:
    """The open watches of a node."""

    def __init__(self, node: Replicated[KeyValues]) -> None:
        self._node = node
        self._store = KeyValueStore(node)
        self._count = 0
        self._closing = asyncio.Event()

    def close(self) -> None:
        """The node ends: end each watch with a last line."""
        self._closing.set()

    async def run(self, exchange: Exchange, key: str, end: str | None, from_revision: int | None) -> None:
        """Answer with the changes of a range, from a revision on, or from the next change on.

        Errors: CompactedError, UsageError, BufferFullError, NotRunningError and those of a read: the first line was not
        sent, or what was sent is all until the error.
        """
        if self._count >= WATCHES_MAX:
            raise BufferFullError(f"this node has {WATCHES_MAX} watches: end one, or ask another node")
        self._count += 1
        try:
            async with self._node.read() as state:
                last, oldest = state.space.revision, state.space.oldest_revision
            begin = last + 1 if from_revision is None else from_revision
            if begin > last + 1:
                raise UsageError(f"from_revision = {begin}: the last change has revision {last}")
            if begin < oldest:
                raise CompactedError(begin, oldest)
            changes = self._store.watch(key, end, from_revision=begin)
            await exchange.begin_lines()
            await exchange.line({"from_revision": begin})
            await self._deliver(exchange, changes)
        finally:
            self._count -= 1

    async def _deliver(self, exchange: Exchange, changes: AsyncGenerator[KeyChange, None]) -> None:
        gone = asyncio.ensure_future(exchange.gone())
        closing = asyncio.ensure_future(self._closing.wait())
        upcoming: asyncio.Future[KeyChange] | None = None
        try:
            while not gone.done():
                if closing.done():
                    raise NotRunningError("this node is shutting down: watch from the next revision at another one")
                if upcoming is None:
                    upcoming = asyncio.ensure_future(anext(changes))
                waiting: set[asyncio.Future[Any]] = {upcoming, gone, closing}
                await asyncio.wait(waiting, timeout=SIGN_OF_LIFE_S, return_when=asyncio.FIRST_COMPLETED)
                if upcoming.done():
                    change, upcoming = upcoming.result(), None
                    await exchange.line(change_json(change))
                elif not (gone.done() or closing.done()):
                    await exchange.line({})
        finally:
            ending = [one for one in (gone, closing, upcoming) if one is not None and not one.done()]
            for one in ending:
                one.cancel()
            if ending:
                await asyncio.wait(ending)
            await changes.aclose()
