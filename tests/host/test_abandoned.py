"""When a connection closes, its requests end, and the core hears of a parked Fetch.

Source: ours; Kafka's ``SocketServer`` lets an abandoned Fetch expire.
"""

from __future__ import annotations

import pytest

from pykraft.core.events import RequestAbandoned
from pykraft.core.messages import FetchResponse
from pykraft.protocol.api import ApiKey
from pykraft.types import Epoch, NodeId, Offset
from tests.host.test_inbound import ONE, Desk, fetch_body


@pytest.mark.conformance(117)
def test_the_core_hears_that_nobody_waits_for_a_fetch_any_more() -> None:
    desk = Desk()
    desk.vote()
    desk.ask(ApiKey.FETCH, 17, fetch_body())
    desk.ask(ApiKey.FETCH, 17, fetch_body())
    _, first, second = desk.received()
    assert desk.inbound.awaits(first.request_id)
    desk.inbound.reply(
        first.request_id,
        FetchResponse(
            error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
        ),
    )
    desk.inbound.on_closed(ONE)
    found = desk.inbox.take()
    assert found is not None
    assert found.event == RequestAbandoned(request_id=second.request_id)
    assert desk.inbox.take() is None
    assert not desk.inbound.awaits(second.request_id)
