"""A plan of faults: a sequence of numbered decisions, each with a random generator of its own.

A run can be repeated with only some of the decisions (`Pace.only`). Those stay what they were, because the draws of one
decision do not depend on the others. Several plans of a world use different ranges of numbers.

Source: delta debugging (Zeller and Hildebrandt, 2002), which leaves decisions out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from pykraft.sim.faults.harm import Act, Harm

NUMBERS_PER_PLAN = 1_000_000


class FaultPlan:
    """One sequence of decisions: the kinds with their weights, and the function for each."""

    def __init__(  # noqa: PLR0913 - most by name, and each is another trait of a plan
        self,
        harm: Harm,
        acts: Mapping[str, Act],
        kinds: Mapping[str, float],
        *,
        draws: Random,
        period_us_max: int,
        done: list[tuple[int, str]],
        use_dice: Callable[[Random], None],
        first_number: int = 0,
        period_us_min: int | None = None,
    ) -> None:
        """``done`` collects the decisions carried out; ``use_dice`` gets each decision's generator before it.

        ``period_us_min`` is the least time between two decisions, None for that of the scenario.
        """
        self._harm = harm
        self._acts = acts
        self._kinds = kinds
        self._draws = draws
        self._period_us_max = period_us_max
        self._period_us_min = harm.pace.period_us_min if period_us_min is None else period_us_min
        self._done = done
        self._use_dice = use_dice
        self._number = first_number
        only = harm.pace.only
        numbers = range(first_number, first_number + NUMBERS_PER_PLAN)
        self._only = None if only is None else frozenset(number for number in only if number in numbers)

    def go_on(self) -> None:
        """Plan the next decision."""
        pace = self._harm.pace
        if not self._kinds or (self._only is not None and self._number > max(self._only, default=-1)):
            return
        delay_us = self._draws.randint(self._period_us_min, self._period_us_max)
        self._harm.later(delay_us if self._is_next else round(delay_us * (1 - pace.skip)), self._turn)

    @property
    def _is_next(self) -> bool:
        """Whether the next decision is carried out."""
        return self._only is None or self._number in self._only

    def _turn(self) -> None:
        (kind,) = self._draws.choices(list(self._kinds), list(self._kinds.values()))
        self._use_dice(Random(self._draws.random()))
        if self._is_next:
            self._done.append((self._number, kind))  # before the call: what it breaks at once has happened
            if not self._acts[kind]():
                self._done.pop()
        self._number += 1
        self.go_on()
