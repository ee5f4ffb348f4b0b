"""Locks that belong to a lease: in turn, together with programs, and with requests that are sent again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.errors import CommandRejectedError, UsageError
from pykraft.kv import lease_locks
from pykraft.kv.lease_locks import acquire, release
from pykraft.machine import Replicated
from pykraft.recipes import KeyValues, KeyValueStore, Put, lock
from tests.client.nodes import alone, run


def test_leases_and_programs_hold_a_lock_in_turn_with_growing_tokens(tmp_path: Path) -> None:
    async def main() -> None:
        async with Replicated(alone(tmp_path), KeyValues()) as node:
            store = KeyValueStore(node)
            first, second = [await store.grant_lease(60_000) for _ in range(2)]
            held = await acquire(store, "tool", lease=first, holder="a", wait_s=9)
            assert held.ahead == 0
            program = lock(store, "tool")
            entering = asyncio.ensure_future(program.__aenter__())
            while len(await store.range("tool/", "")) < 2:
                await store.revision()
            place = await acquire(store, "tool", lease=second, holder="b", wait_s=0)
            assert place.ahead == 2
            assert await release(store, "tool", lease=first)
            inside = await entering
            assert held.token < inside.token < place.token
            waiting = asyncio.ensure_future(acquire(store, "tool", lease=second, holder="b", wait_s=9))
            await program.__aexit__(None, None, None)
            now = await waiting
            assert (now.ahead, now.token, now.key) == (0, place.token, place.key)

    run(main)


def test_a_second_key_of_a_lease_does_not_wait_for_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        async with Replicated(alone(tmp_path), KeyValues()) as node:
            store = KeyValueStore(node)
            lease, other = [await store.grant_lease(60_000) for _ in range(2)]
            # Two requests at once, as after one whose outcome was unknown.
            tokens = [(await store.transact([Put("tool/", "", lease, numbered=True)])).revision for _ in range(2)]
            held = await acquire(store, "tool", lease=lease, holder="", wait_s=0)
            assert (held.ahead, held.token) == (0, tokens[0])
            assert (await acquire(store, "tool", lease=other, holder="", wait_s=0)).ahead == 2
            assert await release(store, "tool", lease=lease)
            assert (await acquire(store, "tool", lease=other, holder="", wait_s=0)).ahead == 0

    run(main)


def test_a_lease_that_ends_loses_its_place(tmp_path: Path) -> None:
    async def main() -> None:
        async with Replicated(alone(tmp_path), KeyValues()) as node:
            store = KeyValueStore(node)
            first, second = [await store.grant_lease(60_000) for _ in range(2)]
            await acquire(store, "tool", lease=first, holder="", wait_s=0)
            waiting = asyncio.ensure_future(acquire(store, "tool", lease=second, holder="", wait_s=9))
            while len(await store.range("tool/", "")) < 2:
                await store.revision()
            await store.end_lease(second)
            await store.end_lease(first)
            with pytest.raises(CommandRejectedError, match=f"lease {second} has ended"):
                await waiting
            with pytest.raises(CommandRejectedError, match=f"lease {second} has ended"):
                await acquire(store, "tool", lease=second, holder="", wait_s=0)
            assert not await release(store, "tool", lease=second)

    run(main)


def test_names_and_queues_are_bounded_and_longer_names_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease_locks, "QUEUE_MAX", 1)

    async def main() -> None:
        async with Replicated(alone(tmp_path), KeyValues()) as node:
            store = KeyValueStore(node)
            first, second = [await store.grant_lease(60_000) for _ in range(2)]
            assert (await acquire(store, "a/b", lease=first, holder="", wait_s=0)).ahead == 0
            assert (await acquire(store, "a", lease=first, holder="", wait_s=0)).ahead == 0
            with pytest.raises(CommandRejectedError, match="1 candidates wait"):
                await acquire(store, "a", lease=second, holder="", wait_s=0)
            with pytest.raises(UsageError, match="a lock has a name"):
                await acquire(store, "", lease=second, holder="", wait_s=0)

    run(main)
