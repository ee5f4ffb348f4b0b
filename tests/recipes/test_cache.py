"""A cache keeps its newest entries, each for its time."""

from pathlib import Path

from pykraft.recipes import Cache, KeyValueStore
from tests.recipes.stores import stores


async def test_the_newest_entries_stay_for_their_time(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        cache = Cache(store, "pages", size=2, ttl_ms=60_000)
        for key in ("a", "b", "a", "c"):
            await cache.put(key, key.upper())
        assert [await cache.get(key) for key in "abcd"] == ["A", None, "C", None]
        await cache.drop("a")
        await cache.drop("a")
        assert await cache.get("a") is None
        assert len(await store.range("", "")) == 2
        assert len(node.machine._leases) == 1
        await Cache(store, "other", size=2, ttl_ms=1_000).put("a", "x")
        while len(node.machine._leases) > 1:
            await store.revision()
        assert await Cache(store, "other", size=2, ttl_ms=1_000).get("a") is None
