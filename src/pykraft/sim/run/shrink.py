"""Makes a failing run smaller, as long as it still fails in the same way.

These steps are tried in turns until none of them helps or the budget is used up:

- fewer nodes;
- only the last fault decisions, or none;
- whole kinds of faults left out;
- single decisions left out: half of them first, then a quarter, and so on;
- the time left out that passed before decisions that are not carried out any more;
- less load;
- a shorter time of faults.

A try ends when it has lasted twice as long as the best run so far, or when the faults end, if the best run failed
before that. Each decision has a random generator of its own (`pykraft.sim.faults`), so removing one leaves the others
as they were.

But a world is chaotic: with one fault less, every later message takes another time, and a bug that needs two things in
the same millisecond does not occur. So when no step helps any more the turns begin again, and each candidate is tried
several times: with the same faults, but other random generators for network, machines and work (`Course.variant`).

Fewer nodes count first, then fewer fault decisions, then fewer events. The budget limits the number of tries and the
events in all of them. No clock is read and nothing is random, so the same failure shrinks to the same run anywhere.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (ddmin, 2002); Claessen et al., Finding
Race Conditions in Erlang with QuickCheck and PULSE (ICFP 2009), for trying each candidate more than once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario, Work

TRIES_MAX = 1_000
EVENTS_MAX = 3_000_000
"""Limit of events in all tries: about a minute or two of one core."""
VARIANTS = 4
"""How many other random generators a candidate is tried with when it does not fail with those of the best run."""
SKIPS = (1.0, 0.9, 0.5)
"""Shares of the time before decisions that are not carried out, which a try leaves out; the largest comes first."""
LAST = (0, 1, 2, 4, 8, 16, 32)
"""How many of the last decisions are tried alone. This helps most, so it gets the most variants."""
VARIANTS_OF_LAST = 4 * VARIANTS
LIGHTEST = {"values_max": 1, "value_size_bytes_max": 1}
PERIOD_US_MAX = 1_000_000
"""Time between two proposals of the lightest load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A failing run: its scenario, limited to the remaining fault decisions, and its failure."""

    scenario: Scenario
    failure: Failure

    @property
    def only(self) -> tuple[int, ...]:
        """Numbers of the remaining fault decisions."""
        return tuple(number for number, _ in self.failure.harm)

    @property
    def size(self) -> tuple[int, int, int]:
        """What runs are compared by: nodes, fault decisions, events."""
        return self.failure.voters + self.failure.observers, len(self.failure.harm), self.failure.events


class Shrinking:
    """One search. ``report`` is called after each try with the number of tries and the smallest run."""

    def __init__(
        self,
        failure: Failure,
        scenario: Scenario,
        *,
        tries_max: int = TRIES_MAX,
        events_max: int = EVENTS_MAX,
        report: Callable[[int, Small], None] | None = None,
        run: Callable[..., Outcome | Failure] | None = None,
    ) -> None:
        """``run`` runs a world, by default `pykraft.sim.run.simulation.simulate`, whose arguments it has."""
        cluster = ClusterSettings(voters=(failure.voters,), observers=(failure.observers,))
        self.best = Small(scenario=_keeping(replace(scenario, cluster=cluster), failure), failure=failure)
        self.tries = 0
        self.events = 0
        """Events in all tries so far."""
        self._tries_max = tries_max
        self._events_max = events_max
        self._variants = 0
        self._report = report
        self._run = run

    def search(self) -> Small:
        """The smallest failing run found; the given one if no smaller one was found."""
        for self._variants in (0, VARIANTS):
            before = None
            while self.best.size != before and not self._is_over:
                before = self.best.size
                self._turn()
        return self.best

    @property
    def _is_over(self) -> bool:
        return self.tries >= self._tries_max or self.events >= self._events_max

    def _turn(self) -> None:
        self._fewer_nodes()
        self._last_decisions()
        self._fewer_kinds()
        self._fewer_decisions()
        self._less_waiting()
        self._less_load()
        self._shorter()

    def _fewer_nodes(self) -> None:
        was = self.best.failure
        sizes = sorted(product(range(1, was.voters + 1), range(was.observers + 1)), key=lambda size: (sum(size), size))
        for voters, observers in sizes[:-1]:
            cluster = ClusterSettings(voters=(voters,), observers=(observers,))
            if self._fails(scenario=replace(self.best.scenario, cluster=cluster)):
                return

    def _last_decisions(self) -> None:
        was = self.best
        at_once = replace(was.scenario, pace=replace(was.scenario.pace, skip=1.0))
        variants = VARIANTS_OF_LAST if self._variants else 0
        for count in LAST:
            if count > len(was.only) // 2:
                return
            only = was.only[len(was.only) - count :]
            if any(self._fails(scenario=each, only=only, variants=variants) for each in (at_once, was.scenario)):
                return

    def _fewer_kinds(self) -> None:
        for kind in sorted({kind for _, kind in self.best.failure.harm}):
            self._fails(only=tuple(number for number, name in self.best.failure.harm if name != kind))

    def _fewer_decisions(self) -> None:
        size = (len(self.best.only) + 1) // 2
        while size and self.best.only:
            start = 0
            while start < len(self.best.only):
                if not self._fails(only=self.best.only[:start] + self.best.only[start + size :]):
                    start += size
            size //= 2

    def _less_waiting(self) -> None:
        pace = self.best.scenario.pace
        for skip in SKIPS:
            if skip > pace.skip and self._fails(scenario=replace(self.best.scenario, pace=replace(pace, skip=skip))):
                return

    def _less_load(self) -> None:
        work = self.best.scenario.work
        while work.period_us * 4 <= PERIOD_US_MAX and self._has_work(replace(work, period_us=work.period_us * 4)):
            work = self.best.scenario.work
        for name, value in LIGHTEST.items():
            work = self.best.scenario.work
            if getattr(work, name) > value:
                self._has_work(replace(work, **{name: value}))

    def _has_work(self, work: Work) -> bool:
        return self._fails(scenario=replace(self.best.scenario, work=work))

    def _shorter(self) -> None:
        course = self.best.scenario.course
        if self.best.failure.at_us <= course.faults_us:
            return
        for part in (8, 4, 2):
            shorter = replace(self.best.scenario, course=replace(course, faults_us=course.faults_us // part))
            if self._fails(scenario=shorter):
                return

    def _fails(
        self, *, scenario: Scenario | None = None, only: tuple[int, ...] | None = None, variants: int | None = None
    ) -> bool:
        variants = self._variants if variants is None else variants
        scenario = scenario or self.best.scenario
        if only is not None:
            scenario = replace(scenario, pace=replace(scenario.pace, only=only))
        course = scenario.course
        others = [variant for variant in range(variants + 1) if variant != course.variant]
        return any(
            self._fails_with(replace(scenario, course=replace(course, variant=variant)))
            for variant in (course.variant, *others[:variants])
        )

    def _fails_with(self, scenario: Scenario) -> bool:
        if self._is_over:
            return False
        self.tries += 1
        former = self.best.failure
        faults_us = scenario.course.faults_us
        until_us = min(former.at_us * 2, faults_us) if former.at_us <= faults_us else None
        result = (self._run or simulate)(former.seed, scenario=scenario, until_us=until_us)
        self.events += result.events
        is_smaller = False
        if isinstance(result, Failure) and result.finding == former.finding:
            found = Small(scenario=_keeping(scenario, result), failure=result)
            is_smaller = found.size <= self.best.size
            self.best = found if is_smaller else self.best
        if self._report is not None:
            self._report(self.tries, self.best)
        return is_smaller


def _keeping(scenario: Scenario, failure: Failure) -> Scenario:
    only = tuple(number for number, _ in failure.harm)
    return replace(scenario, pace=replace(scenario.pace, only=only))
