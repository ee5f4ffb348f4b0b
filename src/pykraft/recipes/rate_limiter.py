"""A limit for how often something may be done, on all nodes together: a count under a lease that nobody keeps.

When the lease ends the count goes with it, and a new window begins with the next call. So there are never more than
``limit`` permits in one window, and at most twice as many in any time of that length.

Source: ours; a fixed window, as in Redis's pattern with INCR and EXPIRE.
"""

import asyncio

from pykraft.client.arguments import whole_number
from pykraft.errors import CommandRejectedError
from pykraft.recipes.coordination import namespace
from pykraft.recipes.key_value_commands import Condition, Put
from pykraft.recipes.key_value_store import KeyValueStore


class RateLimiter:
    """At most ``limit`` permits in ``window_ms`` of log time."""

    def __init__(self, store: KeyValueStore, name: str, *, limit: int, window_ms: int = 60_000) -> None:
        """Errors: UsageError."""
        self._store = store
        self._key = namespace("limit", name) + "used"
        self._limit = whole_number("limit", limit, least=1)
        self._window_ms = window_ms
        self._turn = asyncio.Lock()
        """One caller of this object at a time: they would only be in each other's way."""

    async def allow(self) -> bool:
        """Take a permit; False if there is none left in this window. Errors: those of the store."""
        async with self._turn:
            while True:
                item = await self._store.get(self._key, stale=True)  # the transaction looks again
                if item is not None and int(item.value) >= self._limit:
                    return False
                try:
                    lease = await self._store.grant_lease(self._window_ms) if item is None else item.lease
                    used, modified = (0, 0) if item is None else (int(item.value), item.modified)
                    same = [Condition(self._key, "modified", "==", modified)]
                    if (await self._store.transact([Put(self._key, str(used + 1), lease)], same)).succeeded:
                        return True
                except CommandRejectedError:
                    continue  # the window has ended
