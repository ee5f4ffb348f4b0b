"""Permits are counted on all nodes together, and come back with the next window."""

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.recipes import KeyValueStore, RateLimiter
from tests.recipes.stores import stores


async def test_a_window_has_so_many_permits_on_all_nodes(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        limiters = [RateLimiter(KeyValueStore(node), "mail", limit=5, window_ms=60_000) for node in nodes]
        allowed = await asyncio.gather(*(limiter.allow() for limiter in limiters * 4))
        assert sum(allowed) == 5
        assert await RateLimiter(KeyValueStore(nodes[0]), "other", limit=1).allow()


async def test_the_next_window_has_permits_again(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        limiter = RateLimiter(KeyValueStore(node), "mail", limit=1, window_ms=1_000)
        assert await limiter.allow()
        [lease] = node.machine._leases
        assert not await limiter.allow()
        while lease in node.machine._leases:
            await KeyValueStore(node).revision()
        assert await limiter.allow()
        with pytest.raises(UsageError, match="limit = 0"):
            RateLimiter(KeyValueStore(node), "mail", limit=0)


async def test_a_window_that_ends_meanwhile_is_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        limiter = RateLimiter(store, "mail", limit=3)
        assert await limiter.allow()
        get = store.get

        async def old(key: str, *, stale: bool) -> object:
            found = await get(key, stale=stale)
            monkeypatch.undo()
            assert found is not None
            await store.end_lease(found.lease)
            return found

        monkeypatch.setattr(store, "get", old)
        assert await limiter.allow()
        item = await store.last("", "")
        assert item is not None
        assert item.value == "1"
