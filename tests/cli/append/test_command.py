"""``pykraft append``: what it makes of lines from a file or a pipe, and what it says of unknown outcomes."""

import asyncio
import base64
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykraft.cli.append import command as lines_module
from pykraft.cli.append.command import RECORD_SIZE_BYTES_MAX, AppendRun, Line, Lines, append, json_value, text_value
from pykraft.cli.client_options import ClientOptions
from pykraft.client.remote.numbered_appender import Appender
from pykraft.errors import OutcomeUnknownError, QuorumUnavailableError, UsageError
from pykraft.types import Endpoint, Offset


class Log:
    """What stands for the quorum: each append takes the next outcome, or is committed."""

    def __init__(self) -> None:
        self.appends: list[list[bytes]] = []
        self.outcomes: list[Exception] = []
        self.records_max = 1_000_000
        self._end = 10

    async def append(self, values: Sequence[bytes]) -> Offset:
        self.appends.append(list(values))
        if self.outcomes:
            raise self.outcomes.pop(0)
        base_offset, self._end = self._end, self._end + len(values)
        return Offset(base_offset)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    log = Log()

    async def of_log(_: Appender, values: Sequence[bytes]) -> Offset:
        return await log.append(values)

    monkeypatch.setattr(Appender, "append_values", of_log)
    return log


@pytest.fixture
def run(tmp_path: Path, log: Log) -> Callable[..., Any]:
    """Run the command on a file with this content."""

    def invoke(content: bytes, *options: str) -> Any:
        path = tmp_path / "lines"
        path.write_bytes(content)
        return CliRunner().invoke(append, [str(path), "--bootstrap-controller", "localhost:1", *options])

    return invoke


def test_each_line_becomes_a_record(run: Callable[..., Any], log: Log) -> None:
    done = run(b"one\n\xff\x00\r\nlast\n")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "offsets 10 to 12: 3 records\n", "")
    assert log.appends == [[b"one", b"\xff\x00\r", b"last"]]
    assert run(b"x\n").stdout == "offset 13\n"


def append_from(terminal: int) -> signal.Signals | None:
    options = ClientOptions(
        bootstrap=(Endpoint("localhost", 1),),
        is_controllers=True,
        client_id="x",
        timeout_ms=1_000,
        request_timeout_ms=1_000,
    )
    return asyncio.run(AppendRun(options, text_value, as_json=False).run(terminal))


@pytest.mark.parametrize("is_read_first", [True, False], ids=["ends", "fails"])
def test_a_closed_terminal_is_no_end_of_the_lines(
    is_read_first: bool, log: Log, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, terminal = os.openpty()
    os.close(other)
    if is_read_first:  # another reader of the terminal got the error
        monkeypatch.setattr(os, "read", lambda *_: b"")
    try:
        assert append_from(terminal) == signal.SIGHUP
    finally:
        os.close(terminal)
    assert capsys.readouterr().err == "pykraft: ended by SIGHUP: nothing was committed; later lines were not sent\n"


def test_ctrl_d_is_the_end_of_the_lines(log: Log) -> None:
    other, terminal = os.openpty()
    try:
        os.write(other, b"one\n\x04")
        assert append_from(terminal) is None
    finally:
        os.close(other)
        os.close(terminal)
    assert log.appends == [[b"one"]]


def test_empty_lines_are_skipped_and_counted(run: Callable[..., Any], log: Log) -> None:
    done = run(b"\none\n\n\n")
    assert log.appends == [[b"one"]]
    assert done.stderr == "pykraft: skipped 3 empty lines: a record has at least one byte\n"
    assert run(b"").stdout == ""


def test_batches_are_bounded_and_told_with_their_lines(run: Callable[..., Any], log: Log) -> None:
    long = b"x" * (RECORD_SIZE_BYTES_MAX - 30)
    done = run(b"a\n" + long + b"\nb\n" + long + b"\n", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) >= 2
    next_line, next_offset = 1, 10
    for each in told:
        assert (each["firstLine"], each["baseOffset"]) == (next_line, next_offset)
        assert each["lastLine"] - each["firstLine"] + 1 == each["count"]
        next_line, next_offset = each["lastLine"] + 1, each["baseOffset"] + each["count"]
    assert [value for batch in log.appends for value in batch] == [b"a", long, b"b", long]
    assert next_line == 5
    assert {each["outcome"] for each in told} == {"committed"}


def test_what_tail_prints_as_json_can_be_appended(run: Callable[..., Any], log: Log) -> None:
    lines = [json.dumps({"offset": 1, "valueBase64": base64.b64encode(value).decode()}) for value in (b"a\nb", b"\0")]
    assert run("\n".join([*lines, ""]).encode(), "--input", "json").exit_code == 0
    assert log.appends == [[b"a\nb", b"\0"]]


@pytest.mark.parametrize(
    "text", ["x", "[]", "{}", '{"valueBase64":null}', '{"valueBase64":"?"}', '{"valueBase64":1}', '{"control":{}}']
)
def test_other_lines_are_named(text: str) -> None:
    with pytest.raises(UsageError, match="line 7 is not a JSON object with the record in valueBase64"):
        json_value(Line(7, text.encode()))


@pytest.mark.parametrize("text", ['{"valueBase64":""}', '{"valueBase64":"YQ==","keyBase64":"YQ=="}'])
def test_records_that_no_quorum_has_are_named(text: str) -> None:
    with pytest.raises(UsageError, match="line 7: a record of a quorum has no key"):
        json_value(Line(7, text.encode()))
    assert json_value(Line(7, b" ")) is None


def test_a_record_that_is_too_large_is_named() -> None:
    assert text_value(Line(1, bytes(RECORD_SIZE_BYTES_MAX))) is not None
    with pytest.raises(UsageError, match=f"line 2: a record has at most {RECORD_SIZE_BYTES_MAX} bytes, not "):
        text_value(Line(2, bytes(RECORD_SIZE_BYTES_MAX + 1)))


def test_an_unknown_outcome_ends_it_and_says_what_is_known(run: Callable[..., Any], log: Log) -> None:
    log.outcomes = [OutcomeUnknownError("the leader is gone", count=2)]
    done = run(b"a\nb\n", "--json")
    assert str(done.exception) == (
        "the outcome of lines 1 to 2 is unknown: the leader is gone; nothing was committed; later lines were not sent; "
        "`pykraft tail` shows what is in the log"
    )
    told = {"outcome": "unknown", "baseOffset": None, "count": 2, "firstLine": 1, "lastLine": 2}
    assert json.loads(done.stdout) == told


def test_other_errors_say_what_was_committed_before(run: Callable[..., Any], log: Log) -> None:
    log.outcomes = [QuorumUnavailableError("no node answers", "x")]
    assert str(run(b"a\n").exception) == "no node answers: x; nothing was committed"
    long = b"x" * (RECORD_SIZE_BYTES_MAX + 1)
    said = str(run(b"a\nb\n" + b"y" * RECORD_SIZE_BYTES_MAX + b"\n" + long).exception)
    assert said.startswith("line 4: a record has at most")
    assert "; the records up to line " in said


def test_a_file_that_is_not_there_is_named(log: Log) -> None:
    done = CliRunner().invoke(append, ["absent", "--bootstrap-controller", "localhost:1"])
    assert str(done.exception) == "absent: No such file or directory: give a file of lines, or - for standard input"


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
