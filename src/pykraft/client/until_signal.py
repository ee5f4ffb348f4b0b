"""Ends a program with a node in it gracefully when it gets SIGTERM, SIGINT or SIGHUP.

Invariant: within the block the first signal cancels the block's task, and the block swallows that cancellation; after
it, signals do what they did before the block.

Source: ``asyncio.timeout``, which also ends a block by a cancellation of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from pykraft.errors import UsageError
from pykraft.process.signals import ending_signals, handlers_restored


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
    cancelling = task.cancelling()
    has_come = False
    handling = ExitStack()
    handling.enter_context(handlers_restored(ending_signals()))

    def end() -> None:
        nonlocal has_come
        has_come = True
        handling.close()
        task.cancel("the program got a signal")

    for number in ending_signals():
        loop.add_signal_handler(number, end)
        handling.callback(loop.remove_signal_handler, number)
    try:
        yield
        if has_come:
            await asyncio.sleep(0)  # the block ended before it was cancelled; take the cancellation here
    except asyncio.CancelledError:
        # Another cancellation than ours goes on.
        if not has_come or task.cancelling() > cancelling + 1:
            raise
    finally:
        handling.close()
        if has_come:
            task.uncancel()
