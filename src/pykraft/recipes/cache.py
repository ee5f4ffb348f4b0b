"""A cache on all nodes, of at most so many entries, each for a limited time.

An entry and its place in the order of age have one lease, which nobody keeps. When it ends, or is ended to make room,
both go.

Source: ours.
"""

from pykraft.client.arguments import whole_number
from pykraft.recipes.coordination import namespace
from pykraft.recipes.key_value_commands import Get, Put, StoreOperation, prefix
from pykraft.recipes.key_value_store import KeyValueStore


class Cache:
    """Texts by their keys, the newest ``size`` of them, for ``ttl_ms`` of log time each."""

    def __init__(self, store: KeyValueStore, name: str, *, size: int, ttl_ms: int) -> None:
        """Errors: UsageError."""
        self._store = store
        self._space = namespace("cache", name)
        self._size = whole_number("size", size, least=1)
        self._ttl_ms = ttl_ms

    async def get(self, key: str) -> str | None:
        """What this node has for a key; None if there is nothing. It asks nobody, so it may be out of date."""
        item = await self._store.get(f"{self._space}entry/{key}", stale=True)
        return None if item is None else item.value

    async def put(self, key: str, value: str) -> None:
        """Set an entry, which is then the newest. Errors: those of the store."""
        lease, entry = await self._store.grant_lease(self._ttl_ms), f"{self._space}entry/{key}"
        puts: list[StoreOperation] = [
            Get(entry),
            Put(entry, value, lease),
            Put(f"{self._space}age/", "", lease, numbered=True),
        ]
        for before in (await self._store.transact(puts)).found[0]:
            await self._store.end_lease(before.lease)
        ages = prefix(f"{self._space}age/")
        while await self._store.count(*ages, stale=True) > self._size:
            for oldest in await self._store.range(*ages, limit=1):
                await self._store.end_lease(oldest.lease)

    async def drop(self, key: str) -> None:
        """Forget an entry. Errors: those of the store."""
        before = await self._store.get(f"{self._space}entry/{key}")
        if before is not None:
            await self._store.end_lease(before.lease)
