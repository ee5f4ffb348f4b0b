"""One world of the recipes: a few programs on each process, and the rules that judge what they see."""

import asyncio
from contextlib import suppress
from functools import lru_cache
from typing import Final, cast

from pykraft.errors import PykraftError
from pykraft.machine.replicated import Replicated
from pykraft.machine.testing.recorded import AppliedCall, CallHistory, digest_of_records
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import MachineWorkload, ProcessSeat
from pykraft.recipes import KeyValues, KeyValueStore, key_space, key_values
from pykraft.recipes.key_space import is_in
from pykraft.recipes.key_values import SNAPSHOTS
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.recipes.worlds import model
from tests.recipes.worlds.holdings import Holdings
from tests.recipes.worlds.log_rules import LogRules
from tests.recipes.worlds.programs import PROGRAMS, Program, Stories, WatchStory, change
from tests.sim.mutants.patch import Patch

CALL_MS: Final = 900
"""How long each call of the store tries: less than half of a session's life."""
CHANGES_MAX: Final = 60
SCANNED_MAX: Final = 7
"""Small limits of the store, so that worlds reach them."""
PROGRAMS_PER_PROCESS: Final = 3
RECORDS_REMEMBERED: Final = 10_000


class RecipeWorkload(MachineWorkload):
    """See `pykraft.machine.testing.workload.MachineWorkload`."""

    def begin(self, facts: Facts, history: CallHistory) -> None:
        """See `MachineWorkload`."""
        clock = facts.clock
        self._rules = LogRules(CHANGES_MAX, digest_of_records)
        self._holdings = Holdings(facts)
        self._stories = Stories(self._rules, self._holdings, lambda: clock.now_us)
        self._clock = clock
        history.reference.on_new = self._applied

    async def run(self, seat: ProcessSeat) -> None:
        """See `MachineWorkload`."""
        store = KeyValueStore(cast("Replicated[KeyValues]", seat.node), timeout_ms=CALL_MS)
        programs = [change, *seat.random.sample(PROGRAMS, PROGRAMS_PER_PROCESS)]
        await asyncio.gather(*(self._repeat(program, store, seat) for program in programs))

    def over(self) -> None:
        """See `MachineWorkload`."""
        for story in self._stories.watches:
            self._judge_watch(story)
        lost = self._rules.lost_jobs(self._stories.jobs)
        if lost:
            raise ViolationError("NoJobIsLost", f"jobs {lost} were put, and neither wait nor have ended")

    async def _repeat(self, program: Program, store: KeyValueStore, seat: ProcessSeat) -> None:
        while True:
            await seat.pause()
            with suppress(PykraftError, TimeoutError):
                await program(store, seat, self._stories)

    def _applied(self, call: AppliedCall) -> None:
        self._rules.applied(call, self._clock.now_us)
        self._holdings.check(self._rules.model)
        if not self._holdings.is_skewed:
            self._rules.check_progress(call.context.time_ms)

    def _judge_watch(self, story: WatchStory) -> None:
        history, oldest = self._rules.model.history, self._rules.model.oldest_revision
        due = [one for one in history if one.revision >= story.from_revision and is_in(one.key, story.key, story.end)]
        if story.seen != due[: len(story.seen)]:
            missed = next(one for one, seen in zip(due, story.seen, strict=False) if one != seen)
            seen = f"a watch of {story.key!r} from {story.from_revision} on was not given {missed} in its turn"
            raise ViolationError("WatchesMissNothing", seen)
        told = story.compacted
        if told is not None and not told.revision < told.oldest_revision <= oldest:
            raise ViolationError("WatchesMissNothing", f"a watch was told: {told}; the oldest is {oldest}")


class RememberedRecords:
    """`SNAPSHOTS`, which writes a record once: most of a digest is the same as that before it."""

    def __init__(self) -> None:
        self.serialize = lru_cache(RECORDS_REMEMBERED)(SNAPSHOTS.serialize)
        self.deserialize = SNAPSHOTS.deserialize


def run_recipes(seed: int, *, check_every: int | None = None) -> Outcome | Failure:
    """Run one world of the recipes, under all faults; ``check_every`` is that of `Replicated`."""
    remembered = RememberedRecords()
    with Patch() as patch:
        patch.setattr(key_values, "SNAPSHOTS", remembered)
        patch.setattr(model, "SNAPSHOTS", remembered)
        patch.setattr(key_space, "CHANGES_MAX", CHANGES_MAX)
        patch.setattr(key_space, "SCANNED_MAX", SCANNED_MAX)
        return run_machines(KeyValues, RecipeWorkload, seed, scenario=scenario_of("all"), check_every=check_every)
