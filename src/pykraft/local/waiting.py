"""Waits for the effect of another process by checking again and again until a deadline, never for a fixed time.

Invariant: a wait ends at once when the process that must bring about the result has died.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from pykraft.errors import LocalQuorumError
from pykraft.local.child import WAIT_TIMEOUT_S, Child

T = TypeVar("T")

POLL_INTERVAL_S = 0.02


def wait_until(
    look: Callable[[], T | None],
    what: str,
    *,
    timeout_s: float = WAIT_TIMEOUT_S,
    alive: Sequence[Child] = (),
    pause: Callable[[float], object] = time.sleep,
    interval_s: float = POLL_INTERVAL_S,
) -> T:
    """The first result of ``look`` that is neither None nor False; ``pause`` waits between two.

    Errors: LocalQuorumError with ``what`` at the timeout, and as soon as one of the processes that must stay ``alive``
    has ended; any exception of ``look``.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        result = look()
        if result is not None and result is not False:
            return result
        ended = [f"{child.name} ended with {child.status}" for child in alive if child.status is not None]
        if ended:
            raise LocalQuorumError(f"while waiting for {what}: {', '.join(ended)}")
        if time.monotonic() >= deadline:
            raise LocalQuorumError(f"waited {timeout_s:g} s for {what}")
        pause(interval_s)
