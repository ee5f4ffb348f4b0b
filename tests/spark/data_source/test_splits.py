"""Splits: whole batches of about the size, up to a limit; read in chunks; files that have changed since."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import pytest

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.protocol.batch import scan, seal_batch
from pykraft.protocol.compression import Compression
from pykraft.spark.data_source import splits
from pykraft.spark.data_source.walk import ReplicaLog
from pykraft.types import Buffer, Epoch, Offset
from tests.spark.logs import EPOCH, batch, three_batches, write_segment

BATCHES = three_batches()
SIZE_BYTES = len(BATCHES[0])


def plan(
    directory: Path, *, size_bytes: int = 10**6, start_offset: int = 0, limit: splits.Limit | None = None
) -> splits.SplitPlan:
    """What is read of a log from an offset on."""
    replica = ReplicaLog("n1", directory)
    start = replica.seek(Offset(start_offset))
    return splits.plan_splits(
        "n1",
        start,
        replica.walk(start, tolerant=True),
        start_offset=Offset(start_offset),
        limit=limit or splits.Limit(),
        size_bytes=size_bytes,
    )


def cut(found: splits.SplitPlan) -> list[tuple[str, int, int]]:
    """Segment, and begin and end counted in batches, of each split."""
    return [
        (Path(split.path).stem.lstrip("0") or "0", split.position // SIZE_BYTES, split.end_position // SIZE_BYTES)
        for split in found.splits
    ]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three batches in one segment, one in the next: offsets 0 to 7, two a batch."""
    write_segment(tmp_path, b"".join(BATCHES))
    write_segment(tmp_path, batch([b"a3", b"b3"], base_offset=6), base_offset=6)
    return tmp_path


def test_splits_are_whole_batches_of_about_the_size(log: Path) -> None:
    assert cut(plan(log, size_bytes=1)) == [("0", 0, 1), ("0", 1, 2), ("0", 2, 3), ("6", 0, 1)]
    assert cut(plan(log, size_bytes=2 * SIZE_BYTES)) == [("0", 0, 2), ("0", 2, 3), ("6", 0, 1)]
    assert cut(plan(log, size_bytes=3 * SIZE_BYTES)) == [("0", 0, 3), ("6", 0, 1)]


