"""The progress of an answer, sent or received, is known as long as it matters.

Source: ours (ADR 036).
"""

from __future__ import annotations

import pytest

from pykraft.core.events import UNSEEN_SIZE_BYTES
from pykraft.core.messages import FetchResponse
from pykraft.protocol.api import ApiKey
from pykraft.types import Epoch, NodeId, Offset
from tests.host.fakes import batch
from tests.host.test_inbound import ONE, Desk, fetch_body
from tests.host.test_peers import Desk as Dialing
from tests.rpc.test_connection import vote_answer


def test_how_much_of_a_watched_answer_has_left_is_told_until_all_has() -> None:
    desk = Desk()
    for _ in range(2):
        desk.ask(ApiKey.FETCH, 18, fetch_body())
    first, event = desk.received()
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    desk.inbound.reply(first.request_id, response, [batch(4)[1]])
    assert desk.inbound.leaving() == []
    desk.inbound.reply(event.request_id, response, [batch(4, b"x" * 5_000)[1]], is_watched=True)
    size_bytes = len(desk.ports.sent[-1][1]) + 4
    for unsent_bytes in (size_bytes + 100, 2_000, 0):
        desk.ports.unsent[ONE] = unsent_bytes
        (gone,) = desk.inbound.leaving()
        assert (gone.request_id, gone.size_bytes) == (event.request_id, size_bytes)
        assert gone.sent_bytes == max(0, size_bytes - unsent_bytes)
    assert desk.inbound.leaving() == []


def test_a_large_answer_that_has_left_is_told_until_its_receiver_asks_again() -> None:
    desk = Desk()
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    (event,) = desk.received()
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    records = batch(4, b"x" * UNSEEN_SIZE_BYTES)[1]
    desk.inbound.reply(event.request_id, response, [records], is_watched=True)
    desk.ports.unsent[ONE] = 0
    for _ in range(3):
        (gone,) = desk.inbound.leaving()
        assert gone.sent_bytes == gone.size_bytes > UNSEEN_SIZE_BYTES
    desk.vote()
    assert desk.inbound.leaving() == []


@pytest.mark.parametrize("ends", [False, True])
def test_who_asks_again_or_is_gone_has_no_answer_that_leaves(ends: bool) -> None:
    desk = Desk()
    desk.ask(ApiKey.FETCH, 18, fetch_body())
    (event,) = desk.received()
    response = FetchResponse(
        error=0, epoch=Epoch(3), leader_id=NodeId(1), high_watermark=Offset(4), log_start_offset=Offset(0)
    )
    desk.inbound.reply(event.request_id, response, is_watched=True)
    if ends:
        desk.inbound.on_closed(ONE)
    else:
        desk.vote()
    assert desk.inbound.leaving() == []


def test_how_much_of_an_answer_has_come_is_told_while_it_is_awaited() -> None:
    desk = Dialing()
    correlation_id = desk.send()
    assert desk.peers.arriving() == [], "nothing is asked yet"
    connection = desk.connect()
    assert desk.peers.arriving() == []
    desk.ports.received[connection] = (300, 1_000)
    (there,) = desk.peers.arriving()
    assert (there.peer_id, there.correlation_id) == (2, correlation_id)
    assert (there.received_bytes, there.size_bytes) == (300, 1_000)
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    assert desk.peers.arriving() == [], "nothing is awaited any more"
