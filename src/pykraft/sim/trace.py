"""What happened in a world, as lines of fixed columns, and a digest that two runs of a seed share.

The last lines are kept, to show what led to a failure; whoever wants all of them is told each as it comes. The
digest always covers all of them, and every byte that arrived anywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b

from pykraft.sim.clock import Clock
from pykraft.sim.recorder import Recorder

LINES_KEPT = 400
"""What a failure shows."""


class Trace:
    """Time, node, text."""

    def __init__(
        self, clock: Clock, tell: Callable[[str], None] | None = None, recorder: Recorder | None = None
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._recorder = recorder
        self._digest = blake2b(digest_size=16)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def note(self, node_id: int | None, text: str) -> None:
        """One line; None for what concerns no single node."""
        where = "  *" if node_id is None else f"{node_id:3}"
        line = f"{self._clock.now_us / 1e6:12.6f} {where}  {text}"
        self._digest.update(line.encode())
        self.lines.append(line)
        if self._tell is not None:
            self._tell(line)
        if self._recorder is not None:
            self._recorder.note(self._clock.now_us, node_id, text)

    def absorb(self, frame: bytes) -> None:
        """Bytes that arrived somewhere: part of the digest, not of the lines."""
        self._digest.update(frame)

    @property
    def digest(self) -> str:
        """The same for the same seed, in any process."""
        return self._digest.hexdigest()
