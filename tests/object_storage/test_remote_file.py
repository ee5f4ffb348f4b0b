"""Few requests and little memory, whatever is read in which order; and the bytes are those of the object."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from struct import Struct

import pytest

from pykraft.errors import StorageError
from pykraft.log.fs import File
from pykraft.log.os_fs import OsFs
from pykraft.object_storage.remote_file import (
    AHEAD_SIZE_BYTES,
    BLOCK_SIZE_BYTES,
    BLOCKS_MAX,
    RemoteFile,
    expect_reads,
)
from pykraft.object_storage.uris import UriPath

PATH = UriPath("s3://bucket/p-0/00000000000000000000.log")
KIB = 1024
CONTENT = random.Random(7).randbytes(1024 * KIB) * 40


class Counted:
    """An object in memory that remembers the ranges that were asked for."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.size_bytes = len(content)
        self.asked: list[tuple[int, int]] = []
        self.opened = self.closed = 0

    def open(self) -> Counted:
        self.opened += 1
        return self

    def read(self, size_bytes: int, position: int) -> bytes:
        assert size_bytes > 0
        assert position + size_bytes <= self.size_bytes
        self.asked.append((position, size_bytes))
        return self.content[position : position + size_bytes]

    def close(self) -> None:
        self.closed += 1


def opened(there: Counted) -> RemoteFile:
    return RemoteFile(PATH, there.open, None)  # type: ignore[arg-type] # it has what a reader has


@pytest.fixture
def there() -> Counted:
    return Counted()


def test_any_read_returns_the_bytes_of_the_object(there: Counted) -> None:
    source = random.Random(11)
    with closing(opened(there)) as file:
        for _ in range(300):
            position = source.choice([0, source.randrange(len(CONTENT) + 10), file.size() - 5])
            size_bytes = source.choice([1, 61, 16 * KIB, 300 * KIB])
            if source.random() < 0.1:
                file.expect(position, position + source.randrange(20_000 * KIB))
            for _ in range(source.randrange(4)):
                assert file.pread(size_bytes, position) == CONTENT[position : position + size_bytes]
                position += max(0, size_bytes - source.randrange(3))
    assert there.closed == 1


def test_an_index_is_searched_with_few_requests() -> None:
    entry = Struct(">ii")
    there = Counted(b"".join(entry.pack(at, at * 4096) for at in range(262_144)))
    with closing(opened(there)) as file:

        def position_of(at: int) -> int:
            return entry.unpack(file.pread(entry.size, at * entry.size))[1]  # type: ignore[no-any-return]

        for number in range(0, 262_144, 16_384):
            assert bisect_left(range(262_144), number * 4096, key=position_of) == number
    assert len(there.asked) <= 32
    assert all(size_bytes <= BLOCK_SIZE_BYTES for _, size_bytes in there.asked)


def test_memory_holds_so_many_blocks(there: Counted) -> None:
    with closing(opened(there)) as file:
        for block in reversed(range(BLOCKS_MAX + 1)):
            file.pread(1, block * BLOCK_SIZE_BYTES * 3)
        asked = len(there.asked)
        file.pread(1, 0)
        assert len(there.asked) == asked
        file.pread(1, BLOCKS_MAX * BLOCK_SIZE_BYTES * 3)
        assert len(there.asked) == asked + 1


def test_reads_that_follow_each_other_take_more_and_more(there: Counted) -> None:
    with closing(opened(there)) as file:
        position = 0
        while data := file.pread(16 * KIB, position):
            position += len(data)
    sizes = [size_bytes for _, size_bytes in there.asked]
    assert sizes[:4] == [BLOCK_SIZE_BYTES, 2 * BLOCK_SIZE_BYTES, 4 * BLOCK_SIZE_BYTES, 8 * BLOCK_SIZE_BYTES]
    assert max(sizes) == AHEAD_SIZE_BYTES
    assert sum(sizes) == len(CONTENT)


def chunks(file: File, start: int, end: int) -> Iterator[bytes]:
    """A split as a task reads it: 2 MiB at a time, of which the last batch is cut and read again."""
    while start < end:
        data = file.pread(min(2048 * KIB, end - start), start)
        data = data[: max(len(data) - 700, 1)] if start + len(data) < end else data
        yield data
        start += len(data)


def test_a_known_range_comes_in_large_parts_each_byte_once_and_nothing_after_it(there: Counted) -> None:
    start, end = 3_000_001, 33_000_000
    with closing(opened(there)) as file:
        expect_reads(file, start, end)
        assert b"".join(chunks(file, start, end)) == CONTENT[start:end]
    assert len(there.asked) == -(-(end - start) // AHEAD_SIZE_BYTES)
    assert sum(size_bytes for _, size_bytes in there.asked) == end - start
    assert max(size_bytes for _, size_bytes in there.asked) == AHEAD_SIZE_BYTES


def test_a_range_that_is_left_early_is_fetched_one_part_ahead(there: Counted) -> None:
    with closing(opened(there)) as file:
        file.expect(0, len(CONTENT))
        file.pread(10, 0)
    assert sum(size_bytes for _, size_bytes in there.asked) <= 2 * AHEAD_SIZE_BYTES
    assert there.closed == 1


def test_a_part_that_fails_is_an_error_where_it_is_read(there: Counted) -> None:
    def fails(size_bytes: int, position: int) -> bytes:
        if position > 0:
            raise StorageError(PATH, "cannot be reached")
        return CONTENT[:size_bytes]

    there.read = fails  # type: ignore[method-assign]
    with closing(opened(there)) as file:
        file.expect(0, len(CONTENT))
        assert len(file.pread(2048 * KIB, 0)) == 2048 * KIB
        with pytest.raises(StorageError, match="cannot be reached"):
            file.pread(2048 * KIB, AHEAD_SIZE_BYTES)


def test_a_listed_object_is_opened_by_its_first_read(there: Counted) -> None:
    file = RemoteFile(PATH, there.open, 100)  # type: ignore[arg-type] # as above
    assert (file.size(), there.opened) == (100, 0)
    file.expect(0, 1_000)
    assert file.pread(200, 90) == CONTENT[90:100]
    assert file.pread(10, 100) == b""
    assert there.opened == 1
    file.close()
    file.close()
    assert there.closed == 1


@pytest.mark.parametrize("call", ["pwrite", "truncate", "sync"])
def test_nothing_is_written(call: str, there: Counted) -> None:
    words: dict[str, Sequence[object]] = {"pwrite": ([b"a"], 0), "truncate": (0,), "sync": ()}
    file = opened(there)
    with pytest.raises(AssertionError, match="object storage is only read"):
        getattr(file, call)(*words[call])
    file.reserve(0, 10)
    file.unreserve()
    file.uncache(0, 10)
    assert file.is_at(PATH)
    assert not file.is_at(Path("elsewhere"))
    assert there.opened == 0


def test_a_file_of_this_machine_needs_no_such_word(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with closing(OsFs().open(tmp_path / "a")) as file:
        expect_reads(file, 0, 3)
        assert file.pread(3, 0) == b"abc"
