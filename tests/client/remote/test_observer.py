"""An observer with scripted leaders returns each committed batch once and in order, whatever leaders do."""

import asyncio
from typing import Any

import pytest

from pykraft.client.remote.leader_search import LeaderFetch, Patience
from pykraft.client.remote.observer import FAR_OFFSET, TOPICS, FetchLimits, Observer, Start, Window, epoch_before, probe
from pykraft.errors import ErrorCode, ProtocolError, QuorumUnavailableError, UsageError
from pykraft.protocol.batch import BatchRun, runs_of
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import decode_values, encode_batch
from pykraft.protocol.schema import Body
from pykraft.types import Endpoint, Epoch, Offset, OffsetAndEpoch
from tests.client.logs import HASTY, PATIENT, ScriptedLog, served_log
from tests.client.scripted import Answer, until

QUICK = FetchLimits(wait_ms_max=20)


def observing(
    log: ScriptedLog, start: Start | int = Start.EARLIEST, *, patience: Patience = PATIENT, limits: FetchLimits = QUICK
) -> Observer:
    where = start if isinstance(start, Start) else Offset(start)
    return Observer(log.bootstrap, start=where, patience=patience, limits=limits)


def offset_asked(log: ScriptedLog) -> int:
    """What the leader was asked for last."""
    offset: int = log.leader.requests(ApiKey.FETCH)[-1]["topics"][0]["partitions"][0]["fetch_offset"]
    return offset


async def values_of(observer: Observer, count: int) -> list[bytes]:
    """Values of the next batches."""
    found: list[bytes] = []
    for _ in range(count):
        found += (await anext(observer)).values()
    return found


async def test_all_committed_batches_come_in_order_and_live() -> None:
    async with served_log() as log:
        log.append_leader_change()
        log.append(b"a", b"b")
        async with observing(log) as observer:
            assert (observer.next_offset, observer.high_watermark) == (None, None)
            assert await observer.begin() == 0
            assert (observer.next_offset, observer.high_watermark) == (0, 3)
            first = await anext(observer)
            assert (first.base_offset, first.is_control, first.values()) == (0, True, [])
            assert await values_of(observer, 1) == [b"a", b"b"]
            coming = asyncio.ensure_future(anext(observer))
            await until(lambda: offset_asked(log) == 3)
            log.append(b"c")
            assert (await coming).values() == [b"c"]
            assert (observer.next_offset, observer.high_watermark) == (4, 4)


async def test_what_is_not_committed_waits() -> None:
    async with served_log() as log:
        log.append(b"a")
        log.append(b"b", is_committed=False)
        async with observing(log) as observer:
            assert await values_of(observer, 1) == [b"a"]
            coming = asyncio.ensure_future(anext(observer))
            await until(lambda: offset_asked(log) == 2)
            assert not coming.done()
            log.high_watermark = 2
            assert (await coming).values() == [b"b"]


async def test_what_a_new_leader_never_had_is_dropped() -> None:
    async with served_log() as log:
        log.append(b"a")
        log.append(b"never committed", is_committed=False)
        async with observing(log) as observer:
            assert await values_of(observer, 1) == [b"a"]
            coming = asyncio.ensure_future(anext(observer))
            await until(lambda: offset_asked(log) == 2)
            log.batches.pop()
            log.lead(3)
            log.append(b"b")
            log.append(b"c")
            assert (await coming).values() == [b"b"]
            assert await values_of(observer, 1) == [b"c"]


@pytest.mark.parametrize(
    ("start", "expected"),
    [(Start.EARLIEST, 0), (Start.LATEST, 6), (3, 3), (6, 6)],
    ids=["earliest", "latest", "in", "end"],
)
async def test_it_begins_where_it_is_told(start: Start | int, expected: int) -> None:
    async with served_log() as log:
        log.append(b"a", b"b")
        log.append(b"c", b"d", b"e", b"f")
        async with observing(log, start) as observer:
            assert await observer.begin() == expected
            log.append(b"new")
            batch = await anext(observer)
            assert batch.base_offset <= expected < batch.end_offset


async def test_the_middle_of_a_log_is_read_in_the_leaders_epoch() -> None:
    async with served_log() as log:
        for _ in range(3):
            log.append(b"old")
        log.lead(1)
        log.append(b"new")
        async with observing(log, 1) as observer:
            assert await values_of(observer, 3) == [b"old", b"old", b"new"]
        [asked] = log.leader.requests(ApiKey.FETCH)[-1]["topics"][0]["partitions"]
        assert (asked["fetch_offset"], asked["last_fetched_epoch"]) == (1, 2)


