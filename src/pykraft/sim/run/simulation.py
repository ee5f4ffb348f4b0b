"""Runs many worlds on all cores: seeds in, outcomes out.

A failure names the oracle, the faults that happened before it, and the one command that replays it. Seeds are
independent, so a range can be split anywhere and run on different machines (`pykraft.sim.run.campaign`).

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
"""New objects before a worker collects garbage; Python's default is 700."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed whose world broke a rule or raised an error: the reason, and the last lines of the trace."""

    seed: int
    reason: str
    story: str
    trace: tuple[str, ...]
    at_us: int = 0
    """Virtual time of the failure."""
    events: int = 0
    """Number of events until then: frames, disk turns, timers, client calls, fault decisions."""
    voters: int = 0
    observers: int = 0
    harm: tuple[tuple[int, str], ...] = ()
    """Fault decisions that were carried out before it: number and kind."""
    faults: dict[str, int] = field(default_factory=dict)
    """How often each kind of fault happened before it."""
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""

    @property
    def finding(self) -> str:
        """What two failures must share to be the same: the error and, for a violation, the oracle."""
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
    """Run one world, to its end or until ``until_us``; the other arguments are those of `World`."""
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
    """Yield outcomes in order of the seeds, from this many processes; closing the iterator stops them."""
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
    """Set up a worker: it ignores Ctrl-C, which the parent handles, and it ends when the parent ends.

    The objects of a world form one large cycle, so there is hardly any garbage until the world is over; looking for it
    took a twelfth of the time.
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
    """The command that replays this seed; ``words`` are the options that chose the scenario."""
    return " ".join(("bin/pykraft sim replay --seed", str(seed), *map(quote, words)))
