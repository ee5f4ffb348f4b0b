"""What happened in a world, as lines of fixed columns, and two digests that two runs of a seed share.

The last lines are kept, to show what led to a failure; whoever wants all of them is told each as it comes. The
digest covers all of them, and every byte that arrived anywhere. The wordless digest leaves out what the lines say,
so a change of a message in the trace changes the one and not the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b

from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.recorder import Recorder

LINES_KEPT = 400
"""What a failure shows."""
DIGEST_SIZE_BYTES = 16


class Trace:
    """Time, node, text."""

    def __init__(
        self, clock: Clock, tell: Callable[[str], None] | None = None, recorder: Recorder | None = None
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._recorder = recorder
        self._digest = blake2b(digest_size=DIGEST_SIZE_BYTES)
        self._wordless = blake2b(digest_size=DIGEST_SIZE_BYTES)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def note(self, node_id: int | None, text: str) -> None:
        """One line; None for what concerns no single node."""
        where = "  *" if node_id is None else f"{node_id:3}"
        line = f"{self._clock.now_us / 1e6:12.6f} {where}  {text}"
        self._digest.update(line.encode())
        self._wordless.update(f"{self._clock.now_us} {where} ".encode())
        self.lines.append(line)
        if self._tell is not None:
            self._tell(line)
        if self._recorder is not None:
            self._recorder.note(self._clock.now_us, node_id, text)

    def absorb(self, frame: bytes) -> None:
        """Bytes that arrived somewhere: part of both digests, not of the lines."""
        self._digest.update(frame)
        self._wordless.update(b"%d frame " % self._clock.now_us)
        self._wordless.update(frame)

    @property
    def digest(self) -> str:
        """The same for the same seed, in any process."""
        return self._digest.hexdigest()

    @property
    def wordless_digest(self) -> str:
        """Covers when each line came and for which node, and each frame with its time, but not the words of a line."""
        return self._wordless.hexdigest()
