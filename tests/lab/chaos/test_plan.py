"""A seed determines the faults and their order; each kind occurs once before one repeats."""

from itertools import islice

import pytest

from lab.chaos.plan import ALONE, Fault, FaultKind, FaultTarget, episodes

EVERY = tuple(FaultKind)


def first(seed: int, count: int, kinds: tuple[FaultKind, ...] = EVERY, nodes: int = 3) -> list[tuple[Fault, ...]]:
    return list(islice(episodes(seed, kinds, nodes=nodes), count))


def test_the_same_seed_is_the_same_plan() -> None:
    assert first(7, 40) == first(7, 40)
    assert first(7, 40)[:5] == first(7, 5)
    assert first(7, 5) != first(8, 5)


def test_each_kind_comes_before_one_comes_again() -> None:
    for seed in range(20):
        begun = [episode[0].kind for episode in first(seed, 2 * len(EVERY))]
        assert set(begun[: len(EVERY)]) == set(begun[len(EVERY) :]) == set(EVERY)


def test_only_the_given_kinds_are_drawn() -> None:
    kinds = (FaultKind.KILL, FaultKind.WIPE)
    assert {fault.kind for episode in first(1, 50, kinds) for fault in episode} == set(kinds)
    assert all(len(episode) == 1 for episode in first(1, 50, (FaultKind.WIPE,)))


def test_faults_overlap_but_for_those_that_no_quorum_survives_together() -> None:
    drawn = first(3, 300)
    pairs = [episode for episode in drawn if len(episode) == 2]
    assert 50 < len(pairs) < 150
    for early, late in pairs:
        assert not {early.kind, late.kind} & ALONE
        assert early.begins_s == 0.0 <= late.begins_s <= early.lasts_s
        assert late.ends_s == late.begins_s + late.lasts_s
    for fault in (fault for episode in drawn for fault in episode):
        least, most = fault.kind.lasts_s
        assert least <= fault.lasts_s <= most
        assert 0 <= fault.nth < 2


def test_a_twin_is_never_one_of_the_leader() -> None:
    drawn = [fault for episode in first(3, 300) for fault in episode if fault.kind is FaultKind.TWIN]
    assert drawn
    assert {fault.role for fault in drawn} == {FaultTarget.FOLLOWER}


def test_every_kind_has_its_meaning_and_its_time() -> None:
    assert all(kind.meaning and kind.lasts_s[0] <= kind.lasts_s[1] for kind in FaultKind)
    assert FaultKind.KILL.value == "kill"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            Fault(kind=FaultKind.KILL, role=FaultTarget.LEADER, nth=1, begins_s=0, lasts_s=2),
            "kill of the leader for 2.0 s",
        ),
        (
            Fault(kind=FaultKind.PAUSE, role=FaultTarget.FOLLOWER, nth=1, begins_s=0, lasts_s=2),
            "pause of the follower 2 for 2.0 s",
        ),
        (Fault(kind=FaultKind.RESTART_ALL, role=FaultTarget.LEADER, nth=0, begins_s=0, lasts_s=0), "restart-all"),
        (
            Fault(
                kind=FaultKind.SLOW_LINK,
                role=FaultTarget.LEADER,
                nth=0,
                begins_s=0,
                lasts_s=3,
                bandwidth=250_000,
                latency_ms=9,
            ),
            "slow-link of the leader for 3.0 s, 250 kB/s, 9 ms",
        ),
        (
            Fault(kind=FaultKind.ONE_WAY_CUT, role=FaultTarget.LEADER, nth=0, begins_s=0, lasts_s=3, is_inbound=True),
            "one-way-cut of the leader for 3.0 s, inbound",
        ),
    ],
)
def test_a_fault_is_told(fault: Fault, told: str) -> None:
    assert str(fault) == told
