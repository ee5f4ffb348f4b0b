"""A live quorum read synchronously, from real nodes in this process: extent, single batches, chunks, times."""

from asyncio import BaseEventLoop
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from pykraft.client.remote.leader_search import Patience
from pykraft.errors import ForeignClusterError, QuorumUnavailableError, UsageError
from pykraft.protocol.batch import scan
from pykraft.spark.data_source import live
from pykraft.spark.data_source.live import Extent, LiveQuorum, first_since
from pykraft.types import Endpoint, Offset
from tests.spark.quorum_of_one import CLUSTER_ID, OneNode


def test_what_is_committed_and_whose_it_is(node: OneNode) -> None:
    with LiveQuorum([node.endpoint]) as quorum:
        assert quorum.extent() == Extent(start_offset=Offset(0), end_offset=Offset(6))
        assert quorum.find_cluster_id() == CLUSTER_ID
        assert str(node.endpoint) in quorum.name


def test_the_batch_that_holds_an_offset(node: OneNode) -> None:
    with LiveQuorum([node.endpoint], CLUSTER_ID) as quorum:
        batch = quorum.batch_at(Offset(4))
    assert (batch.base_offset, batch.end_offset, batch.values()) == (3, 6, [b"c", b"d", b"e"])


@pytest.mark.parametrize(("start", "end", "bases"), [(0, 6, [0, 1, 3]), (2, 4, [1, 3]), (3, 6, [3]), (6, 6, [])])
def test_chunks_are_the_batches_that_hold_the_offsets(start: int, end: int, bases: list[int], node: OneNode) -> None:
    with LiveQuorum([node.endpoint]) as quorum:
        data = b"".join(quorum.chunks(Offset(start), Offset(end)))
    assert [header.base_offset for _, header in scan(data)] == bases


def test_a_chunk_is_bounded(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHUNK_SIZE_BYTES", 1)
    with LiveQuorum([node.endpoint]) as quorum:
        assert len(list(quorum.chunks(Offset(0), Offset(6)))) == 3


def test_a_block_has_one_connection(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    create = BaseEventLoop.create_connection

    async def count(*words: Any, **named: Any) -> Any:
        opened.append(words)
        return await create(*words, **named)

    monkeypatch.setattr(BaseEventLoop, "create_connection", count)
    with LiveQuorum([node.endpoint]) as quorum:
        extent = quorum.extent()
        assert quorum.batch_at(Offset(4)).base_offset == 3
        assert list(quorum.chunks(extent.start_offset, extent.end_offset))
        assert quorum.extent() == extent
    assert len(opened) == 1


class Loud(bytes):
    """Fails when a text is made of it."""

    def __repr__(self) -> str:
        raise AssertionError("a text of megabytes")


def test_no_text_is_made_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def chunks(*_: object) -> AsyncGenerator[bytes]:
        yield Loud(b"one")
        yield Loud(b"two")

    monkeypatch.setattr(LiveQuorum, "_chunks", chunks)
    with LiveQuorum([Endpoint("nowhere", 1)]) as quorum:
        found = list(quorum.chunks(Offset(0), Offset(2)))
    assert [bytes(part) for part in found] == [b"one", b"two"]


def test_chunks_that_nobody_wants_any_more_let_go(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHUNK_SIZE_BYTES", 1)
    with LiveQuorum([node.endpoint]) as quorum:
        chunks = quorum.chunks(Offset(0), Offset(6))
        next(chunks)
        chunks.close()  # type: ignore[attr-defined]


def test_the_first_batch_since_a_time(node: OneNode) -> None:
    with LiveQuorum([node.endpoint]) as quorum:
        extent = quorum.extent()
        times = [quorum.batch_at(Offset(offset)).timestamp_ms for offset in (0, 1, 3)]
        assert first_since(quorum, extent, 0) == 0
        assert first_since(quorum, extent, times[2] + 1) == 6
        for time_ms in times:
            assert first_since(quorum, extent, time_ms) == [0, 1, 3][times.index(time_ms)]


def test_another_cluster_is_refused(node: OneNode) -> None:
    with LiveQuorum([node.endpoint], "another") as quorum:
        with pytest.raises(ForeignClusterError):
            quorum.extent()
        with pytest.raises(ForeignClusterError):
            quorum.find_cluster_id()


def test_nobody_there_is_told(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE", Patience(timeout_ms=100))
    with LiveQuorum([Endpoint("127.0.0.1", 1)]) as nobody:
        with pytest.raises(QuorumUnavailableError, match=r"127\.0\.0\.1:1"):
            nobody.extent()
        assert nobody.find_cluster_id() is None


def test_a_log_that_begins_behind_a_snapshot_is_read_from_there(late_node: OneNode) -> None:
    with LiveQuorum([late_node.endpoint]) as quorum:
        assert quorum.extent() == Extent(start_offset=Offset(100), end_offset=Offset(103))
        for start, bases in ((100, [100, 101, 102]), (101, [101, 102])):
            data = b"".join(quorum.chunks(Offset(start), Offset(103)))
            assert [header.base_offset for _, header in scan(data)] == bases
        assert quorum.batch_at(Offset(100)).is_control
        with pytest.raises(UsageError, match="offset 99 is not there: committed are the offsets from 100 to 103"):
            quorum.batch_at(Offset(99))
