"""A lock on three nodes: in turn, with tokens that grow, also when its holder and the quorum's leader die."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import LeaseLostError, PykraftError
from pykraft.recipes import HeldLock, KeyValueStore, Put, holder_of, lock
from pykraft.recipes.lock import wait_deleted
from tests.client.nodes import run
from tests.recipes.stores import StoreNode, led, stores


def test_one_holder_at_a_time_in_the_order_of_arrival(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            tokens: list[int] = []
            inside = 0

            async def work(node: StoreNode) -> None:
                nonlocal inside
                async with lock(KeyValueStore(node), "tool", holder=f"node {node.node.node_id}") as held:
                    inside += 1
                    assert inside == 1
                    holder = await holder_of(KeyValueStore(nodes[0]), "tool")
                    assert holder is not None
                    assert (holder.value, holder.created) == (f"node {node.node.node_id}", held.token)
                    tokens.append(held.token)
                    inside -= 1

            await asyncio.gather(*map(work, nodes * 3))
            assert tokens == sorted(set(tokens))
            assert len(tokens) == 9
            assert await holder_of(KeyValueStore(nodes[0]), "tool") is None

    run(main)


def test_the_death_of_holder_and_leader_hands_the_lock_on_by_log_time(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path) as nodes:
            leader, follower = await led(nodes)
            held: list[HeldLock] = []
            is_held = asyncio.Event()

            async def hold() -> None:
                async with lock(leader, "tool", ttl_ms=1_000) as one:
                    held.append(one)
                    is_held.set()
                    await asyncio.Event().wait()

            holder = asyncio.ensure_future(hold())
            await is_held.wait()
            waiter = lock(follower, "tool")
            waiting = asyncio.ensure_future(waiter.__aenter__())
            while len(await follower.range("tool/", "")) < 2:
                pass
            await leader._node.close()
            second = await waiting
            assert second.token > held[0].token
            # The first token is refused now, and the second one is not.
            for one, is_fine in ((held[0], False), (second, True)):
                result = await follower.transact([Put("effect", "")], [one.condition])
                assert result.succeeded is is_fine
            with pytest.raises(LeaseLostError):
                await holder
            await waiter.__aexit__(None, None, None)

    run(main)


def test_whoever_gives_up_waiting_leaves_the_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store = KeyValueStore(node)
            async with lock(store, "tool"):
                waiting = asyncio.ensure_future(lock(store, "tool").__aenter__())
                while len(await store.range("tool/", "")) < 2:
                    pass
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                assert len(await store.range("tool/", "")) == 1
            async with asyncio.timeout(10), lock(store, "tool"):
                pass

    run(main)


def test_an_error_of_the_block_frees_the_lock(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store = KeyValueStore(node)
            with pytest.raises(PykraftError, match="of the block"):
                async with lock(store, "tool"):
                    raise PykraftError("of the block")
            assert await holder_of(store, "tool") is None

    run(main)


def test_a_lock_is_not_that_of_a_longer_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store = KeyValueStore(node)
            async with asyncio.timeout(10), lock(store, "tool/0"):
                assert await holder_of(store, "tool") is None
                async with lock(store, "tool") as held:
                    holder = await holder_of(store, "tool")
                    assert holder is not None
                    assert holder.created == held.token

    run(main)


def test_who_waits_for_what_was_compacted_waits_for_what_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store, looks = KeyValueStore(node), asyncio.Queue[int]()
            await store.put("held", "")
            item = await store.get("held")
            assert item is not None
            await store.compact(await store.put("other", "") + 1)
            revision = KeyValueStore.revision

            async def counted(self: KeyValueStore) -> int:
                looks.put_nowait(1)
                return await revision(self)

            monkeypatch.setattr(KeyValueStore, "revision", counted)
            waiting = asyncio.ensure_future(wait_deleted(store, item))
            for _ in range(3):  # the watch that comes too late, the look, the watch from now on
                await looks.get()
            for turn in range(20):
                await store.put("other", str(turn))
            assert not waiting.done()
            assert looks.empty(), "it looks once, not again and again"
            await store.delete("held")
            await waiting

    run(main)


def test_an_item_that_is_another_one_by_now_is_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with stores(tmp_path, 1) as [node]:
            store = KeyValueStore(node)
            await store.put("held", "")
            item = await store.get("held")
            assert item is not None
            await store.delete("held")
            await store.put("held", "by another one")
            await store.compact(await store.put("other", "") + 1)
            await wait_deleted(store, item)

    run(main)
