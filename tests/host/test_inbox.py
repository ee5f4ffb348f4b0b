"""Events wait in order, with the records that arrived with them.

Source: the shape is dask's ``worker_state_machine`` (instructions out, events in).
"""

from __future__ import annotations

import pytest

from pykraft.core.events import Persisted, TimerDue
from pykraft.host.inbox import Arrival, Inbox
from pykraft.types import Io
from tests.host.fakes import batch


@pytest.mark.conformance(115)
def test_events_come_out_in_the_order_in_which_they_happened() -> None:
    inbox = Inbox()
    inbox.put(TimerDue())
    inbox.put(Persisted(io=Io(1)), [batch(0)])
    assert inbox.take() == Arrival(TimerDue(), ())
    assert inbox.take() == Arrival(Persisted(io=Io(1)), [batch(0)])
    assert inbox.take() is None


@pytest.mark.conformance(115)
def test_a_closed_inbox_forgets_what_waits_and_what_comes() -> None:
    inbox = Inbox()
    inbox.put(TimerDue())
    assert not inbox.is_closed
    inbox.close()
    inbox.put(TimerDue())
    assert inbox.is_closed
    assert inbox.take() is None
