"""The memory that a call takes, and nothing else.

``tracemalloc`` counts whatever any thread allocates. The one that receives pytest-xdist's messages reads the numbers of
a thousand tests at the moment when another worker takes them over, which costs 40 kB and more; and a garbage collection
may end what an earlier test left, with a warning and all that it quotes.
"""

import gc
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TRIES_MAX = 3
"""What others allocate meanwhile comes once; what the call takes comes each time."""


def taking_less_than(size_bytes: int, call: Callable[[], T]) -> T:
    """The call's result. At all times it holds less than so many bytes; a call that did not is made again.

    So the call must take the same each time: what it changes it also makes. Errors: AssertionError.
    """
    peaks = []
    for _ in range(TRIES_MAX):
        result, peak_bytes = _traced(call)
        if peak_bytes < size_bytes:
            return result
        peaks.append(peak_bytes)
    raise AssertionError(f"it takes {peaks} bytes, each time at least {size_bytes}")


def _traced(call: Callable[[], T]) -> tuple[T, int]:
    is_collected = gc.isenabled()
    gc.disable()
    tracemalloc.start()
    try:
        result = call()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if is_collected:
            gc.enable()
