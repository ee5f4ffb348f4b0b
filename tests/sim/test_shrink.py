"""A failing run gets smaller as long as it fails in the same way: nodes, kinds, single decisions, load, time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykraft.sim.run import Failure
from pykraft.sim.scenario import DEFAULT, Scenario
from pykraft.sim.shrink import Shrinking, Small
from pykraft.sim.world import Outcome

HARM = tuple((number, "kill" if number % 2 else "split") for number in range(40))
Fails = Callable[[Scenario], str | None]


def failure(
    reason: str = "ViolationError: OneVote: seen", *, voters: int = 5, observers: int = 2, at_us: int = 100
) -> Failure:
    return Failure(
        seed=1, reason=reason, story="", trace=(), at_us=at_us, voters=voters, observers=observers, harm=HARM
    )


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Small, Shrinking]]:
    """A search in which ``fails`` says for each scenario with what reason it fails, or None."""

    def searching(fails: Fails, *, tries_max: int = 500, at_us: int = 100) -> tuple[Small, Shrinking]:
        def live(seed: int, *, scenario: Scenario, until_us: int | None) -> Outcome | Failure:
            reason = fails(scenario)
            only = scenario.pace.only
            if reason is None or only is None:
                return Outcome(
                    seed=seed,
                    voters=1,
                    observers=0,
                    committed=0,
                    acknowledged=0,
                    epochs=0,
                    faults={},
                    digest="",
                    virtual_ms=0,
                )
            return Failure(
                seed=seed,
                reason=reason,
                story="",
                trace=(),
                at_us=at_us,
                voters=scenario.cluster.voters[0],
                observers=scenario.cluster.observers[0],
                harm=tuple((number, kind) for number, kind in HARM if number in only),
            )

        monkeypatch.setattr("pykraft.sim.shrink.simulate", live)
        shrinking = Shrinking(failure(at_us=at_us), DEFAULT, tries_max=tries_max)
        return shrinking.search(), shrinking

    return searching


def test_what_the_failure_needs_is_left_and_nothing_else(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    def fails(scenario: Scenario) -> str | None:
        needs = scenario.cluster.voters[0] >= 3 and {7, 13, 20} <= set(scenario.pace.only or ())
        return "ViolationError: OneVote: seen elsewhere" if needs else None

    small, _ = search(fails)
    assert (small.scenario.cluster.voters, small.scenario.cluster.observers) == ((3,), (0,))
    assert small.only == small.scenario.pace.only == (7, 13, 20)
    assert small.scenario.work.values_max == 1
    assert small.scenario.work.period_us > DEFAULT.work.period_us
    assert small.failure.reason.endswith("elsewhere")


def test_another_failure_is_not_a_smaller_one(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    def fails(scenario: Scenario) -> str:
        return f"ViolationError: {'OneVote' if len(scenario.pace.only or ()) > 10 else 'SingleLeader'}: seen"

    small, _ = search(fails)
    assert small.failure.finding == "ViolationError: OneVote"
    assert len(small.only) == 11


def test_a_failure_after_the_harm_gets_a_shorter_time_of_harm(
    search: Callable[..., tuple[Small, Shrinking]],
) -> None:
    small, _ = search(lambda scenario: "ViolationError: OneVote: seen", at_us=20_000_000)
    assert small.scenario.course.faults_us < DEFAULT.course.faults_us // 8


def test_a_try_does_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def live(seed: int, *, scenario: Scenario, until_us: int | None) -> Failure:
        asked.append(until_us)
        return failure("ValueError: another")

    monkeypatch.setattr("pykraft.sim.shrink.simulate", live)
    for at_us in (100, 4_000_000, 7_000_000):
        Shrinking(failure(at_us=at_us), DEFAULT, tries_max=1).search()
    assert asked == [200, DEFAULT.course.faults_us, None]


def test_a_failure_that_needs_everything_stays_as_it_is(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    small, _ = search(lambda scenario: None)
    assert small.only == tuple(number for number, _ in HARM)
    assert small.failure == failure()


def test_the_tries_are_bounded_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.sim.shrink.simulate", lambda seed, **given: failure())
    told: list[tuple[int, int]] = []
    search = Shrinking(failure(), DEFAULT, tries_max=25, tell=lambda tries, best: told.append((tries, len(best.only))))
    search.search()
    assert search.tries == 25
    assert [tries for tries, _ in told] == list(range(1, 26))


def test_the_same_error_is_the_same_finding_whatever_was_seen() -> None:
    assert failure("ValueError: a: b").finding == "ValueError"
    assert failure("ViolationError: OneVote: b: c").finding == "ViolationError: OneVote"
