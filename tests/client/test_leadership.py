"""Claims and resignations alternate, whatever the order of leaders and epochs."""

import asyncio

import pytest

from pykraft.client import Reader
from pykraft.client.leadership import OPTIONAL, ClaimAdapter, LeaderAndEpoch
from pykraft.types import Epoch, NodeId


class Claiming:
    """Notes what it is told; one method is plain, one is not."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []
        self.readers = 0

    def handle_commit(self, reader: Reader[str]) -> None:
        self.readers += 1

    async def handle_claim(self, epoch: Epoch) -> None:
        self.heard.append(("claim", epoch))

    def handle_resign(self, epoch: Epoch) -> None:
        self.heard.append(("resign", epoch))


class Leaving(Claiming):
    """Wants to hear of the end, too."""

    def begin_shutdown(self) -> None:
        self.heard.append(("goodbye", 0))


def leader(node_id: int | None, epoch: int) -> LeaderAndEpoch:
    return LeaderAndEpoch(None if node_id is None else NodeId(node_id), Epoch(epoch))


def reported(*news: LeaderAndEpoch, node_id: int | None = 1) -> list[tuple[str, int]]:
    listener = Claiming()
    adapter = ClaimAdapter(listener, node_id)

    async def main() -> None:
        for one in news:
            await adapter.handle_leader_change(one)

    asyncio.run(main())
    return listener.heard


@pytest.mark.parametrize(("node_id", "expected"), [(2, True), (1, False), (None, False)])
def test_who_leads(node_id: int | None, expected: bool) -> None:
    assert leader(2, 5).is_leader(node_id) is expected
    assert leader(None, 5).is_leader(node_id) is False


@pytest.mark.conformance("H41")
def test_a_claim_ends_with_the_next_epoch() -> None:
    assert reported(leader(1, 1), leader(None, 2), leader(2, 2)) == [("claim", 1), ("resign", 1)]


@pytest.mark.conformance("H41")
def test_a_leader_that_leads_again_resigns_in_between() -> None:
    assert reported(leader(1, 1), leader(1, 3)) == [("claim", 1), ("resign", 1), ("claim", 3)]


def test_leaders_elsewhere_are_of_no_interest() -> None:
    assert reported(leader(2, 1), leader(None, 2), leader(3, 2)) == []
    assert reported(leader(2, 1), node_id=None) == []


async def test_commits_and_the_end_are_passed_on() -> None:
    quiet, leaving = Claiming(), Leaving()

    for listener in (quiet, leaving):
        adapter = ClaimAdapter(listener, 1)
        assert adapter.handle_commit(Reader([])) is None
        for name in OPTIONAL:
            assert hasattr(adapter, name) == hasattr(listener, name)
        if isinstance(listener, Leaving):
            call = vars(adapter)["begin_shutdown"]
            call()
    assert (quiet.readers, quiet.heard) == (1, [])
    assert (leaving.readers, leaving.heard) == (1, [("goodbye", 0)])
