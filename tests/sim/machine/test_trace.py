"""The last lines are kept, all go to subscribers; the digest covers all lines and deliveries.

Recorded events are in order, states only when they change, and the last events are kept.
"""

from dataclasses import replace

from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.trace import (
    LINES_KEPT,
    Arrived,
    Changed,
    FaultInjected,
    NodeState,
    Recorder,
    Sent,
    Trace,
    TraceLine,
)
from pykraft.sim.run.simulation import simulate


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


STATE = NodeState(
    role="follower", epoch=1, leader_id=2, vote=None, disk_epoch=1, log_end=5, flushed=4, high_watermark=None
)
SEED = 2


def test_events_are_kept_in_order() -> None:
    recorder = Recorder()
    number = recorder.sent(1, 1, 2, b"frame")
    recorder.arrived(2, 2, number)
    assert recorder.sent(3, 1, 3, b"another") != number
    recorder.fault(4, None, "split")
    recorder.note(5, 3, "starts")
    recorder.state(6, 3, STATE)
    assert [type(event) for event in recorder.events] == [Sent, Arrived, Sent, FaultInjected, TraceLine, Changed]
    assert [event.at_us for event in recorder.events] == [1, 2, 3, 4, 5, 6]
    assert recorder.dropped == 0


def test_a_state_that_is_as_before_is_no_event() -> None:
    recorder = Recorder()
    for state in (STATE, STATE, replace(STATE, flushed=5), replace(STATE, flushed=5)):
        recorder.state(1, 1, state)
    recorder.state(1, 2, STATE)
    assert len(recorder.events) == 3


def test_the_last_events_are_kept_and_the_others_counted() -> None:
    recorder = Recorder(events_max=3)
    for at_us in range(5):
        recorder.note(at_us, None, "a note")
    assert [event.at_us for event in recorder.events] == [2, 3, 4]
    assert recorder.dropped == 2


def test_a_world_is_the_same_whether_it_is_recorded_or_not() -> None:
    recorder = Recorder()
    assert simulate(SEED, recorder=recorder) == simulate(SEED)
    kinds = {type(event) for event in recorder.events}
    assert kinds == {Sent, Arrived, Changed, FaultInjected, TraceLine}
    assert recorder.nodes
    times = [event.at_us for event in recorder.events]
    assert times == sorted(times)