@pytest.mark.parametrize("offset", [1, 9])
async def test_an_offset_that_is_not_there_is_told_with_those_that_are(offset: int) -> None:
    async with served_log() as log:
        log.append(b"a", b"b", b"c")
        log.log_start_offset = 2
        async with observing(log, offset) as observer:
            with pytest.raises(
                UsageError, match=f"offset {offset} is not there: .* from 2 to 3, the last one excluded"
            ):
                await observer.begin()


async def test_a_leader_that_does_not_know_yet_what_is_committed_is_waited_for() -> None:
    async with served_log() as log:
        log.append(b"a")
        log.high_watermark = None

        def know(node_id: int, body: Body) -> Answer:
            if len(log.leader.requests(ApiKey.FETCH)) > 3:
                log.high_watermark = 1
            return log.serve(node_id, body)

        log.answer = know
        async with observing(log) as observer:
            assert await values_of(observer, 1) == [b"a"]
        log.answer, log.high_watermark = log.serve, None
        async with observing(log, patience=HASTY) as observer:
            with pytest.raises(QuorumUnavailableError, match="does not know its high watermark yet"):
                await observer.begin()


async def test_small_fetches_and_cut_batches_are_put_together() -> None:
    async with served_log() as log:
        for number in range(5):
            log.append(b"%d" % number * 50)
        size_bytes = len(log.batches[0]) + 10
        async with observing(log, limits=FetchLimits(wait_ms_max=20, size_bytes_max=size_bytes)) as observer:
            assert await values_of(observer, 5) == [b"%d" % number * 50 for number in range(5)]


async def test_a_damaged_batch_is_fetched_again() -> None:
    async with served_log() as log:
        log.append(b"a")
        log.append(b"b")
        damaged = log.batches[0] + log.batches[1][:-2] + b"?\0"

        def damage(node_id: int, body: Body) -> Answer:
            is_first = len(log.leader.requests(ApiKey.FETCH)) == 2
            return log.body(records=damaged) if is_first else log.serve(node_id, body)

        log.answer = damage
        async with observing(log) as observer:
            assert await values_of(observer, 2) == [b"a", b"b"]


@pytest.mark.parametrize(
    ("left_out", "words"), [(1, "offsets 2 to 2 where 1 comes next"), (0, "offsets 1 to 1 where 0 comes next")]
)
async def test_a_hole_is_never_given_out(left_out: int, words: str) -> None:
    async with served_log() as log:
        for value in (b"a", b"b", b"c"):
            log.append(value)

        def skip(node_id: int, body: Body) -> Answer:
            [asked] = body["topics"][0]["partitions"]
            if asked["fetch_offset"] > 3 or node_id != log.leader_id:
                return log.serve(node_id, body)
            wanted = [log.batches[at] for at in range(asked["fetch_offset"], 3) if at != left_out]
            return log.body(records=b"".join(wanted))

        log.answer = skip
        async with observing(log, patience=HASTY) as observer:
            with pytest.raises(QuorumUnavailableError, match=words):
                await values_of(observer, 2)


async def test_committed_records_that_are_gone_are_an_error() -> None:
    async with served_log() as log:
        log.append(b"a")
        log.append(b"b")
        async with observing(log) as observer:
            await values_of(observer, 2)
            log.batches.clear()
            log.lead(1)
            log.append(b"another")
            with pytest.raises(ProtocolError, match="but offset 2 was committed: it has lost records"):
                await anext(observer)


async def test_records_that_were_cleaned_away_are_told() -> None:
    async with served_log() as log:
        log.append(b"a")
        async with observing(log) as observer:
            await observer.begin()
            log.log_start_offset = 5
            log.answer = lambda *_: log.body(error=ErrorCode.OFFSET_OUT_OF_RANGE)
            with pytest.raises(UsageError, match="offset 0 is no longer in the log: it begins at offset 5"):
                await anext(observer)


async def test_what_is_held_is_bounded() -> None:
    async with served_log() as log:
        log.append(b"a")
        for _ in range(20):
            log.append(b"x" * 1_000, is_committed=False)
        limits = FetchLimits(wait_ms_max=20, size_bytes_max=3_000, held_size_bytes_max=5_000)
        async with observing(log, limits=limits) as observer:
            await values_of(observer, 1)
            coming = asyncio.ensure_future(anext(observer))

            def offsets() -> list[int]:
                return [
                    body["topics"][0]["partitions"][0]["fetch_offset"] for body in log.leader.requests(ApiKey.FETCH)[1:]
                ]

            await until(lambda: offsets().count(1) >= 3)
            assert max(offsets()) < 10
            log.high_watermark = log.end_offset
            assert (await coming).values() == [b"x" * 1_000]


