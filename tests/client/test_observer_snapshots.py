"""An observer finds a snapshot in place of records: it loads it, starts after it, or says why it cannot."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pykraft.client import Node
from pykraft.client.reader import StateReader
from pykraft.client.remote.observer import FAR_OFFSET, FetchLimits, Observer, Start
from pykraft.errors import UsageError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_values
from pykraft.protocol.schema import Body
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.client.logs import PATIENT, ScriptedLog, served_log
from tests.client.nodes import alone
from tests.client.remote.test_observer import observing, offset_asked, values_of
from tests.client.scripted import Answer, until
from tests.snapshot.snapshots import ID, content, id_of, small_batches

SMALL_SLICES = FetchLimits(wait_ms_max=20, size_bytes_max=5_000)
STATE = [value for batch in content(small_batches()) for value in batch if isinstance(value, bytes)]


class Loaded:
    """Takes snapshots, and remembers what was in them."""

    def __init__(self) -> None:
        self.ids: list[OffsetAndEpoch] = []
        self.values: list[bytes] = []

    async def take(self, reader: StateReader[bytes]) -> None:
        self.ids.append(reader.snapshot_id)
        self.values = [value async for batch in reader for value in batch.records]


def loading(log: ScriptedLog, loaded: Loaded, start: Start | int = Start.EARLIEST) -> Observer:
    where = start if isinstance(start, Start) else Offset(start)
    return Observer(log.bootstrap, start=where, patience=PATIENT, limits=SMALL_SLICES, load_snapshot=loaded.take)


def cleaned(log: ScriptedLog, values: Sequence[bytes] = (b"after",)) -> None:
    """A leader of epoch 5 whose log begins behind the snapshot 157-3."""
    log.epoch = Epoch(5)
    log.clean(ID, small_batches())
    for value in values:
        log.append(value)


async def test_the_snapshot_is_loaded_first_and_the_log_follows() -> None:
    async with served_log() as log:
        cleaned(log)
        loaded = Loaded()
        async with loading(log, loaded) as observer:
            assert await observer.begin() == 0
            assert await values_of(observer, 1) == [b"after"]
            assert (loaded.ids, loaded.values) == ([ID], STATE)
            assert observer.next_offset == 158
            assert len(log.leader.requests(ApiKey.FETCH_SNAPSHOT)) == -(-len(log.snapshot) // 5_000)
            [asked] = log.leader.requests(ApiKey.FETCH)[-1]["topics"][0]["partitions"]
            assert (asked["fetch_offset"], asked["last_fetched_epoch"]) == (157, 3)


async def test_a_log_without_a_snapshot_is_read_from_its_begin() -> None:
    async with served_log() as log:
        log.append(b"a")
        loaded = Loaded()
        async with loading(log, loaded) as observer:
            assert await values_of(observer, 1) == [b"a"]
        assert loaded.ids == []


@pytest.mark.parametrize("start", [0, 3, 156])
async def test_with_a_snapshot_every_offset_is_there(start: int) -> None:
    async with served_log() as log:
        cleaned(log)
        loaded = Loaded()
        async with loading(log, loaded, start) as observer:
            assert await observer.begin() == start
            assert await values_of(observer, 1) == [b"after"]
        assert loaded.ids == [ID]


async def test_where_the_log_holds_the_records_no_snapshot_is_loaded() -> None:
    async with served_log() as log:
        cleaned(log, (b"a", b"b"))
        loaded = Loaded()
        async with loading(log, loaded, 158) as observer:
            assert await values_of(observer, 1) == [b"b"]
        assert loaded.ids == []


async def test_who_falls_behind_the_log_start_gets_the_snapshot() -> None:
    async with served_log() as log:
        log.append(b"a")
        log.append(b"never committed", is_committed=False)
        loaded = Loaded()
        async with loading(log, loaded) as observer:
            assert await values_of(observer, 1) == [b"a"]
            coming = asyncio.ensure_future(anext(observer))
            await until(lambda: offset_asked(log) == 2)
            log.batches.clear()
            cleaned(log)
            assert decode_values((await coming).data) == [b"after"]
        assert loaded.ids == [ID]


async def test_what_the_callers_loading_raises_is_raised_and_the_place_kept() -> None:
    async with served_log() as log:
        cleaned(log)
        readers: list[StateReader[bytes]] = []

        def take(reader: StateReader[bytes]) -> None:
            readers.append(reader)
            if len(readers) == 1:
                raise RuntimeError("not now")

        async with Observer(log.bootstrap, patience=PATIENT, limits=SMALL_SLICES, load_snapshot=take) as observer:
            with pytest.raises(RuntimeError, match="not now"):
                await anext(observer)
            with pytest.raises(UsageError, match="the reader is closed"):
                await anext(aiter(readers[0]))
            assert await values_of(observer, 1) == [b"after"]
        assert [each.snapshot_id for each in readers] == [ID, ID]


async def test_without_loading_the_earliest_record_is_the_first_that_the_log_still_has() -> None:
    async with served_log() as log:
        cleaned(log, (b"a", b"b"))
        async with observing(log) as observer:
            assert await observer.begin() == 157
            assert await values_of(observer, 2) == [b"a", b"b"]


async def test_without_loading_the_log_start_may_be_named() -> None:
    async with served_log() as log:
        cleaned(log)
        async with observing(log, 157) as observer:
            assert await values_of(observer, 1) == [b"after"]


async def test_of_a_log_that_is_whole_only_the_first_leaders_change_is_left_out() -> None:
    async with served_log() as log:
        log.append_leader_change()
        log.append(b"a")
        log.snapshot_id = OffsetAndEpoch(Offset(1), Epoch(1))
        async with observing(log) as observer:
            assert await observer.begin() == 0
            batch = await anext(observer)
            assert (batch.base_offset, batch.values()) == (1, [b"a"])


async def test_a_log_that_is_cleaned_while_its_start_is_looked_for_begins_later() -> None:
    async with served_log() as log:
        cleaned(log)

        def clean_on(node_id: int, body: Body) -> Answer:
            [asked] = body["topics"][0]["partitions"]
            if asked["fetch_offset"] == 157 and asked["last_fetched_epoch"] == 3:
                log.answer = log.serve
                log.batches.clear()
                log.clean(id_of(200, 4), b"")
                log.append(b"much later")
            return log.serve(node_id, body)

        log.answer = clean_on
        async with observing(log) as observer:
            assert await values_of(observer, 1) == [b"much later"]
            assert observer.next_offset == 201


@pytest.mark.parametrize("named", [id_of(156, 3), id_of(157, -1), id_of(-1, 3)])
async def test_a_snapshot_that_cannot_stand_in_the_place_is_not_fetched(named: OffsetAndEpoch) -> None:
    async with served_log() as log:
        cleaned(log)

        def once(node_id: int, body: Body) -> Answer:
            if body["topics"][0]["partitions"][0]["fetch_offset"] == FAR_OFFSET:
                return log.serve(node_id, body)
            log.answer = log.serve
            return log.body(snapshot_id=named)

        log.answer = once
        loaded = Loaded()
        async with loading(log, loaded, 157) as observer:
            assert await values_of(observer, 1) == [b"after"]
        assert loaded.ids == [ID]


async def test_a_log_that_is_cleaned_while_the_first_fetch_is_under_way_begins_later() -> None:
    async with served_log() as log:
        log.append(b"a")
        async with observing(log) as observer:
            assert await observer.begin() == 0
            log.batches.clear()
            cleaned(log)
            assert await values_of(observer, 1) == [b"after"]


async def test_without_loading_who_falls_behind_the_log_start_is_told_what_to_do() -> None:
    async with served_log() as log:
        log.append(b"a")
        async with observing(log) as observer:
            assert await values_of(observer, 1) == [b"a"]
            log.batches.clear()
            cleaned(log)
            with pytest.raises(
                UsageError,
                match=r"offset 1 is no longer in the log, which begins at offset 157: what came before is only in the "
                r"snapshot 00000000000000000157-0000000003; begin at a later offset, or load snapshots",
            ):
                await anext(observer)


async def test_a_node_of_our_own_serves_its_snapshot(tmp_path: Path) -> None:
    async with Node(alone(tmp_path), own_thread=True) as node:
        await node.wait_for_leader()
        last = await node.propose([b"a", b"b"])
        loaded = Loaded()
        snapshot = await node.create_snapshot(last.base_offset + 2, last.epoch)
        assert snapshot is not None
        async with snapshot:
            await snapshot.append(STATE)
            await snapshot.freeze()
        await node.propose([b"after"])
        async with Observer([node.endpoint], patience=PATIENT, load_snapshot=loaded.take) as observer:
            assert await values_of(observer, 1) == [b"after"]
        assert (loaded.ids, loaded.values) == ([snapshot.snapshot_id], STATE)
        async with Observer([node.endpoint], patience=PATIENT) as observer:
            assert await values_of(observer, 2) == [b"a", b"b", b"after"]
