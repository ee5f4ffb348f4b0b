"""Lines from a pipe: whole, in order, bounded, and with an end."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pykraft.cli.append import command as lines_module
from pykraft.cli.append.command import Line, Lines
from pykraft.errors import UsageError


@asynccontextmanager
async def piped_lines() -> AsyncIterator[tuple[Lines, int]]:
    """The lines of a pipe and its writing end, which the test closes."""
    reading, writing = os.pipe()
    try:
        yield Lines(reading, line_size_bytes_max=100), writing
    finally:
        os.close(reading)


async def take(lines: Lines, size_bytes_max: int = 1_000) -> list[Line]:
    return await lines.take(size_bytes_max=size_bytes_max, overhead_bytes=2)


async def test_lines_are_taken_as_they_come_and_the_last_needs_no_line_feed() -> None:
    async with piped_lines() as (lines, writing):
        os.write(writing, b"a\n\nb\r")
        assert await take(lines) == [Line(1, b"a"), Line(2, b"")]
        os.write(writing, b"\nlast")
        assert await take(lines) == [Line(3, b"b\r")]
        os.close(writing)
        assert await take(lines) == [Line(4, b"last")]
        assert await take(lines) == []


async def test_a_batch_has_what_fits_and_at_least_one_line() -> None:
    async with piped_lines() as (lines, writing):
        os.write(writing, b"aaaa\nbb\ncc\nd\n")
        os.close(writing)
        assert [line.data for line in await take(lines, 3)] == [b"aaaa"]
        assert [line.data for line in await take(lines, 8)] == [b"bb", b"cc"]
        assert [line.data for line in await take(lines, 8)] == [b"d"]
        assert await take(lines) == []


@pytest.mark.parametrize("end", [b"\nlater\n", b""])
async def test_a_line_that_is_too_long_ends_it_after_the_lines_before(end: bytes) -> None:
    async with piped_lines() as (lines, writing):
        os.write(writing, b"good\n" + b"x" * 101 + end)
        assert await take(lines) == [Line(1, b"good")]
        for _ in range(2):
            with pytest.raises(UsageError, match="line 2 has more than 100 bytes"):
                await take(lines)
        os.close(writing)


async def test_the_thread_reads_no_more_than_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "WAITING_SIZE_BYTES_MAX", 8)
    monkeypatch.setattr(lines_module, "PIECE_SIZE_BYTES", 5)
    async with piped_lines() as (lines, writing):
        written = b"".join(b"%04d\n" % number for number in range(100))
        os.write(writing, written)
        os.close(writing)
        found: list[Line] = []
        while taken := await take(lines):
            assert lines._waiting_bytes <= 8 + 5
            found += taken
        assert [line.data for line in found] == written.split()


async def test_a_descriptor_that_cannot_be_read_is_an_error() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(OSError, match="Bad file descriptor"):
            await take(Lines(writing, line_size_bytes_max=1))
    finally:
        os.close(reading)
        os.close(writing)
