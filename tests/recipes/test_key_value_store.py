"""The store on several nodes: reads, changes, watches that resume, leases that are held and lost."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pykraft import errors
from pykraft.recipes import (
    Item,
    KeyChange,
    KeyValues,
    KeyValueStore,
    Put,
    key_value_commands,
    key_value_store,
    prefix,
    value_of,
)
from pykraft.recipes.coordination import wait_deleted
from tests.machine.counters import next_turn
from tests.recipes.stores import StoreLog, led, stores


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_value_commands, "LEASE_TTL_MS_MIN", 1)


async def taken(changes: AsyncIterator[KeyChange], count: int) -> list[KeyChange]:
    return [await anext(changes) for _ in range(count)]


async def test_every_node_changes_and_reads_the_store(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        assert await follower.put("color", "red") == 1
        assert await leader.get("color") == Item("color", "red", 1, 1, 1)
        assert await leader.compare_and_set("color", "red", "blue")
        assert not await follower.compare_and_set("color", "red", "green")
        assert await follower.compare_and_set("shape", None, "round")
        assert [item.value for item in await leader.range("", "")] == ["blue", "round"]
        assert [item.key for item in await follower.range(*prefix("s"), limit=1)] == ["shape"]
        assert await leader.delete("", "d") == 1
        assert await follower.get("color") is None
        assert await follower.get("shape", stale=True, max_age_ms=60_000) is not None
        result = await leader.transact([Put("a", "")], otherwise=[Put("b", "")])
        assert (result.succeeded, result.revision) == (True, 5)
        for call in (leader.get(""), leader.put("", "x"), leader.range("a", "", limit=0)):
            with pytest.raises(errors.UsageError):
                await call


async def test_values_of_any_characters_and_what_was_there_before(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        lines = "\n" * 32_768
        assert await follower.swap("text", lines) is None
        assert await leader.swap("text", "x") == Item("text", lines, 1, 1, 1)
        assert await leader.pop("text") == Item("text", "x", 1, 2, 2)
        assert await leader.pop("text") is None
        data = bytes(range(256)) * 128
        assert await leader.compare_and_set("data", None, data)
        assert await follower.compare_and_set("data", data, b"\xff")
        assert not await follower.compare_and_set("data", data, b"\xfe")
        assert [item.data for item in await follower.range("data", "data\0")] == [b"\xff"]
        assert await leader.put("data", b"text") == 6
        assert (await leader.swap("data", b"\xfe"), await leader.pop("data")) == (
            Item("data", "text", 4, 6, 3),
            Item("data", value_of(b"\xfe"), 4, 7, 4),
        )
        await leader.transact([Put("a/1", ""), Put("a/2", "")])
        assert (await follower.count("a/", ""), await follower.count("a/1")) == (2, 1)
        last = await follower.last("a/", "a0")
        assert last is not None
        assert last.key == "a/2"
        assert await follower.last("b", "") is None
        with pytest.raises(errors.UsageError, match="'a/' is numbered twice"):
            await leader.transact([Put("a/", "", numbered=True), Put("a/", "", numbered=True)])


async def test_a_watch_misses_nothing_and_resumes(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        for at in range(3):
            await leader.put("a", str(at))
        changes = follower.watch("", "", from_revision=2)
        assert [(one.revision, one.key) for one in await taken(changes, 2)] == [(2, "a"), (3, "a")]
        waiting = asyncio.ensure_future(anext(changes))
        await leader.transact([Put("b", "x"), Put("c", "y")])
        assert (await waiting).key == "b"
        await changes.aclose()
        resumed = leader.watch("", "", from_revision=4)
        assert [one.key for one in await taken(resumed, 2)] == ["b", "c"]
        from_now = follower.watch("a")
        waiting = asyncio.ensure_future(anext(from_now))
        await leader.put("b", "other")
        watches = follower._node.machine.watches._of_key
        while not any(one.from_revision is None for one in watches.get("a", ())):
            await leader.put("b", "other")
        await leader.delete("a")
        assert (await waiting).item is None
        with pytest.raises(errors.UsageError, match="from_revision = 1000: the last change has revision"):
            await anext(leader.watch("a", from_revision=1_000))
        for each in (resumed, from_now):
            await each.aclose()
        assert (len(leader._node.machine.watches), len(follower._node.machine.watches)) == (0, 0)


async def test_a_watch_from_what_was_compacted_names_the_oldest_revision(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        for at in range(4):
            await store.put("a", str(at))
        slow = store.watch("a", from_revision=1)
        await anext(slow)
        slower = store.watch("a", from_revision=2)
        await store.compact(4)
        with pytest.raises(errors.CompactedError, match="revision 2 is no longer kept: the oldest one is 4"):
            await anext(slower)
        await slow.aclose()
        assert [one.revision for one in await taken(store.watch("a", from_revision=4), 1)] == [4]
        with pytest.raises(errors.CommandRejectedError, match="not yet at 9"):
            await store.compact(9)


async def test_watches_are_bounded_and_end_with_their_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_value_store, "WATCHES_MAX", 1)
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        await store.put("a", "x")
        changes = store.watch("a", from_revision=1)
        await anext(changes)
        with pytest.raises(errors.BufferFullError, match="1 watches are open on this node"):
            await anext(KeyValueStore(node).watch("a"))
        waiting = asyncio.ensure_future(anext(changes))
        await store.put("b", "x")
        await node.close()
        with pytest.raises(errors.NotRunningError):
            await waiting


@pytest.mark.usefixtures("short_leases")
async def test_a_lease_that_nobody_keeps_ends_by_itself(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        lease = await follower.grant_lease(100)
        revision = await follower.put("a", "x", lease=lease)
        changes = leader.watch("a", from_revision=revision)
        assert [one.item is None for one in await taken(changes, 2)] == [False, True]
        await changes.aclose()
        with pytest.raises(errors.CommandRejectedError, match=f"lease {lease} has ended"):
            await follower.keep_lease(lease)


async def test_a_held_lease_is_kept_and_ends_with_its_block(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        async with store.lease(1_000) as lease:
            await store.put("a", "x", lease=lease)
            expires_ms = node.machine._leases[lease].expires_ms
            while node.machine._leases[lease].expires_ms == expires_ms:
                await node.node.wait_applied(node._applier, node.node.log_end_offset + 1)
        assert await store.get("a") is None
        with pytest.raises(ZeroDivisionError):
            async with store.lease():
                raise ZeroDivisionError
        with pytest.raises(TimeoutError):
            async with store.lease():
                raise TimeoutError
        assert not node.machine._leases
        with pytest.raises(errors.UsageError, match="ttl_ms = 1"):
            async with store.lease(1):
                pass


async def test_a_holder_gives_up_before_its_lease_can_end(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        _, follower = await led(nodes)
        held = []

        async def hold() -> None:
            async with follower.lease(1_000) as lease:
                held.append(lease)
                for node in nodes:
                    if node is not follower._node:
                        await node.close()
                await asyncio.Event().wait()

        with pytest.raises(errors.LeaseLostError, match="of 1000 ms could not be kept"):
            await hold()
        assert [*follower._node.machine._leases] == held  # in the log, it has not ended
        with pytest.raises(errors.QuorumUnavailableError):
            await KeyValueStore(follower._node, timeout_ms=50).get("a")


async def test_a_holder_tries_until_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        keep, tries, is_kept = store.keep_lease, Counter[str](), asyncio.Event()

        async def keep_after_an_outage(lease: int, *, timeout_ms: int) -> None:
            tries["all"] += 1
            if tries["all"] <= 3:
                raise errors.NotAppliedError("nobody leads")
            await keep(lease, timeout_ms=timeout_ms)
            is_kept.set()

        monkeypatch.setattr(store, "keep_lease", keep_after_an_outage)
        async with store.lease(3_000):
            await is_kept.wait()


async def test_a_holder_hears_that_its_lease_was_ended(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)

        async def hold() -> None:
            async with store.lease(1_000) as lease:
                await store.end_lease(lease)
                await asyncio.Event().wait()

        with pytest.raises(errors.LeaseLostError):
            await hold()


async def test_a_watch_misses_nothing_while_a_snapshot_is_loaded(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        leading = StoreLog()
        for at in range(3):
            await store.put("a", str(at))
            leading.put("a", str(at))
        changes = store.watch("a", from_revision=1)
        await taken(changes, 3)
        waiting = asyncio.ensure_future(anext(changes))
        await next_turn()
        for at in range(3, 6):
            leading.put("a", str(at))

        async def slowly() -> AsyncIterator[bytes]:
            for record in leading.state():
                yield record
                # The watch looks at the store between two pieces of the snapshot.
                node.machine.watches.changed(node.machine.space.revision, ["a"])
                for _ in range(3):
                    await next_turn()

        await node.machine.restore_stream(slowly())
        assert [(await waiting).revision, *[one.revision for one in await taken(changes, 2)]] == [4, 5, 6]
        await changes.aclose()


async def test_a_snapshot_behind_which_changes_are_gone_is_told_to_the_watch(tmp_path: Path) -> None:
    async with stores(tmp_path, 1) as [node]:
        store = KeyValueStore(node)
        await store.put("a", "x")
        changes = store.watch("a", from_revision=1)
        await anext(changes)
        item = await store.get("a")
        assert item is not None
        waiting, gone = asyncio.ensure_future(anext(changes)), asyncio.ensure_future(wait_deleted(store, item))
        while len(node.machine.watches) < 2:
            await store.get("a")
        leading = StoreLog()
        for at in range(3):
            leading.put("b", str(at))
        leading.add(key_value_commands.Compact(4))
        await node.machine.restore_stream(pieces(leading.state()))
        with pytest.raises(errors.CompactedError, match="the oldest one is 4"):
            await waiting
        await gone


async def pieces(records: list[bytes]) -> AsyncIterator[bytes]:
    for record in records:
        yield record
        await next_turn()


async def test_the_store_is_read_as_it_was_also_after_a_snapshot(tmp_path: Path) -> None:
    async with stores(tmp_path) as nodes:
        leader, follower = await led(nodes)
        for value in "123":
            await leader.put("a", value)
        await leader.delete("a")
        await leader.put("b", "")
        assert [await follower.get("a", revision=at) for at in (2, 4)] == [Item("a", "2", 1, 2, 2), None]
        assert await follower.range("", "", revision=3) == [Item("a", "3", 1, 3, 3)]
        with pytest.raises(errors.UsageError, match="revision = 6: the last change has revision 5"):
            await follower.get("a", revision=6)
        await leader.compact(3)
        restored = KeyValues()
        restored.restore([*leader.machine.snapshot()])
        assert restored.get("a", revision=3) == Item("a", "3", 1, 3, 3)
        for state in (restored, leader.machine):
            with pytest.raises(errors.CompactedError, match="revision 2 is no longer kept: the oldest one is 3"):
                state.get("a", revision=2)
