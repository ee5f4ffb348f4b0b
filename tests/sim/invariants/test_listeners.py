"""What the oracles of listeners report, and what they accept."""

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError, listeners
from tests.sim.invariants.fakes import batch, node, snapshot_id, view, world


def test_what_is_not_is_found() -> None:
    made = listeners.DeliveredIsCommitted(world())
    made.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match="is given what is below 1, committed is 0"):
        made.after_event(node(), view())


def test_a_snapshot_of_more_than_that_is_found() -> None:
    made = listeners.DeliveredIsCommitted(world())
    made.loaded(node(), snapshot_id(3))
    with pytest.raises(ViolationError, match="is given what is below 3, committed is 0"):
        made.after_event(node(), view())


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_batch_that_comes_twice_or_is_left_out_is_found(base_offset: int) -> None:
    made = listeners.DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match=f"is given offset {base_offset}, 1 is next"):
        made.delivered(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize("offset", [1, 2])
def test_a_snapshot_that_goes_back_or_brings_nothing_is_found(offset: int) -> None:
    made = listeners.DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a", b"b")])
    with pytest.raises(ViolationError, match=f"a snapshot up to {offset}, 2 is next"):
        made.loaded(node(), snapshot_id(offset))


# late_listener: A listener that begins late, and is not told who leads, is found.
def oracle(told: tuple[int, int | None] | None, role: str = "follower") -> listeners.LateListenersHearWhoLeads:
    """It watches one node of epoch 2, led by node 3, that tells new listeners this."""
    found = node(1, role=role, epoch=2, leader_id=3)

    def register(listener: Any, _from_offset: int) -> None:
        if told is not None:
            listener.on_leader_change(*told)

    found.host.register = register
    made = world()
    made.nodes = {1: found}
    return listeners.LateListenersHearWhoLeads(made)


@pytest.mark.parametrize("told", [None, (2, None), (1, 3)])
def test_silence_and_older_news_are_found(told: tuple[int, int | None] | None) -> None:
    with pytest.raises(ViolationError, match=r"a new listener of node 1 is told .*, and node 3 leads epoch 2"):
        oracle(told).ended()


# plain_listener: A record that a plain listener misses although the log holds it, or without being told, is found.
def cleaned(start_offset: int) -> Any:
    return node(log_start_offset=start_offset)


@pytest.mark.parametrize("base_offset", [4, 6])
def test_a_gap_that_is_not_told_of_and_a_batch_that_comes_twice_are_found(base_offset: int) -> None:
    made = listeners.PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match=f"gives offset {base_offset}, 5 is next"):
        made.overheard(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize(("next_offset", "start_offset"), [(4, 9), (5, 5), (5, 10)])
def test_a_gap_that_is_none_or_too_wide_is_found(next_offset: int, start_offset: int) -> None:
    made = listeners.PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match="5 is next, and the log begins at 9"):
        made.skipped(cleaned(9), next_offset, start_offset)


def test_an_own_leadership_before_its_first_record_is_found() -> None:
    made = listeners.LeaderIsToldInTime(world())
    made.delivered(node(), [batch(0, epoch=1)])
    with pytest.raises(ViolationError, match="it leads epoch 2, and was given records up to epoch 1 only"):
        made.leader_announced(node(), 2, 1)


@pytest.mark.parametrize(("epoch", "leader_id"), [(1, 3), (2, 3), (2, None)])
def test_older_news_and_a_second_leader_are_found(epoch: int, leader_id: int | None) -> None:
    made = listeners.LeaderIsToldInTime(world())
    made.leader_announced(node(), 2, 2)
    with pytest.raises(ViolationError, match=f"is told of epoch {epoch} after epoch 2 of leader 2"):
        made.leader_announced(node(), epoch, leader_id)
