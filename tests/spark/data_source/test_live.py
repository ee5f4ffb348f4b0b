"""A live quorum read synchronously, from real nodes in this process: extent, single batches, chunks, times."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from pykraft.client.remote.leader_fetch import Patience
from pykraft.errors import ForeignClusterError, QuorumUnavailableError, UsageError
from pykraft.protocol.batch import scan
from pykraft.spark.data_source import live
from pykraft.spark.data_source.live import Extent, LiveQuorum, first_since
from pykraft.types import Endpoint, Offset
from tests.spark.quorum_of_one import CLUSTER_ID, OneNode


def test_what_is_committed_and_whose_it_is(node: OneNode) -> None:
    quorum = LiveQuorum([node.endpoint])
    assert quorum.extent() == Extent(start_offset=Offset(0), end_offset=Offset(6))
    assert quorum.find_cluster_id() == CLUSTER_ID
    assert str(node.endpoint) in quorum.name


def test_the_batch_that_holds_an_offset(node: OneNode) -> None:
    batch = LiveQuorum([node.endpoint], CLUSTER_ID).batch_at(Offset(4))
    assert (batch.base_offset, batch.end_offset, batch.values()) == (3, 6, [b"c", b"d", b"e"])


@pytest.mark.parametrize(("start", "end", "bases"), [(0, 6, [0, 1, 3]), (2, 4, [1, 3]), (3, 6, [3]), (6, 6, [])])
def test_chunks_are_the_batches_that_hold_the_offsets(start: int, end: int, bases: list[int], node: OneNode) -> None:
    data = b"".join(LiveQuorum([node.endpoint]).chunks(Offset(start), Offset(end)))
    assert [header.base_offset for _, header in scan(data)] == bases


def test_a_chunk_is_bounded(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHUNK_SIZE_BYTES", 1)
    assert len(list(LiveQuorum([node.endpoint]).chunks(Offset(0), Offset(6)))) == 3


class Loud(bytes):
    """Fails when a text is made of it."""

    def __repr__(self) -> str:
        raise AssertionError("a text of megabytes")


def test_no_text_is_made_of_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def chunks(*_: object) -> AsyncGenerator[bytes]:
        yield Loud(b"one")
        yield Loud(b"two")

    monkeypatch.setattr(LiveQuorum, "_chunks", chunks)
    found = list(LiveQuorum([Endpoint("nowhere", 1)]).chunks(Offset(0), Offset(2)))
    assert [bytes(part) for part in found] == [b"one", b"two"]


def test_chunks_that_nobody_wants_any_more_let_go(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CHUNK_SIZE_BYTES", 1)
    chunks = LiveQuorum([node.endpoint]).chunks(Offset(0), Offset(6))
    next(chunks)
    chunks.close()  # type: ignore[attr-defined]


def test_the_first_batch_since_a_time(node: OneNode) -> None:
    quorum = LiveQuorum([node.endpoint])
    extent = quorum.extent()
    times = [quorum.batch_at(Offset(offset)).timestamp_ms for offset in (0, 1, 3)]
    assert first_since(quorum, extent, 0) == 0
    assert first_since(quorum, extent, times[2] + 1) == 6
    for time_ms in times:
        assert first_since(quorum, extent, time_ms) == [0, 1, 3][times.index(time_ms)]


def test_another_cluster_is_refused(node: OneNode) -> None:
    quorum = LiveQuorum([node.endpoint], "another")
    with pytest.raises(ForeignClusterError):
        quorum.extent()
    with pytest.raises(ForeignClusterError):
        quorum.find_cluster_id()


def test_nobody_there_is_told(node: OneNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PATIENCE", Patience(timeout_ms=100))
    nobody = LiveQuorum([Endpoint("127.0.0.1", 1)])
    with pytest.raises(QuorumUnavailableError, match=r"127\.0\.0\.1:1"):
        nobody.extent()
    assert nobody.find_cluster_id() is None


def test_a_log_that_begins_behind_a_snapshot_is_read_from_there(late_node: OneNode) -> None:
    quorum = LiveQuorum([late_node.endpoint])
    assert quorum.extent() == Extent(start_offset=Offset(100), end_offset=Offset(103))
    for start, bases in ((100, [100, 101, 102]), (101, [101, 102])):
        data = b"".join(quorum.chunks(Offset(start), Offset(103)))
        assert [header.base_offset for _, header in scan(data)] == bases
    assert quorum.batch_at(Offset(100)).is_control
    with pytest.raises(UsageError, match="offset 99 is not there: committed are the offsets from 100 to 103"):
        quorum.batch_at(Offset(99))
