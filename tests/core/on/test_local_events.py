"""Every event that is not a message, a finished write or a timer has its handler in the table.

Source: Kafka's ``RaftClient``, whose methods most of these are.
"""

from __future__ import annotations

from typing import get_args

from pykraft.core import events
from pykraft.core.on.local_events import HANDLERS, on_local_event
from tests.core.replicas import NOW, done, replica


def test_every_local_event_has_a_handler() -> None:
    others = {
        events.RequestReceived,
        events.RequestAbandoned,
        events.ResponseReceived,
        events.SendFailed,
        events.Persisted,
        events.TimerDue,
    }
    assert set(HANDLERS) == set(get_args(events.Event)) - others


def test_a_local_event_reaches_its_handler() -> None:
    made = replica()
    on_local_event(made, events.ShutdownRequested(timeout_ms=9), NOW)
    assert made.is_shutting_down
    assert done(made)
