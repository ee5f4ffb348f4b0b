"""A failing run shrinks as long as it fails in the same way: nodes, kinds, single decisions, load, time."""

from collections.abc import Callable

import pytest

from pykraft.sim.run.shrink import Shrinking, Small
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.scenario import DEFAULT, Scenario
from tests.sim.mutants import MUTANTS, planted
from tests.sim.mutants.search import live, recorded, scenario_of

HARM = tuple((number, "kill" if number % 2 else "split") for number in range(40))
Fails = Callable[[Scenario], str | None]


def finding_of(reason: str) -> str:
    """A violation names its oracle, any other error only its class."""
    return ": ".join(reason.split(": ")[:2]) if reason.startswith("ViolationError") else reason.partition(": ")[0]


def failure(
    reason: str = "ViolationError: OneVote: seen",
    *,
    voters: int = 5,
    observers: int = 2,
    at_us: int = 100,
    events: int = 1_000,
) -> Failure:
    return Failure(
        seed=1,
        finding=finding_of(reason),
        reason=reason,
        story="",
        trace=(),
        at_us=at_us,
        events=events,
        voters=voters,
        observers=observers,
        harm=HARM,
    )


def events_of(scenario: Scenario) -> int:
    """More with more harm and more to wait for."""
    return round((10 + len(scenario.pace.only or ())) * (2 - scenario.pace.skip))


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
                    events=1_000,
                )
            return Failure(
                seed=seed,
                finding=finding_of(reason),
                reason=reason,
                story="",
                trace=(),
                at_us=at_us,
                events=events_of(scenario),
                voters=scenario.cluster.voters[0],
                observers=scenario.cluster.observers[0],
                harm=tuple((number, kind) for number, kind in HARM if number in only),
            )

        monkeypatch.setattr("pykraft.sim.run.shrink.simulate", live)
        shrinking = Shrinking(failure(at_us=at_us), DEFAULT, tries_max=tries_max)
        return shrinking.search(), shrinking

    return searching


def test_what_the_failure_needs_is_left_and_nothing_else(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    def fails(scenario: Scenario) -> str | None:
        needs = scenario.cluster.voters[0] >= 3 and {7, 13, 20} <= set(scenario.pace.only or ())
        return "ViolationError: OneVote: seen elsewhere" if needs else None

    small, _ = search(fails)
    assert (small.scenario.cluster.voters, small.scenario.cluster.observers) == ((3,), (0,))
    assert small.scenario.pace.skip == 1
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


def test_a_failure_after_the_harm_gets_a_shorter_time_of_harm(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    small, _ = search(lambda scenario: "ViolationError: OneVote: seen", at_us=20_000_000)
    assert small.scenario.course.faults_us < DEFAULT.course.faults_us // 8


def test_the_end_is_tried_alone(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    def fails(scenario: Scenario) -> str | None:
        return "ViolationError: OneVote: seen" if 39 in (scenario.pace.only or ()) else None

    small, shrinking = search(fails, tries_max=18)
    assert small.only == (39,)
    assert shrinking.tries == 18


def test_a_plan_that_fails_with_other_dice_only_is_found(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    def fails(scenario: Scenario) -> str | None:
        lucky = len(scenario.pace.only or ()) < 20 and scenario.course.variant != 3
        return None if lucky or 8 not in (scenario.pace.only or ()) else "ViolationError: OneVote: seen"

    small, _ = search(fails, tries_max=1_000)
    assert small.only == (8,)
    assert small.scenario.course.variant == 3


def test_a_run_with_more_events_is_not_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.sim.run.shrink.simulate", lambda seed, **given: failure(events=1_001))
    assert Shrinking(failure(), DEFAULT, tries_max=25).search().failure == failure()


def test_the_events_of_all_tries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.sim.run.shrink.simulate", lambda seed, **given: failure())
    search = Shrinking(failure(), DEFAULT, events_max=4_500)
    search.search()
    assert (search.tries, search.events) == (5, 5_000)


@pytest.mark.sim
def test_the_world_of_a_planted_bug_gets_much_smaller() -> None:
    name, tries_max = "outcome_is_forgotten", 20
    catch, mutant = recorded().mutants[name], MUTANTS[name]
    was = live(mutant, catch.seed, catch.scenario)
    assert isinstance(was, Failure)
    with planted(mutant):
        small = Shrinking(was, scenario_of(catch.scenario), tries_max=tries_max).search()
        again = simulate(was.seed, scenario=small.scenario)
    nodes, decisions, events = small.size
    assert nodes <= (was.voters + was.observers) / 2
    assert decisions <= len(was.harm)
    assert events <= was.events / 2
    assert again == small.failure


@pytest.mark.sim
def test_a_plan_of_many_faults_that_are_not_needed_is_dropped() -> None:
    """The world of this bug fails after some hundred faults, and without any of them."""
    name = "pre_vote_is_never_given_up"
    catch, mutant = recorded().mutants[name], MUTANTS[name]
    was = live(mutant, catch.seed, catch.scenario)
    assert isinstance(was, Failure)
    with planted(mutant):
        small = Shrinking(was, scenario_of(catch.scenario), tries_max=20).search()
    assert len(small.only) <= len(was.harm) / 10
    assert small.failure.events <= was.events / 2


def test_a_try_does_not_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int | None] = []

    def live(seed: int, *, scenario: Scenario, until_us: int | None) -> Failure:
        asked.append(until_us)
        return failure("ValueError: another")

    monkeypatch.setattr("pykraft.sim.run.shrink.simulate", live)
    for at_us in (100, 4_000_000, 7_000_000):
        Shrinking(failure(at_us=at_us), DEFAULT, tries_max=1).search()
    assert asked == [200, DEFAULT.course.faults_us, None]


def test_a_failure_that_needs_everything_stays_as_it_is(search: Callable[..., tuple[Small, Shrinking]]) -> None:
    small, _ = search(lambda scenario: None)
    assert small.only == tuple(number for number, _ in HARM)
    assert small.failure == failure()


def test_the_tries_are_bounded_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.sim.run.shrink.simulate", lambda seed, **given: failure())
    told: list[tuple[int, int]] = []
    search = Shrinking(
        failure(), DEFAULT, tries_max=25, report=lambda tries, best: told.append((tries, len(best.only)))
    )
    search.search()
    assert search.tries == 25
    assert [tries for tries, _ in told] == list(range(1, 26))
