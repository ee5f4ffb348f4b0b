"""Batches of one connection go on in their order, whatever their checks take.

Source: ours (ADR 076).
"""

from __future__ import annotations

from pykraft.errors import ProtocolError
from pykraft.host.clients.produce_requests import AppendOrder, CheckResult
from pykraft.host.ports import ConnectionId
from pykraft.protocol.batch import BatchHeader
from tests.host.clients.world import batch_of

ONE, OTHER = ConnectionId(1), ConnectionId(2)
ID = 7


def header(sequence: int) -> BatchHeader:
    return batch_of(producer_id=ID, sequence=sequence)[0]


class Desk:
    """What has gone on, and which producer ids are held."""

    def __init__(self) -> None:
        self.held: set[int] = set()
        self.gone: list[CheckResult] = []
        self.order = AppendOrder(lambda found: found.producer_id in self.held)


def test_a_checked_batch_waits_for_the_one_before_it() -> None:
    desk = Desk()
    large = desk.order.join(ONE, desk.gone.append)
    assert not desk.order.passes(ONE, header(1))
    assert desk.order.passes(OTHER, header(1)), "another connection does not wait"
    desk.order.join(ONE, desk.gone.append).found = header(1)
    desk.order.advance()
    assert desk.gone == []
    large.found = header(0)
    desk.order.advance()
    assert desk.gone == [header(0), header(1)]
    assert len(desk.order) == 0
    assert desk.order.passes(ONE, header(2))


def test_a_batch_waits_while_one_of_its_producer_has_no_place() -> None:
    desk = Desk()
    desk.held.add(ID)
    bad = ProtocolError("bad")
    assert not desk.order.passes(ONE, header(0))
    assert desk.order.passes(ONE, bad), "a bad batch waits for nobody"
    desk.order.join(ONE, desk.gone.append).found = header(0)
    desk.order.join(OTHER, desk.gone.append).found = bad
    desk.order.advance()
    assert desk.gone == [bad]
    desk.held.clear()
    desk.order.advance()
    assert desk.gone == [bad, header(0)]


def test_a_batch_that_goes_on_may_free_others() -> None:
    desk = Desk()
    desk.held.add(ID)

    def rejects(found: CheckResult) -> None:
        desk.gone.append(found)
        desk.held.clear()
        desk.order.advance()

    desk.order.join(ONE, desk.gone.append).found = header(0)
    desk.order.join(OTHER, rejects).found = ProtocolError("bad")
    desk.order.advance()
    assert [type(each) for each in desk.gone] == [ProtocolError, BatchHeader]
