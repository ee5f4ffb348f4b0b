"""Elections on three nodes: one leader, everybody hears who, and another one when it dies."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import CompactedError, LeaseLostError
from pykraft.recipes import KeyValueStore, leader_of, leaders, leadership
from tests.client.nodes import run
from tests.recipes.stores import led, stores


def test_candidates_lead_in_turn_and_everybody_hears(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            first, second, watcher = map(KeyValueStore, nodes)
            seen = leaders(watcher, "job")
            assert await anext(seen) is None
            terms = []
            async with leadership(first, "job", "first") as held:
                terms.append(held.token)
                assert await anext(seen) == "first"
                assert await leader_of(second, "job") == "first"
                other = leadership(second, "job", "second")
                waiting = asyncio.ensure_future(other.__aenter__())
                while len(await watcher.range("job/", "")) < 2:
                    pass
            terms.append((await waiting).token)
            assert await anext(seen) == "second"
            assert terms[0] < terms[1]
            await other.__aexit__(None, None, None)
            assert await anext(seen) is None
            await seen.aclose()

    run(main)


def test_the_death_of_the_leader_elects_another_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            leader, follower = await led(nodes)
            is_held = asyncio.Event()

            async def lead() -> None:
                async with leadership(leader, "job", "first", ttl_ms=1_000):
                    is_held.set()
                    await asyncio.Event().wait()

            first = asyncio.ensure_future(lead())
            await is_held.wait()
            seen = leaders(follower, "job")
            assert await anext(seen) == "first"
            other = leadership(follower, "job", "second")
            waiting = asyncio.ensure_future(other.__aenter__())
            await leader._node.close()
            await waiting
            while (name := await anext(seen)) != "second":
                assert name is None
            with pytest.raises(LeaseLostError):
                await first
            await other.__aexit__(None, None, None)
            await seen.aclose()

    run(main)


def test_a_watch_that_comes_too_late_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store = KeyValueStore(node)
            seen = leaders(store, "job")
            assert await anext(seen) is None
            watch = store.watch
            calls: list[int] = []

            def late(key: str, end: str | None, *, from_revision: int) -> object:
                calls.append(from_revision)
                if len(calls) == 1:
                    raise CompactedError(1, 2)
                return watch(key, end, from_revision=from_revision)

            monkeypatch.setattr(store, "watch", late)
            waiting = asyncio.ensure_future(anext(seen))
            while len(calls) < 2:
                await store.get("job")
            async with leadership(KeyValueStore(node), "job", "one"):
                assert await waiting == "one"
            await seen.aclose()

    run(main)