async def test_a_leader_without_news_is_not_asked_without_a_pause() -> None:
    async with served_log() as log:
        log.append(b"a")
        patience = Patience(timeout_ms=10_000, request_timeout_ms=2_000, retry_backoff_ms=50)
        async with observing(log, patience=patience, limits=FetchLimits(wait_ms_max=500)) as observer:
            await values_of(observer, 1)
            asked = len(log.leader.requests(ApiKey.FETCH))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(observer), 0.2)
            assert len(log.leader.requests(ApiKey.FETCH)) - asked <= 5


async def test_a_wait_that_was_given_up_loses_nothing() -> None:
    async with served_log() as log:
        log.append(b"a")
        async with observing(log) as observer:
            await values_of(observer, 1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(observer), 0.05)
            log.append(b"b")
            assert await values_of(observer, 1) == [b"b"]


def test_what_cannot_be_observed_is_the_callers_mistake() -> None:
    with pytest.raises(UsageError, match="the bootstrap list is empty"):
        Observer([])
    with pytest.raises(UsageError, match="the topics list is empty"):
        Observer([Endpoint("a", 1)], topics=[])
    odd: list[Any] = [Offset(-1), "latest", True, None, 1.5]
    for start in odd:
        with pytest.raises(UsageError, match=r"it is an offset of 0 or more, or Start\.EARLIEST or Start\.LATEST"):
            Observer([Endpoint("a", 1)], start=start)


START = Offset(40)


def asking(log: ScriptedLog) -> LeaderFetch:
    return LeaderFetch(log.bootstrap, topics=TOPICS, cluster_id=None, client_id="test", patience=PATIENT)


@pytest.mark.parametrize(("oldest", "newest"), [(1, 1), (1, 2), (2, 2), (3, 9), (9, 9), (700_000, 1_000_000)])
async def test_it_is_the_epoch_of_the_oldest_snapshot(oldest: int, newest: int) -> None:
    async with served_log() as log:
        log.epoch = Epoch(newest)
        log.clean(OffsetAndEpoch(START, Epoch(oldest)), b"")
        log.append(b"a")
        leader = asking(log)
        await leader.ask(probe)
        leader.accept()
        assert await epoch_before(leader, START) == oldest
        assert len(log.leader.requests(ApiKey.FETCH)) <= 2 + newest.bit_length()
        await leader.close()


async def test_a_log_that_is_cleaned_meanwhile_is_not_asked_on() -> None:
    async with served_log() as log:
        log.epoch = Epoch(9)
        log.clean(OffsetAndEpoch(START, Epoch(3)), b"")
        log.append(b"a")
        leader = asking(log)
        await leader.ask(probe)
        log.log_start_offset = 41
        assert await epoch_before(leader, START) == 9
        await leader.close()


def test_a_probe_waits_for_nothing_and_asks_for_no_records() -> None:
    request = probe(Epoch(5), Epoch(3))
    assert (request.fetch_offset, request.epoch, request.last_fetched_epoch) == (FAR_OFFSET, 5, 3)
    assert (request.wait_ms_max, request.size_bytes_max, request.replica) == (0, 0, None)
    assert probe(Epoch(5)).last_fetched_epoch == 5


async def test_a_new_leader_meanwhile_is_asked_in_its_own_epoch() -> None:
    async with served_log() as log:
        log.epoch = Epoch(9)
        log.clean(OffsetAndEpoch(START, Epoch(3)), b"")
        log.append(b"a")
        leader = asking(log)
        await leader.ask(probe)

        def change(node_id: int, body: Body) -> Answer:
            log.answer = log.serve
            log.lead(3)
            return log.serve(node_id, body)

        log.answer = change
        assert await epoch_before(leader, START) == 3
        await leader.close()


def add(window: Window, base_offset: int, *values: bytes, epoch: int = 1, leader_epoch: int = 9) -> str | None:
    batch = encode_batch(values or (b"v",), base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=7)
    return window.add(BatchRun.of_one(batch.data, 0, batch.header), leader_epoch=Epoch(leader_epoch))


