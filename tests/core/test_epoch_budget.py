"""Epochs are spent from a budget that refills; a sender that raises the epoch without winning must wait.

Source: ours; Raft dissertation §6.2 (disruptive servers); Kafka adopts every epoch.
"""

from pykraft.core.epoch_budget import DAY_MS, DOUBLINGS_MAX, EPOCHS_PER_DAY, FREE_RAISES, STRANGERS, EpochBudget
from pykraft.types import NodeId

PAUSE_MS = 2_000
SENDER = NodeId(7)


def raised(budget: EpochBudget, times: int, *, at_ms: int = 0) -> list[int]:
    return [budget.raised(SENDER, at_ms, PAUSE_MS) for _ in range(times)]


def test_a_days_epochs_are_there_at_the_start_and_come_back_over_a_day() -> None:
    budget = EpochBudget()
    assert not budget.spend(EPOCHS_PER_DAY + 1, 0)
    assert budget.spend(EPOCHS_PER_DAY, 0)
    assert not budget.spend(1, 82)
    assert budget.spend(1, 83)
    assert not budget.spend(EPOCHS_PER_DAY // 2 + 1, DAY_MS // 2)
    assert budget.spend(EPOCHS_PER_DAY // 2 - 1, DAY_MS // 2)


def test_no_more_than_a_days_epochs_are_saved() -> None:
    budget = EpochBudget()
    assert budget.spend(1, 0)
    assert not budget.spend(EPOCHS_PER_DAY + 1, 9 * DAY_MS)


def test_a_sender_waits_longer_and_longer_up_to_a_bound() -> None:
    waits = raised(EpochBudget(), FREE_RAISES + DOUBLINGS_MAX + 3)
    assert waits == [0] * FREE_RAISES + [PAUSE_MS << doubling for doubling in (*range(7), 6, 6)]


def test_it_is_heard_again_when_its_time_is_over() -> None:
    budget = EpochBudget()
    assert not budget.must_wait(SENDER, 0)
    raised(budget, FREE_RAISES + 1)
    assert budget.must_wait(SENDER, PAUSE_MS - 1)
    assert not budget.must_wait(SENDER, PAUSE_MS)
    assert not budget.must_wait(STRANGERS, 0)


def test_who_was_quiet_for_long_begins_anew() -> None:
    budget = EpochBudget()
    raised(budget, FREE_RAISES)
    later_ms = PAUSE_MS + (PAUSE_MS << DOUBLINGS_MAX)
    assert raised(budget, 1, at_ms=later_ms) == [0]


def test_one_voter_is_asked_once_in_a_while() -> None:
    budget = EpochBudget()
    assert budget.may_ask(SENDER, 0, PAUSE_MS)
    budget.asked(SENDER, 0)
    assert [budget.may_ask(SENDER, ms, PAUSE_MS) for ms in (0, PAUSE_MS - 1, PAUSE_MS)] == [False, False, True]
    assert budget.may_ask(NodeId(2), 0, PAUSE_MS)


def test_former_voters_are_forgotten_and_strangers_are_not() -> None:
    budget = EpochBudget()
    for sender in (SENDER, NodeId(2), STRANGERS):
        for _ in range(FREE_RAISES + 1):
            budget.raised(sender, 0, PAUSE_MS)
    budget.keep([NodeId(1), NodeId(2)])
    assert [budget.must_wait(sender, 1) for sender in (SENDER, NodeId(2), STRANGERS)] == [False, True, True]
    for voter in (SENDER, NodeId(2)):
        budget.asked(voter, 0)
    budget.keep([NodeId(2)])
    assert [budget.may_ask(voter, 1, PAUSE_MS) for voter in (SENDER, NodeId(2))] == [True, False]
