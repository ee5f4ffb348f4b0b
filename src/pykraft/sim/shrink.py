"""A failing run made smaller, as long as it still fails in the same way.

Tried in turns, until nothing helps any more or the tries are used up: 1. fewer nodes, 2. whole kinds of harm left
out, 3. single decisions to do harm left out, half of them first, then a quarter and so on, 4. less load, 5. a shorter
time of harm. A try is given up when it lasts twice as long as the best run so far, and when the harm is over if that
was enough before. Each decision has its own dice (`pykraft.sim.faults`), so what is left stays what it was. The same
failure shrinks to the same run anywhere: nothing here is random, and no clock is read.

Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (ddmin, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from pykraft.sim.run import Failure, simulate
from pykraft.sim.scenario import Cluster, Scenario

TRIES_MAX = 200
PERIOD_US_MAX = 1_000_000
"""Between two proposals of the lightest load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """A failing run: the scenario that it takes, with the decisions to do harm in it, and how it fails."""

    scenario: Scenario
    failure: Failure

    @property
    def only(self) -> tuple[int, ...]:
        """Numbers of the decisions to do harm that are left."""
        return tuple(number for number, _ in self.failure.harm)


class Shrinking:
    """One search. ``tell`` is given the tries so far and the smallest run after each."""

    def __init__(
        self,
        failure: Failure,
        scenario: Scenario,
        *,
        tries_max: int = TRIES_MAX,
        tell: Callable[[int, Small], None] | None = None,
    ) -> None:
        cluster = Cluster(voters=(failure.voters,), observers=(failure.observers,))
        self.best = Small(scenario=_keeping(replace(scenario, cluster=cluster), failure), failure=failure)
        self.tries = 0
        self._tries_max = tries_max
        self._tell = tell

    def search(self) -> Small:
        """The smallest failing run that was found; the given one when none is smaller."""
        passes = (self._fewer_nodes, self._fewer_kinds, self._fewer_decisions, self._less_load, self._shorter)
        while self.tries < self._tries_max:
            before = self.best
            for each in passes:
                each()
            if self.best is before:
                break
        return self.best

    def _fewer_nodes(self) -> None:
        was = self.best.failure
        sizes = sorted(product(range(1, was.voters + 1), range(was.observers + 1)), key=lambda size: (sum(size), size))
        for voters, observers in sizes[:-1]:
            cluster = Cluster(voters=(voters,), observers=(observers,))
            if self._fails(scenario=replace(self.best.scenario, cluster=cluster)):
                return

    def _fewer_kinds(self) -> None:
        for kind in sorted({kind for _, kind in self.best.failure.harm}):
            self._fails(only=tuple(number for number, name in self.best.failure.harm if name != kind))

    def _fewer_decisions(self) -> None:
        """Leave out one part after the other, of ever smaller parts."""
        size = (len(self.best.only) + 1) // 2
        while size and self.best.only:
            start = 0
            while start < len(self.best.only):
                if not self._fails(only=self.best.only[:start] + self.best.only[start + size :]):
                    start += size
            size //= 2

    def _less_load(self) -> None:
        for scenario in self._lighter(self.best.scenario):
            self._fails(scenario=scenario)

    @staticmethod
    def _lighter(scenario: Scenario) -> Iterator[Scenario]:
        work = scenario.work
        if work.values_max > 1:
            yield replace(scenario, work=replace(work, values_max=1))
        if work.value_size_bytes_max > 1:
            yield replace(scenario, work=replace(work, value_size_bytes_max=1))
        if work.period_us * 4 <= PERIOD_US_MAX:
            yield replace(scenario, work=replace(work, period_us=work.period_us * 4))

    def _shorter(self) -> None:
        """Harm ends with the last that was done; where healing fails this saves the most."""
        course = self.best.scenario.course
        if self.best.failure.at_us <= course.faults_us:
            return
        for part in (8, 4, 2):
            shorter = replace(self.best.scenario, course=replace(course, faults_us=course.faults_us // part))
            if self._fails(scenario=shorter):
                return

    def _fails(self, *, scenario: Scenario | None = None, only: tuple[int, ...] | None = None) -> bool:
        """Try a run; when it fails in the same way it is the best one from now on."""
        if self.tries >= self._tries_max:
            return False
        self.tries += 1
        scenario = scenario or self.best.scenario
        if only is not None:
            scenario = replace(scenario, pace=replace(scenario.pace, only=only))
        former = self.best.failure
        faults_us = scenario.course.faults_us
        until_us = min(former.at_us * 2, faults_us) if former.at_us <= faults_us else None
        failure = simulate(former.seed, scenario=scenario, until_us=until_us)
        is_same = isinstance(failure, Failure) and failure.finding == self.best.failure.finding
        if isinstance(failure, Failure) and is_same:
            self.best = Small(scenario=_keeping(scenario, failure), failure=failure)
        if self._tell is not None:
            self._tell(self.tries, self.best)
        return is_same


def _keeping(scenario: Scenario, failure: Failure) -> Scenario:
    """The same scenario with nothing but the harm that was done before the failure."""
    only = tuple(number for number, _ in failure.harm)
    return replace(scenario, pace=replace(scenario.pace, only=only))
