"""Scrapes of a program without a loop are answered by a thread, which ends with the block."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from pykraft.server.binding import listening_sockets, port_of
from pykraft.spark.pipeline.metrics_thread import metrics_thread
from pykraft.types import Endpoint

TIMEOUT_S = 10.0


def scrape(port: int) -> bytes:
    with urlopen(f"http://localhost:{port}/metrics", timeout=TIMEOUT_S) as answer:
        body: bytes = answer.read()
    return body


@contextmanager
def served(rendered: list[str]) -> Iterator[int]:
    """The port; ``rendered`` gets the name of the thread that renders."""

    def render() -> bytes:
        rendered.append(threading.current_thread().name)
        return b"one 1.0\n"

    sockets = listening_sockets(Endpoint("localhost", 0))
    with metrics_thread(sockets, render):
        yield port_of(sockets)


def test_scrapes_are_answered_until_the_block_ends() -> None:
    rendered: list[str] = []
    with served(rendered) as port:
        assert [scrape(port) for _ in range(3)] == [b"one 1.0\n"] * 3
    assert rendered == ["metrics"] * 3
    assert "metrics" not in [thread.name for thread in threading.enumerate()]
    with pytest.raises(URLError, match="refused"):
        scrape(port)


def test_an_error_in_the_block_ends_the_thread_too() -> None:
    with pytest.raises(KeyboardInterrupt), served([]):
        raise KeyboardInterrupt
    assert "metrics" not in [thread.name for thread in threading.enumerate()]