def test_only_what_is_committed_is_given_out() -> None:
    window = Window(Offset(0))
    assert add(window, 0, b"a", b"b") is None
    assert add(window, 2, b"c") is None
    assert window.take() is None
    window.commit_to(Offset(1))
    assert window.take() is None
    window.commit_to(Offset(2))
    run = window.take()
    assert run is not None
    assert (run.base_offset, run.end_offset, run.epoch, run.max_timestamps) == (0, 2, 1, (7,))
    assert decode_values(run.data) == [b"a", b"b"]
    assert window.take() is None
    assert (window.next_offset, window.end_offset, window.end_epoch) == (2, 3, 1)


def run_of(base_offset: int, batches: int) -> BatchRun:
    """Batches of one record each, in one run."""
    offsets = map(Offset, range(base_offset, base_offset + batches))
    data = b"".join(
        encode_batch([b"%d" % offset], base_offset=offset, epoch=Epoch(1), timestamp_ms=7).data for offset in offsets
    )
    (run,) = runs_of(data)
    return run


def test_of_a_run_only_what_is_committed_is_given_out_and_no_batch_twice() -> None:
    window = Window(Offset(0))
    for base_offset in (0, 10):
        assert window.add(run_of(base_offset, 10), leader_epoch=Epoch(1)) is None
    held = window.held_size_bytes
    found: list[list[int]] = []
    for high_watermark in (4, 4, 5, 20):
        window.commit_to(Offset(high_watermark))
        while (run := window.take()) is not None:
            assert window.next_offset == run.end_offset
            held -= len(run.data)
            assert window.held_size_bytes == held
            found.append(
                [
                    int(value)
                    for _, data in zip(run.last_offsets, run.contents(), strict=True)
                    for value in decode_values(data)
                ]
            )
    assert found == [[*range(4)], [4], [*range(5, 10)], [*range(10, 20)]]
    assert (window.held_size_bytes, window.end_offset) == (0, 20)


def test_of_a_run_at_most_so_many_batches_are_taken_and_the_rest_can_be_dropped() -> None:
    window = Window(Offset(0))
    window.add(run_of(0, 10), leader_epoch=Epoch(1))
    window.commit_to(Offset(10))
    taken = [window.take(batches_max=most) for most in (1, 3)]
    assert [(run.base_offset, run.end_offset) for run in taken if run is not None] == [(0, 1), (1, 4)]
    assert window.drop_held()
    assert (window.end_offset, window.held_size_bytes) == (4, 0)
    assert window.add(run_of(4, 10), leader_epoch=Epoch(1)) is None
    run = window.take(batches_max=2)
    assert run is not None
    assert (run.base_offset, run.end_offset) == (4, 6)


def test_the_high_watermark_never_goes_back() -> None:
    window = Window(Offset(0))
    window.commit_to(Offset(5))
    window.commit_to(Offset(3))
    assert window.high_watermark == 5


def test_a_hole_and_an_overlap_are_refused() -> None:
    window = Window(Offset(0))
    assert "offsets 1 to 1 where 0 comes next" in str(add(window, 1))
    assert add(window, 0) is None
    assert "offsets 0 to 0 where 1 comes next" in str(add(window, 0))
    assert window.end_offset == 1


def test_the_first_batch_may_begin_before_the_offset_that_was_asked_for() -> None:
    window = Window(Offset(5))
    assert add(window, 3, b"a", b"b") is not None
    assert add(window, 3, b"a", b"b", b"c", b"d") is None
    assert window.end_offset == 7
    assert add(window, 6, b"a", b"b") is not None


@pytest.mark.conformance("H73")
def test_epochs_never_go_back_and_are_not_above_the_leaders() -> None:
    window = Window(Offset(0))
    assert "of epoch 4, after 0, from the leader of epoch 3" in str(add(window, 0, epoch=4, leader_epoch=3))
    assert add(window, 0, epoch=3, leader_epoch=3) is None
    assert "of epoch 2, after 3" in str(add(window, 1, epoch=2))
    window.commit_to(Offset(1))
    assert window.take() is not None
    assert "of epoch 2, after 3" in str(add(window, 1, epoch=2))


def test_what_is_dropped_is_fetched_again() -> None:
    window = Window(Offset(0))
    assert not window.drop_held()
    add(window, 0, epoch=1)
    window.commit_to(Offset(1))
    window.take()
    add(window, 1, epoch=2)
    assert window.held_size_bytes > 0
    assert window.drop_held()
    assert (window.held_size_bytes, window.end_offset, window.end_epoch) == (0, 1, 1)
