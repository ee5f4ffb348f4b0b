"""Answers scrapes in a thread of its own, for a program that has no event loop.

Invariant: when the block ends, the thread has ended and nothing listens any more, however the block ends.

Source: `pykraft.server.prometheus`, which has the limits.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Thread

from pykraft.server.prometheus import PrometheusEndpoint


@contextmanager
def metrics_thread(sockets: Sequence[socket.socket], render: Callable[[], bytes]) -> Iterator[None]:
    """Serve on these listening sockets within this block; ``render`` is called in the thread, and must not block."""
    begun: Future[asyncio.AbstractEventLoop] = Future()
    ended = asyncio.Event()

    async def serve() -> None:
        endpoint = PrometheusEndpoint(asyncio.get_running_loop(), render)
        try:
            await endpoint.listen(sockets)
            await ended.wait()
        finally:
            endpoint.close()

    def run() -> None:
        with asyncio.Runner() as runner:
            begun.set_result(runner.get_loop())
            runner.run(serve())

    # A daemon, so that nothing that may go wrong here keeps the process.
    thread = Thread(target=run, name="metrics", daemon=True)
    thread.start()
    loop = begun.result()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
