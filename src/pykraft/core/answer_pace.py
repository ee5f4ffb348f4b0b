"""How long to wait for a response that arrives slowly, at its receiver and at its sender.

Time is cut into windows of one timeout. Another window follows if enough of the response moved in the last one: at
least the share that completes it within `WINDOWS_MAX` windows, and at least a floor, so that a few bytes per second
keep nobody waiting. After `WINDOWS_MAX` windows the wait ends. So a slow link does not look like a dead leader, and a
leader that trickles bytes or freezes is given up after one timeout.

A sender sees less: bytes that have left wait in buffers on their way, where nobody tells how many are left. So at its
sender an answer moves at most at `UNSEEN_BYTES_PER_MS`, whatever the kernel says: a voter that takes one batch of
8 MiB counts for up to 16 s, and one whose answers are below `core.events.UNSEEN_SIZE_BYTES` no longer than it did.

Source: ours (ADR 036, ADR 139); Kafka's clients count only whole responses.
"""

from dataclasses import dataclass
from typing import Final

WINDOWS_MAX: Final = 30
"""Upper bound of timeouts that one response may take."""
FLOOR_SHARE: Final = 64
"""At least 1/64 of a full Fetch response must move in each window, however small the response is."""
FLOOR_BYTES_MAX: Final = 16 * 1024
"""More need not move because a node asks for large responses: a link too slow for those carries smaller ones."""
UNSEEN_BYTES_PER_MS: Final = 512
"""An answer counts as arriving at no more than this: about half of a MB in a second."""


@dataclass(slots=True, kw_only=True)
class AnswerPace:
    """One answer; sizes in bytes, times in mono ms."""

    begun_ms: int
    window_ms: int
    floor_bytes: int
    moved_bytes: int = 0
    """Bytes that had moved when the current window began."""

    def advance(self, moved_bytes: int, size_bytes: int, now_ms: int) -> bool:
        """True when enough moved in the current window; the next window then begins."""
        if now_ms - self.begun_ms >= WINDOWS_MAX * self.window_ms:
            return False
        # The share is rounded up, so that `WINDOWS_MAX` windows complete the response.
        wanted_bytes = max(self.floor_bytes, -(-size_bytes // WINDOWS_MAX))
        if moved_bytes - self.moved_bytes < wanted_bytes:
            return False
        self.moved_bytes = moved_bytes
        return True

    def sent(self, sent_bytes: int, size_bytes: int, now_ms: int) -> bool:
        """As `advance`, at the sender."""
        unseen_bytes = UNSEEN_BYTES_PER_MS * (now_ms - self.begun_ms)
        return self.advance(min(sent_bytes, unseen_bytes), size_bytes, now_ms)


def floor_bytes(fetch_size_bytes_max: int) -> int:
    """Bytes that must move in each window, given the maximum size of a Fetch response."""
    return max(1, min(FLOOR_BYTES_MAX, fetch_size_bytes_max // FLOOR_SHARE))
