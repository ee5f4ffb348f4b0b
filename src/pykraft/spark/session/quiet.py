"""Filters lines out of standard error that nobody can act on, also those of processes started meanwhile.

Spark's Java process warns at each start about a module that Spark itself requests. It writes to the standard error that
it inherited, so this block replaces that with a pipe and reads it. Invariant: every other line passes, in order; the
pipe outlives the block as long as somebody writes to it.

Source: POSIX ``dup2``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Thread

ERROR_FD = 2


@contextmanager
def without_lines(unwanted: Sequence[bytes]) -> Iterator[None]:
    """Within this block file descriptor 2 is such a pipe. Use it only while no other thread starts processes."""
    sys.stderr.flush()
    real = os.dup(ERROR_FD)
    reading, writing = os.pipe()
    os.dup2(writing, ERROR_FD)
    os.close(writing)
    Thread(target=_pass_on, args=(reading, real, frozenset(unwanted)), name="standard error", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, ERROR_FD)


def _pass_on(reading: int, real: int, unwanted: frozenset[bytes]) -> None:
    """Copy line by line until nobody can write any more."""
    with os.fdopen(reading, "rb") as lines, os.fdopen(real, "wb", buffering=0) as out:
        for line in lines:
            if line.rstrip() not in unwanted:
                out.write(line)
