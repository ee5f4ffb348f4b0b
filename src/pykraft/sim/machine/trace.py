"""The trace of a world: lines of fixed columns, and two digests to compare two runs of a seed.

The last lines are kept to show what led to a failure; ``tell`` is called with each line as it comes. The digest covers
all lines and every byte that arrived anywhere. The wordless digest leaves out the text of the lines, so rewording a
message changes the digest and not the wordless digest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b

from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.recorder import Recorder

LINES_KEPT = 400
"""How many lines a failure shows."""
DIGEST_SIZE_BYTES = 16


class Trace:
    """Lines of time, node and text."""

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
        """Add one line; ``node_id`` is None for what concerns no single node."""
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
        """Add bytes that arrived somewhere to both digests; the lines do not show them."""
        self._digest.update(frame)
        self._wordless.update(b"%d frame " % self._clock.now_us)
        self._wordless.update(frame)

    @property
    def digest(self) -> str:
        """Equal for equal runs, in any process."""
        return self._digest.hexdigest()

    @property
    def wordless_digest(self) -> str:
        """Covers the time and node of each line, and each frame with its time, but not the text of a line."""
        return self._wordless.hexdigest()
