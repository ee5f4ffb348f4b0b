"""Failures of snapshot files: told once in a pause, and tried again after it.

Source: ours (ADR 134); Kafka's ``FaultHandler``.
"""

from __future__ import annotations

from pykraft.errors import SnapshotFailedError, StorageError
from pykraft.host.snapshots.failures import PAUSES_MAX, SnapshotAccess, SnapshotFailures, SnapshotTroubles
from tests.host.fakes import FakePorts, at

FULL = SnapshotFailedError.of(StorageError("x.part", "cannot write: No space left on device", repair="start again"))


def pauses(failures: SnapshotFailures, count: int) -> list[int]:
    """How long each of so many failures, one after the other, holds back the next attempt."""
    found: list[int] = []
    now_ms = 0
    for _ in range(count):
        failures.failed(FULL)
        failures.poll(at(now_ms))
        end_ms = failures.next_deadline_ms
        assert end_ms is not None
        failures.poll(at(end_ms - 1))
        assert failures.is_pausing
        failures.poll(at(end_ms))
        assert not failures.is_pausing
        found.append(end_ms - now_ms)
        now_ms = end_ms
    return found


def test_pause_doubles_up_to_a_limit_and_is_short_after_a_success() -> None:
    failures = SnapshotFailures(FakePorts(), SnapshotAccess.WRITE, pause_ms=100)
    assert pauses(failures, 7) == [100, 200, 400, 800, 1_600, 100 * PAUSES_MAX, 100 * PAUSES_MAX]
    failures.succeeded()
    assert pauses(failures, 2) == [100, 200]
    assert failures.count == 9


def test_failures_within_a_pause_are_counted_and_not_told() -> None:
    ports = FakePorts()
    troubles = SnapshotTroubles(ports, pause_ms=100)
    assert troubles.next_deadline_ms is None
    troubles.reading.failed(FULL)
    assert [troubles.next_deadline_ms, ports.wake_ms] == [0, 0]
    troubles.reading.failed(FULL)
    troubles.poll(at(50))
    troubles.reading.failed(FULL)
    assert troubles.next_deadline_ms == 150
    assert troubles.count == 3
    (alarm,) = ports.alarms
    assert alarm.startswith("SNAPSHOT NOT READ: x.part: cannot write: No space left on device; the node goes on")
    assert "start again" not in alarm
    assert not troubles.writing.is_pausing


def test_what_waits_is_tried_once_when_the_pause_is_over() -> None:
    failures = SnapshotFailures(FakePorts(), SnapshotAccess.READ, pause_ms=100)
    tries: list[int] = []
    failures.failed(FULL)
    failures.after_pause(lambda: tries.append(1))
    for mono_ms in (0, 99, 100, 300):
        failures.poll(at(mono_ms))
    assert tries == [1]
