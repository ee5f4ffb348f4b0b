"""A follower believes that its leader has left when two signs agree: EndQuorumEpoch, and the leader's own answer."""

from collections.abc import Callable

import pytest

from pykraft.core.departure import note_denial_of_leader
from pykraft.core.events import SendFailed
from pykraft.core.raft import on_send_failed
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.errors import ErrorCode
from tests.core.replicas import LATER_MS, NOW, STATES, answer, ask, done, follower, key, later, replica
from tests.core.said import end, fetched

NOT_LEADER = fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)


def say_goodbye(made: Replica) -> None:
    """The first sign: node 3 is to lead, or else this one."""
    ask(made, end(successors=(3, 1)))


def deny(made: Replica) -> None:
    """The second sign, in the answer to a Fetch."""
    answer(made, NOT_LEADER)


def refuse(made: Replica, peer_id: int = 2) -> None:
    """The second sign of a machine where the leader's process has ended."""
    failed = SendFailed(peer_id=peer_id, correlation_id=0, error=ErrorCode.BROKER_NOT_AVAILABLE, is_refused=True)
    on_send_failed(made, failed, NOW)
    done(made)


def following() -> Replica:
    """It hears its leader, node 2."""
    return replica(follower(has_fetched=True))


def state_of(made: Replica) -> Follower:
    assert isinstance(made.state, Follower)
    return made.state


def test_a_goodbye_alone_is_only_remembered() -> None:
    made = following()
    say_goodbye(made)
    state = state_of(made)
    assert state.successors == (key(3), key(1))
    assert (state.has_fetched, state.leader_has_left, state.fetch_deadline_ms) == (True, False, LATER_MS)


@pytest.mark.parametrize("sign", [deny, refuse])
def test_a_denial_alone_ends_the_denial_of_pre_votes(sign: Callable[[Replica], None]) -> None:
    made = following()
    sign(made)
    state = state_of(made)
    assert (state.has_fetched, state.leader_has_left, state.fetch_deadline_ms) == (False, False, LATER_MS)


@pytest.mark.parametrize(
    "signs", [(say_goodbye, deny), (deny, say_goodbye), (say_goodbye, refuse), (refuse, say_goodbye)]
)
def test_both_in_either_order_let_it_campaign_in_its_turn(signs: tuple[Callable[[Replica], None], ...]) -> None:
    made = following()
    for sign in signs:
        sign(made)
    state = state_of(made)
    assert (state.has_fetched, state.leader_has_left, state.part_deadline_ms) == (False, True, None)
    assert state.fetch_deadline_ms == NOW.mono_ms + 500


def test_another_denial_delays_nothing() -> None:
    made = following()
    say_goodbye(made)
    deny(made)
    note_denial_of_leader(made, 2, later(400))
    assert state_of(made).fetch_deadline_ms == NOW.mono_ms + 500


def test_another_peer_says_nothing_of_the_leader() -> None:
    made = following()
    say_goodbye(made)
    before = made.state
    note_denial_of_leader(made, 3, NOW)
    assert made.state is before


@pytest.mark.parametrize("name", [name for name in STATES if "follower" not in name])
def test_who_follows_nobody_has_no_leader_to_lose(name: str) -> None:
    made = replica(STATES[name]())
    before = made.state
    note_denial_of_leader(made, 2, NOW)
    assert made.state is before
