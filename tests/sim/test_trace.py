"""Lines are kept as far as they are wanted; the digest covers them all, and all that arrived."""

from __future__ import annotations

from pykraft.sim.clock import Clock
from pykraft.sim.trace import LINES_KEPT, Trace


def test_a_line_has_time_node_and_text_in_fixed_columns() -> None:
    clock = Clock()
    clock.after(1_234_567, lambda: None)
    clock.advance()
    trace = Trace(clock, is_kept=True)
    trace.note(3, "is killed")
    trace.note(None, "the network heals")
    assert list(trace.lines) == ["    1.234567   3  is killed", "    1.234567   *  the network heals"]


def test_only_the_last_lines_are_kept_unless_all_were_asked_for() -> None:
    for is_kept, expected in ((False, LINES_KEPT), (True, LINES_KEPT + 5)):
        trace = Trace(Clock(), is_kept=is_kept)
        for number in range(LINES_KEPT + 5):
            trace.note(1, str(number))
        assert len(trace.lines) == expected
        assert trace.lines[-1].endswith(str(LINES_KEPT + 4))


def test_the_digest_covers_every_line_and_every_frame() -> None:
    def digest(*, text: str = "a", frame: bytes = b"b", is_kept: bool = False) -> str:
        trace = Trace(Clock(), is_kept=is_kept)
        trace.note(1, text)
        trace.absorb(frame)
        return trace.digest

    assert digest() == digest(is_kept=True)
    assert len({digest(), digest(text="c"), digest(frame=b"c")}) == 3