def test_splits_of_compressed_batches_are_smaller(tmp_path: Path) -> None:
    """A task takes as long for them as for more bytes: else one core reads a small log, and all others wait."""
    records = cramjam.zstd.compress(bytes(100))
    place: Any = {"count": 1, "epoch": EPOCH, "timestamp_ms": 0, "attributes": Compression.ZSTD}
    batches = [seal_batch(bytes(records), base_offset=Offset(at), **place).data for at in range(12)]
    write_segment(tmp_path, b"".join(batches))
    found = plan(tmp_path, size_bytes=12 * len(batches[0])).splits
    assert [(split.end_position - split.position) // len(batches[0]) for split in found] == [6, 6]


def test_a_plan_begins_and_ends_with_the_batches_that_hold_the_bounds(log: Path) -> None:
    found = plan(log, start_offset=3, limit=splits.Limit(end_offset=Offset(5)))
    assert cut(found) == [("0", 1, 3)]
    assert [(split.start_offset, split.end_offset) for split in found.splits] == [(3, 5)]
    assert found.end.offset == 6


@pytest.mark.parametrize(
    ("limit", "end_offset"),
    [
        (splits.Limit(records_max=1), 2),
        (splits.Limit(records_max=4), 4),
        (splits.Limit(records_max=5), 4),
        (splits.Limit(size_bytes_max=1), 2),
        (splits.Limit(size_bytes_max=3 * SIZE_BYTES), 6),
        (splits.Limit(records_max=6, size_bytes_max=2 * SIZE_BYTES), 4),
        (splits.Limit(end_offset=Offset(0)), 0),
        (splits.Limit(), 8),
    ],
)
def test_a_limit_holds_and_lets_one_batch_through(limit: splits.Limit, end_offset: int, log: Path) -> None:
    assert plan(log, limit=limit).end.offset == end_offset


def test_damage_is_a_split_of_its_own(tmp_path: Path) -> None:
    write_segment(tmp_path, BATCHES[0] + b"!" * 70)
    write_segment(tmp_path, BATCHES[2], base_offset=4)
    sound, damage, rest = plan(tmp_path).splits
    assert (sound.damage, rest.damage) == (None, None)
    assert damage.damage is not None
    assert (damage.position, damage.end_position, damage.start_offset) == (SIZE_BYTES, SIZE_BYTES + 70, 2)


def in_columns(data: Buffer) -> splits.FoundHeaders:
    """The headers, as Spark's tasks read them."""
    # The unit tests have no NumPy.
    from pykraft.spark.data_source.headers import headers_of

    return headers_of(data)


READERS = pytest.mark.parametrize(
    "read_headers", [splits.scanned_headers, pytest.param(in_columns, marks=pytest.mark.spark)]
)


@READERS
@pytest.mark.parametrize("size_bytes", [1, 70, SIZE_BYTES, 2 * SIZE_BYTES + 5, 1_000])
def test_a_split_is_read_in_chunks_of_whole_batches(
    size_bytes: int, read_headers: Callable[[Buffer], splits.FoundHeaders], tmp_path: Path
) -> None:
    segment = write_segment(tmp_path, b"".join(BATCHES))
    split = splits.Split(replica="n1", path=str(segment), position=SIZE_BYTES, end_position=3 * SIZE_BYTES)
    chunks = list(splits.chunks_with(read_headers, split, size_bytes=size_bytes))
    assert b"".join(chunk.data for chunk in chunks) == BATCHES[1] + BATCHES[2]
    assert [len(chunk.data) for chunk in chunks] == [
        chunk.split.end_position - chunk.split.position for chunk in chunks
    ]
    assert [list(chunk.headers.pairs()) for chunk in chunks] == [list(scan(chunk.data)) for chunk in chunks]
    assert len(chunks) == (1 if size_bytes >= 2 * SIZE_BYTES else 2)


@READERS
@pytest.mark.parametrize("data", [b"123", bytes(500), BATCHES[1][:-1], b""], ids=["few", "zeros", "cut", "nothing"])
def test_a_file_that_is_no_longer_as_it_was_is_damage(
    data: bytes, read_headers: Callable[[Buffer], splits.FoundHeaders], tmp_path: Path
) -> None:
    segment = write_segment(tmp_path, BATCHES[0] + data)
    split = splits.Split(replica="n1", path=str(segment), position=0, end_position=2 * SIZE_BYTES)
    with pytest.raises(CorruptionError, match="expected a whole batch") as caught:
        list(splits.chunks_with(read_headers, split))
    assert caught.value.position == SIZE_BYTES


def many(*, epoch: int = EPOCH, changed: int = -1) -> list[bytes]:
    """Six batches of one size; one may have other values."""
    values = [[b"a%d" % i, b"b%d" % i] if i != changed else [b"x%d" % i, b"y%d" % i] for i in range(6)]
    return [batch(each, base_offset=2 * i, epoch=epoch) for i, each in enumerate(values)]


@READERS
@pytest.mark.parametrize("size_bytes", [1, 10**6], ids=["chunks of a batch", "one chunk"])
@pytest.mark.parametrize(
    "now",
    [
        many(epoch=EPOCH + 1),
        many()[:3] + many(epoch=EPOCH + 1)[3:],
        many(changed=0),
        many(changed=5),
        [many()[1], *many()[1:]],
    ],
    ids=["all of another epoch", "from the middle on", "the first", "the last", "another place"],
)
def test_a_log_that_was_written_anew_between_plan_and_read_is_refused(
    now: list[bytes], size_bytes: int, read_headers: Callable[[Buffer], splits.FoundHeaders], tmp_path: Path
) -> None:
    """Each batch is sound and stands where the old one did."""
    write_segment(tmp_path, b"".join(many()))
    (split,) = plan(tmp_path).splits
    assert b"".join(chunk.data for chunk in splits.chunks_with(read_headers, split, size_bytes=size_bytes)) == b"".join(
        many()
    )
    write_segment(tmp_path, b"".join(now))
    with pytest.raises(UsageError, match="the log was cut back and rewritten"):
        list(splits.chunks_with(read_headers, split, size_bytes=size_bytes))


@READERS
@pytest.mark.parametrize("size_bytes", [1, 10**6], ids=["chunks of a batch", "one chunk"])
@pytest.mark.parametrize(
    "between",
    [batch([b"a2", b"b2"], base_offset=6), batch([b"a2", b"b2"], base_offset=4, epoch=EPOCH - 1)],
    ids=["offset", "epoch"],
)
def test_batches_of_a_split_follow_each_other(
    between: bytes, size_bytes: int, read_headers: Callable[[Buffer], splits.FoundHeaders], tmp_path: Path
) -> None:
    """A plan by the index has not looked at what is between its ends."""
    write_segment(tmp_path, b"".join(many()))
    (split,) = plan(tmp_path).splits
    write_segment(tmp_path, b"".join([*many()[:2], between, *many()[3:]]))
    with pytest.raises(CorruptionError, match=f"expected (offset 4|an epoch of at least {EPOCH}), found"):
        list(splits.chunks_with(read_headers, split, size_bytes=size_bytes))


def test_a_segment_that_its_node_deletes_can_be_read_for_another_minute(tmp_path: Path) -> None:
    segment = write_segment(tmp_path, BATCHES[0])
    split = splits.Split(replica="n1", path=str(segment), position=0, end_position=SIZE_BYTES)
    deleted = segment.rename(f"{segment}.deleted")
    assert [chunk.data for chunk in splits.read_chunks(split)] == [BATCHES[0]]
    deleted.unlink()
    with pytest.raises(StorageError):
        list(splits.read_chunks(split))


@pytest.mark.parametrize(
    ("bounds", "may_hold"),
    [
        (splits.Bounds(epoch_min=Epoch(3), epoch_max=Epoch(3)), True),
        (splits.Bounds(epoch_min=Epoch(5)), False),
        (splits.Bounds(epoch_max=Epoch(1)), False),
        (splits.Bounds(epoch_min=Epoch(4), epoch_max=Epoch(9)), True),
    ],
)
def test_a_split_is_left_out_by_its_epochs(bounds: splits.Bounds, may_hold: bool) -> None:
    first, last = (
        splits.BatchIdentity(base_offset=Offset(0), end_offset=Offset(1), epoch=Epoch(epoch), crc=0) for epoch in (2, 4)
    )
    split = splits.Split(replica="n1", path="1.log", position=0, end_position=9, first=first, last=last)
    assert bounds.may_hold(split) is may_hold
    assert bounds.may_hold(splits.Split(replica="n1", path="1.log", position=0, end_position=9))


def test_replicas() -> None:
    assert splits.EVERYTHING.has_replica("n1")
    assert not splits.Bounds(replicas=frozenset()).has_replica("n1")


LOG = b"".join(BATCHES)


def test_whole_batches_are_found_with_their_places() -> None:
    found, pairs = splits.scanned_headers(LOG), list(scan(LOG))
    assert len(found) == len(pairs) == 3
    assert list(found.pairs()) == pairs
    assert (found.pair(0), found.pair(-1)) == (pairs[0], pairs[2])
    assert found.run(0) is None


@pytest.mark.parametrize("end", [BATCHES[2][:-1], BATCHES[2][:30], b"!" * 80, b"!", b""])
def test_what_is_cut_or_no_batch_ends_them(end: bytes) -> None:
    assert [at for at, _ in splits.scanned_headers(BATCHES[0] + BATCHES[1] + end).pairs()] == [0, len(BATCHES[0])]


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("sizes_mib", "tasks_min", "tasks"),
    [
        ([128, 128, 60], None, [1, 1, 1]),
        ([10, 10, 10], None, [1, 1, 1]),
        ([128, 0], None, [2]),
        ([128, 0], 2, [1, 1]),
        ([60, 0, 0, 0, 60], None, [3, 1, 1]),
        ([1, 1, 1, 1], None, [2, 2]),
        ([0] * 6, None, [4, 2]),
        ([0] * 6, 3, [2, 2, 2]),
        ([0] * 6, 100, [1] * 6),
        ([0] * 640, None, [20] * 32),
        ([], None, []),
    ],
)
def test_small_splits_are_packed_and_large_ones_are_not(
    sizes_mib: list[int], tasks_min: int | None, tasks: list[int]
) -> None:
    made = [splits.Split(replica=None, path=str(at), end_position=size * MIB) for at, size in enumerate(sizes_mib)]
    groups = splits.packed(made, tasks_min=tasks_min)
    assert [len(group) for group in groups] == tasks
    assert [split for group in groups for split in group] == made
