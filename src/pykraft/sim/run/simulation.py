"""Many worlds: seeds in, outcomes out, on all cores.

A failure names the oracle, the harm that was done before it, and the one command that replays it. Seeds are
independent, so a range may be cut anywhere and run on different machines (`pykraft.sim.run.campaign`).

Source: TigerBeetle's VOPR (seed replay); madsim.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, parent_process
from shlex import quote

from pykraft.sim.invariants import ALL, Invariant
from pykraft.sim.machine.recorder import Recorder
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import DEFAULT, Scenario

SEEDS_A_TASK = 4
GARBAGE_THRESHOLD = 20_000
"""New objects before a worker looks for cycles; usually it is 700."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed that broke something: what, where, and the last lines before it."""

    seed: int
    reason: str
    story: str
    trace: tuple[str, ...]
    at_us: int = 0
    """Virtual time of the failure."""
    events: int = 0
    """What happened until then: frames, turns of disks, alarms, calls of clients, decisions to do harm."""
    voters: int = 0
    observers: int = 0
    harm: tuple[tuple[int, str], ...] = ()
    """Decisions to do harm that were carried out before it: number and kind."""
    faults: dict[str, int] = field(default_factory=dict)
    """How often each kind happened before it."""
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind: the roles of the nodes that it happened to."""

    @property
    def finding(self) -> str:
        """What two failures share that are the same one: the error, and the oracle if it was one's."""
        return ": ".join(self.reason.split(": ")[: 2 if self.reason.startswith("ViolationError") else 1])


def simulate(
    seed: int,
    *,
    scenario: Scenario = DEFAULT,
    oracles: Sequence[type[Invariant]] = ALL,
    tell: Callable[[str], None] | None = None,
    recorder: Recorder | None = None,
    until_us: int | None = None,
) -> Outcome | Failure:
    """Live through one world, or through its time until then; see `World` for what can be asked of it."""
    world: World | None = None
    try:
        world = World(seed, scenario=scenario, oracles=oracles, tell=tell, recorder=recorder)
        outcome = world.run(until_us=until_us)
    except Exception as error:  # noqa: BLE001 (whatever a world raises is a finding)
        reason, story = f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error))
        if world is None:
            return Failure(seed=seed, reason=reason, story=story, trace=())
        world.record_end()
        return Failure(
            seed=seed,
            reason=reason,
            story=story,
            trace=tuple(world.trace.lines),
            at_us=world.clock.now_us,
            events=world.clock.happened,
            voters=world.voter_count,
            observers=world.observer_count,
            harm=tuple(world.faults.done),
            faults=dict(sorted(world.faults.counts.items())),
            states=world.faults.states,
        )
    world.record_end()
    return outcome


def simulate_all(seeds: Sequence[int], *, workers: int, scenario: Scenario = DEFAULT) -> Iterator[Outcome | Failure]:
    """Outcomes in order of the seeds, from that many processes; whoever stops listening stops them."""
    live = partial(simulate, scenario=scenario)
    if workers == 1:
        yield from map(live, seeds)
        return
    pool = ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn"), initializer=_serve_the_parent)
    try:
        yield from pool.map(live, seeds, chunksize=SEEDS_A_TASK)
    finally:
        pool.shutdown(cancel_futures=True)


def _serve_the_parent() -> None:
    """Ctrl-C is for the process that collects the outcomes; however that one ends, this one ends with it.

    A world is one large cycle, so that there is next to no garbage until it is over; looking for some took a twelfth of
    the time.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(GARBAGE_THRESHOLD)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a process of the pool has one"
    parent.join()
    os._exit(1)


def replay_command(seed: int, words: Sequence[str] = ()) -> str:
    """What to type to see it again; ``words`` are the options that chose the scenario."""
    return " ".join(("bin/pykraft sim replay --seed", str(seed), *map(quote, words)))
