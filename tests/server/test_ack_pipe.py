"""The acknowledgement pipe: whole lines in order, the loop never waits, and the node ends when nobody reads."""

import asyncio
import json
import os
from collections.abc import Iterator
from threading import Thread

import pytest

from pykraft.errors import UsageError
from pykraft.local.journal import Acknowledged, LeadershipEnded, Led, Started, Stopped, parse_event
from pykraft.server import run
from pykraft.server.run import PENDING_SIZE_BYTES_MAX, AckPipe

RUN = "00112233445566ff"
TIMEOUT_S = 10.0


class Pipe:
    """A pipe whose reading end is the test's; the writing end belongs to the `AckPipe`."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        self.failures: list[BaseException] = []
        self.is_read_to = True

    def open(self, loop: asyncio.AbstractEventLoop) -> AckPipe:
        return AckPipe(loop, self.writing, failed=self.failures.append)

    def stop_reading(self) -> None:
        os.close(self.reading)
        self.is_read_to = False

    def lines(self) -> list[bytes]:
        """Everything up to the end of the pipe."""
        with os.fdopen(os.dup(self.reading), "rb") as file:
            return file.readlines()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    if pipe.is_read_to:
        pipe.stop_reading()


def test_lines_are_those_of_a_journal(runner: asyncio.Runner, pipe: Pipe) -> None:
    acks = pipe.open(runner.get_loop())
    acks.write("started", node=1, run=RUN, pid=7, port=9_092)
    acks.write("leader", node=1, run=RUN, epoch=3)
    ack = {"first_sequence": 0, "count": 2, "base_offset": 9, "wall_ms": 5, "latency_ms": 1.5}
    acks.write("ack", node=1, run=RUN, epoch=3, **ack)
    acks.write("resigned", node=1, epoch=3)
    acks.write("stopped", node=1)
    acks.close()
    acks.close()
    events = [parse_event(line) for line in pipe.lines()]
    assert [type(event) for event in events] == [Started, Led, Acknowledged, LeadershipEnded, Stopped]
    assert pipe.failures == []


def test_a_slow_reader_gets_everything_and_nobody_waits_for_it(runner: asyncio.Runner, pipe: Pipe) -> None:
    count = 5_000

    async def main() -> None:
        acks = pipe.open(asyncio.get_running_loop())
        for number in range(count):
            acks.write("ack", number=number, filler="x" * 100)
        received = bytearray()
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def read() -> None:
            received.extend(os.read(pipe.reading, 65_536))
            if received.count(b"\n") == count:
                done.set_result(None)

        loop.add_reader(pipe.reading, read)
        await asyncio.wait_for(done, TIMEOUT_S)
        loop.remove_reader(pipe.reading)
        assert [json.loads(line)["number"] for line in received.splitlines()] == list(range(count))
        acks.write("stopped")
        acks.close()
        assert len(pipe.lines()) == 1

    runner.run(main())
    assert pipe.failures == []


def test_at_the_end_it_waits_for_a_reader_a_moment(runner: asyncio.Runner, pipe: Pipe) -> None:
    acks = pipe.open(runner.get_loop())
    for number in range(5_000):
        acks.write("ack", number=number, filler="x" * 100)
    lines: list[bytes] = []
    reader = Thread(target=lambda: lines.extend(pipe.lines()))
    reader.start()
    acks.close()
    reader.join(TIMEOUT_S)
    assert len(lines) == 5_000


def test_at_the_end_it_waits_no_longer_than_that(
    runner: asyncio.Runner, pipe: Pipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LAST_WORDS_TIMEOUT_S", 0.01)
    acks = pipe.open(runner.get_loop())
    for number in range(5_000):
        acks.write("ack", number=number, filler="x" * 100)
    acks.close()
    assert 0 < len(pipe.lines()) < 5_000


def test_a_reader_that_does_not_read_ends_the_node(runner: asyncio.Runner, pipe: Pipe) -> None:
    acks = pipe.open(runner.get_loop())
    for _ in range(20):
        acks.write("ack", filler="x" * (PENDING_SIZE_BYTES_MAX // 16))
    [failure] = pipe.failures
    assert isinstance(failure, UsageError)
    assert "the reader does not keep up" in str(failure)
    acks.close()


def test_a_reader_that_is_gone_ends_the_node(runner: asyncio.Runner, pipe: Pipe) -> None:
    acks = pipe.open(runner.get_loop())
    pipe.stop_reading()
    acks.write("ack")
    acks.write("ack")
    acks.close()
    [failure] = pipe.failures
    assert isinstance(failure, UsageError)
    assert str(pipe.writing) in str(failure)


@pytest.mark.parametrize("descriptor", [-1, 9_999, 2**40])
def test_a_descriptor_that_is_not_open_is_refused(runner: asyncio.Runner, descriptor: int) -> None:
    with pytest.raises(UsageError, match=f"--ack-fd {descriptor}"):
        AckPipe(runner.get_loop(), descriptor, failed=lambda error: None)
