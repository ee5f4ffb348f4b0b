"""Recorded events are in order, states only when they change, and the last events are kept."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.machine.recorder import Arrived, Changed, FaultInjected, NodeState, Recorder, Sent, TraceLine
from pykraft.sim.run.simulation import simulate

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
