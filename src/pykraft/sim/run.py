"""Many worlds: seeds in, outcomes out, on all cores.

A failure names the invariant and the one command that replays it. Seeds are independent, so a range may be
cut anywhere and run on different machines.

Source: TigerBeetle's VOPR (seed replay); madsim.
"""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from pykraft.errors import PykraftError
from pykraft.sim.recorder import Recorder
from pykraft.sim.scenario import DEFAULT, Scenario
from pykraft.sim.world import Outcome, World

SEEDS_A_TASK = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed that broke something: what, and the last lines before it."""

    seed: int
    reason: str
    story: str
    trace: tuple[str, ...]


def simulate(
    seed: int,
    *,
    scenario: Scenario = DEFAULT,
    tell: Callable[[str], None] | None = None,
    recorder: Recorder | None = None,
) -> Outcome | Failure:
    """Live through one world; ``tell`` is given each line of its trace, ``recorder`` all that happens."""
    world: World | None = None
    try:
        world = World(seed, scenario=scenario, tell=tell, recorder=recorder)
        return world.run()
    except (AssertionError, PykraftError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        trace = tuple(world.trace.lines) if world is not None else ()
        if world is not None:
            world.record(world.nodes.values())
        story = "".join(traceback.format_exception(error))
        return Failure(seed=seed, reason=f"{type(error).__name__}: {error}", story=story, trace=trace)


def simulate_all(seeds: range, *, workers: int) -> Iterator[Outcome | Failure]:
    """Outcomes in order of the seeds, from that many processes; whoever stops listening stops them."""
    if workers == 1:
        yield from map(simulate, seeds)
        return
    pool = ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn"), initializer=_leave_interrupts)
    try:
        yield from pool.map(simulate, seeds, chunksize=SEEDS_A_TASK)
    finally:
        pool.shutdown(cancel_futures=True)


def _leave_interrupts() -> None:
    """Ctrl-C is for the process that collects the outcomes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def replay_command(seed: int) -> str:
    """What to type to see it again."""
    return f"bin/pykraft sim run --seeds {seed} --trace"
