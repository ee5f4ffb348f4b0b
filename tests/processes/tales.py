"""What programs with an embedded node wrote to their pipes: one tale for each process of each program.

Invariant: a tale holds every line that was written before the program was killed, and no partial line. Tests wait for
the tale, not for the clock.
"""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Condition, Thread

from pykraft.local.child import Child


@dataclass(frozen=True)
class Seen:
    """One batch that a listener was given; ``last_offset`` is inclusive."""

    base_offset: int
    last_offset: int
    digest: int


@dataclass(frozen=True)
class Acked:
    """One proposal that was committed."""

    base_offset: int
    count: int
    digest: int


@dataclass
class Tale:
    """One life of one program; ``from_offset`` is where its late listener was to begin."""

    node_id: int
    from_offset: int
    is_started: bool = False
    is_over: bool = False
    acked: list[Acked] = field(default_factory=list)
    seen: dict[str, list[Seen]] = field(default_factory=lambda: {"early": [], "late": []})

    def next_offset(self, listener: str) -> int:
        """Where this listener would go on."""
        begin = self.from_offset if listener == "late" else 0
        return self.seen[listener][-1].last_offset + 1 if self.seen[listener] else begin


class Tales:
    """All lives so far, in the order of their starts."""

    def __init__(self) -> None:
        self.lives: list[Tale] = []
        self._changed = Condition()

    def begin(self, node_id: int, from_offset: int, descriptor: int) -> Tale:
        """A life begins that tells on this pipe."""
        tale = Tale(node_id, from_offset)
        self.lives.append(tale)
        Thread(target=self._read, args=(descriptor, tale), daemon=True).start()
        return tale

    def acked(self, *, except_by: int | None = None) -> int:
        """How many proposals were acknowledged so far, by others than this node."""
        return sum(len(tale.acked) for tale in self.lives if tale.node_id != except_by)

    def wait_until(
        self, condition: Callable[[], bool], what: str, alive: Sequence[Child], *, timeout_s: float = 60.0
    ) -> None:
        """Wait until this is so. Errors: AssertionError when the time is over, or one that is to be alive has ended."""
        deadline_s = time.monotonic() + timeout_s
        with self._changed:
            while not condition():
                ended = [f"{child.name} ended with {child.status}" for child in alive if child.status is not None]
                assert not ended, f"while waiting for {what}: {ended}"
                assert time.monotonic() < deadline_s, f"waited {timeout_s} s for {what}"
                self._changed.wait(0.2)

    def _read(self, descriptor: int, tale: Tale) -> None:
        with os.fdopen(descriptor, "rb") as pipe:
            for line in pipe:
                if line.endswith(b"\n"):
                    with self._changed:
                        _take(tale, json.loads(line))
                        self._changed.notify_all()
        with self._changed:
            tale.is_over = True
            self._changed.notify_all()


def _take(tale: Tale, words: Sequence[object]) -> None:
    match words:
        case ["started"]:
            tale.is_started = True
        case ["ack", int(base_offset), int(count), int(digest)]:
            tale.acked.append(Acked(base_offset, count, digest))
        case ["seen", str(listener), int(base_offset), int(last_offset), int(digest)]:
            tale.seen[listener].append(Seen(base_offset, last_offset, digest))
        case _:
            raise AssertionError(f"not a line of a tale: {words}")
