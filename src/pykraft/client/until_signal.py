"""Ends a program with a node in it gracefully when it gets SIGTERM, SIGINT or SIGHUP.

Invariant: within the block the first signal cancels the block's task, and the block swallows that cancellation; after
it, signals do what they did before the block.

Source: ``asyncio.timeout``, which also ends a block by a cancellation of its own.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pykraft.errors import UsageError
from pykraft.server.signals import ending_signals


@asynccontextmanager
async def until_signal() -> AsyncIterator[None]:
    """Within this block SIGTERM, SIGINT (Ctrl-C) or SIGHUP ends the block, and the program continues after it.

    Signals that the program was started to ignore stay ignored. A second signal, while nodes shut down, does what it
    did before the block: usually it ends the program at once.

    Errors: UsageError outside of the main thread, which alone can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("until_signal() works only in the main thread of the program")
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a block runs in a task"
    before = {number: signal.getsignal(number) for number in ending_signals()}
    cancelling = task.cancelling()
    has_come = False

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            loop.remove_signal_handler(number)
            if handler is not None:  # None: not set from Python
                signal.signal(number, handler)

    def end() -> None:
        nonlocal has_come
        has_come = True
        restore()
        task.cancel("the program got a signal")

    for number in before:
        loop.add_signal_handler(number, end)
    try:
        yield
        if has_come:
            await asyncio.sleep(0)  # the block ended before it was cancelled; take the cancellation here
    except asyncio.CancelledError:
        # Another cancellation than ours goes on.
        if not has_come or task.cancelling() > cancelling + 1:
            raise
    finally:
        restore()
        if has_come:
            task.uncancel()
