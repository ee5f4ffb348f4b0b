"""Runs many worlds on all cores: seeds in, outcomes out.

A failure names the oracle, the faults that happened before it, and the one command that replays it. Seeds are
independent, so a range can be split anywhere and run on different machines (`pykraft.sim.run.campaign`).

Source: TigerBeetle's VOPR (seed replay); madsim.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from shlex import quote

from pykraft.process.workers import call_in_workers
from pykraft.sim.clients.others import MakeUsers
from pykraft.sim.invariants import ALL, Invariant
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.run.world import Outcome, World
from pykraft.sim.scenario.scenario import DEFAULT, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed whose world broke a rule or raised an error: the reason, and the last lines of the trace."""

    seed: int
    finding: str
    """What two failures must share to be the same: the error and, for a violation, the oracle."""
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


def simulate(
    seed: int,
    *,
    scenario: Scenario = DEFAULT,
    oracles: Sequence[type[Invariant]] = ALL,
    print_line: Callable[[str], None] | None = None,
    recorder: Recorder | None = None,
    until_us: int | None = None,
    make_users: MakeUsers | None = None,
) -> Outcome | Failure:
    """Run one world, to its end or until ``until_us``; the other arguments are those of `World`."""
    world: World | None = None
    try:
        world = World(
            seed, scenario=scenario, oracles=oracles, print_line=print_line, recorder=recorder, make_users=make_users
        )
        outcome = world.run(until_us=until_us)
    except Exception as error:  # noqa: BLE001 (whatever a world raises is a finding)
        finding = name = type(error).__name__
        if isinstance(error, ViolationError):
            finding += f": {error.invariant}"
        reason, story = f"{name}: {error}", "".join(traceback.format_exception(error))
        if world is None:
            return Failure(seed=seed, finding=finding, reason=reason, story=story, trace=())
        world.record_end()
        return Failure(
            seed=seed,
            finding=finding,
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
    yield from call_in_workers(live, seeds, workers=workers)


def replay_command(seed: int, words: Sequence[str] = ()) -> str:
    """The command that replays this seed; ``words`` are the options that chose the scenario."""
    return " ".join(("bin/pykraft sim replay --seed", str(seed), *map(quote, words)))
