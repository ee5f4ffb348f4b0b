"""No call that takes records takes one record for many, or a set for a list."""

import mmap
from array import array
from collections import ChainMap, UserString, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pykraft.client import Node, text_serde
from pykraft.errors import UsageError
from pykraft.host.producers import Producers
from pykraft.log.os_fs import OsFs
from pykraft.record_list import check_records
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.client.nodes import alone


class Put(NamedTuple):
    """A record with fields."""

    key: str
    value: int


SINGLE: dict[str, Any] = {
    "text": "abc",
    "text of the library": UserString("abc"),
    "bytes": b"abc",
    "a bytearray": bytearray(b"abc"),
    "a memoryview": memoryview(b"abc"),
    "an array of bytes": array("B", b"abc"),
    "a dict": {"op": "put", "key": "k"},
    "another mapping": ChainMap({"op": "put"}),
    "a named tuple": Put("k", 1),
    "a set": {"a", "b"},
    "a frozenset": frozenset("ab"),
}
NOT_RECORDS: dict[str, Any] = {
    "nothing": None,
    "a number": 5,
    "a truth": True,
    "an object": Path,
    "a long one": lambda: None,
}
LISTS: list[Any] = [
    ["a"],
    ("a",),
    iter(["a"]),
    (each for each in "a"),
    deque(["a"]),
    {"a": 1}.values(),
    array("q", [1]),
]


@pytest.mark.parametrize("records", SINGLE.values(), ids=SINGLE)
def test_what_is_no_list_is_refused(records: Any) -> None:
    with pytest.raises(UsageError, match="give a list of records"):
        check_records(records)


async def asynchronous() -> AsyncIterator[str]:
    yield "a"


@pytest.mark.parametrize("records", NOT_RECORDS.values(), ids=NOT_RECORDS)
def test_what_cannot_be_iterated_over_is_refused(records: Any) -> None:
    with pytest.raises(UsageError, match=r"records = .*: give a list of records, even for one: \[record\]"):
        check_records(records, is_async_allowed=True)


def test_only_a_snapshot_takes_asynchronous_records() -> None:
    check_records(asynchronous(), is_async_allowed=True)
    with pytest.raises(UsageError, match=r"records = <async_generator .*: give a list of records"):
        check_records(asynchronous())


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(UsageError, match=r"records = .{100}…: give"):
        check_records(type("X" * 200, (), {})())


def test_a_mapped_file_is_bytes() -> None:
    with mmap.mmap(-1, 16) as mapped, pytest.raises(UsageError, match="not a single mmap"):
        check_records(mapped)


@pytest.mark.parametrize("records", LISTS, ids=lambda each: type(each).__name__)
def test_what_has_an_order_is_accepted(records: Any) -> None:
    check_records(records)


async def test_no_call_of_a_node_takes_one_record_for_many(tmp_path: Path) -> None:
    nothing: list[Callable[[], Any]] = [list, lambda: iter(()), lambda: (each for each in "")]

    async with Node(alone(tmp_path), text_serde) as node:
        epoch = (await node.wait_for_leader()).epoch
        committed = await node.propose(["a"])
        snapshot = await node.create_snapshot(committed.base_offset + 1, epoch)
        assert snapshot is not None
        calls: list[Callable[[Any], Awaitable[object]]] = [
            node.propose,
            lambda records: node.prepare_append(epoch, records),
            lambda records: node.schedule_append(epoch, records),
        ]
        for records in [*SINGLE.values(), *NOT_RECORDS.values()]:
            for call in [*calls, snapshot.append]:
                with pytest.raises(UsageError, match="give a list of records"):
                    await call(records)
        for make in nothing:
            for call in calls:
                with pytest.raises(UsageError, match="at least one record"):
                    await call(make())
            # A state may be empty.
            await snapshot.append(make())
        assert node.log_end_offset == committed.base_offset + 1
        assert await snapshot.freeze() > 0


class _Text:
    def serialize(self, record: str) -> bytes:
        return record.encode()


@pytest.mark.parametrize("records", SINGLE.values(), ids=SINGLE)
def test_neither_do_the_layers_below(tmp_path: Path, records: Any) -> None:
    snapshot_id = OffsetAndEpoch(Offset(5), Epoch(1))
    writer = SnapshotWriter(OsFs(), tmp_path, snapshot_id, _Text(), last_contained_log_timestamp=1)
    with pytest.raises(UsageError, match="give a list of records"):
        writer.append(records)
    with pytest.raises(UsageError, match="give a list of records"):
        Producers(batch_size_bytes_max=1_000).propose(records, epoch=Epoch(1), on_outcome=lambda _: None)
