"""The parts of a node fit together."""

from __future__ import annotations

from pykraft.core.events import TimerDue
from pykraft.host.parts import assemble
from pykraft.types import NodeId, Offset
from tests.host.fakes import FakeLog, FakePorts, config


def test_all_parts_begin_where_the_recovered_log_ends() -> None:
    stops: list[Exception | None] = []
    parts = assemble(
        FakePorts(),
        config(1),
        node_id=NodeId(1),
        log=FakeLog(),
        start_offset=Offset(3),
        end_offset=Offset(9),
        describe_cluster=lambda request, listener: {"request": request, "listener": listener},
        stop=stops.append,
    )
    assert (parts.recent.start_offset, parts.recent.end_offset) == (9, 9)
    assert parts.delivery.high_watermark == 3
    assert len(parts.held) == len(parts.producers) == 0
    parts.inbox.put(TimerDue())
    parts.stop(None)
    assert stops == [None]
