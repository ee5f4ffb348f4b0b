"""The last lines are kept, all go to subscribers; the digest covers all lines and deliveries."""

from __future__ import annotations

from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.trace import LINES_KEPT, Trace


def test_a_line_has_time_node_and_text_in_fixed_columns() -> None:
    clock = Clock()
    clock.after(1_234_567, lambda: None)
    clock.advance()
    trace = Trace(clock)
    trace.note(3, "is killed")
    trace.note(None, "the network heals")
    assert list(trace.lines) == ["    1.234567   3  is killed", "    1.234567   *  the network heals"]


def test_the_last_lines_are_kept_and_all_are_told() -> None:
    told: list[str] = []
    trace = Trace(Clock(), told.append)
    for number in range(LINES_KEPT + 5):
        trace.note(1, str(number))
    assert len(told) == LINES_KEPT + 5
    assert list(trace.lines) == told[5:]


def test_the_digest_covers_every_line_and_every_frame() -> None:
    def digest(*, text: str = "a", frame: bytes = b"b") -> str:
        trace = Trace(Clock())
        trace.note(1, text)
        trace.absorb(frame)
        return trace.digest

    assert digest() == digest()
    assert len({digest(), digest(text="c"), digest(frame=b"c")}) == 3


def test_the_wordless_digest_covers_all_but_the_words() -> None:
    def digest(*, text: str = "a", node_id: int | None = 1, at_us: int = 0, frame: bytes = b"b") -> str:
        clock = Clock()
        clock.after(at_us, lambda: None)
        clock.advance()
        trace = Trace(clock)
        trace.note(node_id, text)
        trace.absorb(frame)
        return trace.wordless_digest

    assert digest() == digest(text="other words")
    assert len({digest(), digest(node_id=2), digest(node_id=None), digest(at_us=1), digest(frame=b"c")}) == 5
