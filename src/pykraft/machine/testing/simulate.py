"""Runs a program's state machine in simulated worlds, under all faults: what a test of the program calls.

Invariant: the same seed is the same world, so a failure can be repeated, shrunk and drawn.

Source: ours (ADR 058); Hypothesis (`given`, shrinking) and madsim for the shape of it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar

from pykraft.errors import UsageError
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.testing.recorded import AppliedCall
from pykraft.machine.testing.replay import Replayer
from pykraft.machine.testing.users import MachineUsers
from pykraft.machine.testing.workload import DrawnCommands, MachineProgram, MachineWorkload, RepeatedProgram
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants import ALL
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.snapshots import (
    SnapshotIsCommitted,
    SnapshotIsDurable,
    SnapshotNamesItsVoters,
    SnapshotsAlike,
)
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.page.render import render
from pykraft.sim.run.shrink import Shrinking
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.simulation import simulate as run_world
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import Scenario
from pykraft.text.words import counted

C = TypeVar("C")
FAULTS_US: Final = 3_000_000
"""How long a world has faults; then it must heal."""
RECORDS_BETWEEN: Final = (0, 30, 100)
"""Roughly how many records lie between two snapshots; 0: a world without them."""
TRIES_MAX: Final = 30
"""Worlds that are tried to make a failure smaller."""
LINES_SHOWN: Final = 12
READING_REGISTERS: Final = frozenset({SnapshotsAlike, SnapshotIsCommitted, SnapshotIsDurable, SnapshotNamesItsVoters})
"""Oracles that read the simulator's own registers from snapshots; here snapshots hold the program's state."""
ORACLES: Final[tuple[type[Invariant], ...]] = tuple(oracle for oracle in ALL if oracle not in READING_REGISTERS)


class SimulationFailedError(AssertionError):
    """A world broke a rule; the text says which, in which world, and how to repeat it."""

    def __init__(self, text: str, failure: Failure) -> None:
        super().__init__(text)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineReport:
    """What the worlds of one `simulate` did, when all of them passed."""

    worlds: int
    commands: int
    """Commands that were answered with a result or a rejection."""
    faults: int
    replayed: int = 0
    """Commands that another process applied once more; none if ``machine`` is made within a function."""


def simulate(
    machine: Callable[[], StateMachine[C, Any]],
    commands: Callable[[Random], C] | None = None,
    *,
    program: MachineProgram | None = None,
    seeds: Iterable[int] = range(20),
    faults: str = "all",
    page: Path | str | None = None,
) -> MachineReport:
    """Run this state machine in one world for each seed, and check what its callers are told.

    ``machine`` makes a state machine, such as its class. ``commands`` draws the next command with the random generator
    that it gets. On every node callers execute commands and read. Meanwhile processes are killed, disks fail, links are
    cut, clocks go wrong and voters change. Checked are:

    - all replicas answer each command alike, and have equal states after it;
    - each command is applied at most once, and an error says truly whether it is applied;
    - commands and reads are linearizable;
    - a command that is rejected has changed nothing;
    - a process with another hash seed, date and number answers the same commands alike, and has equal states;
    - nothing that a caller was told is lost, and all rules of the quorum.

    Instead of commands, a test may give a ``program``: it is called with the node and a random generator, again and
    again on each node, and what it executes and reads is checked in the same way. PykraftError ends one run of it, as
    faults do; any other exception is a finding, so it may assert what must hold.

    ``faults`` names a shipped scenario, see ``pykraft sim run --help``. A failure is made smaller first; ``page`` is
    the file for the page on which one steps through it.

    Errors: SimulationFailedError for the first world that breaks a rule; UsageError.
    """
    make: Callable[[], MachineWorkload]
    if commands is not None and program is None:
        make = partial(DrawnCommands, commands)
    elif program is not None and commands is None:
        make = partial(RepeatedProgram, program)
    else:
        raise UsageError("give either commands or a program")
    scenario = scenario_of(faults)
    passed: list[Outcome] = []
    with Replayer(machine) as replayer:
        run = partial(run_machines, machine, make, replay=replayer.difference)
        for seed in seeds:
            result = run(seed, scenario=scenario)
            if isinstance(result, Failure):
                raise _failed(result, scenario, run, None if page is None else Path(page))
            passed.append(result)
    if not passed:
        raise UsageError("seeds is empty: no world was simulated")
    return MachineReport(
        worlds=len(passed),
        commands=sum(each.acknowledged for each in passed),
        faults=sum(sum(each.faults.values()) for each in passed),
        replayed=replayer.count,
    )


def run_machines(
    machine: Callable[[], StateMachine[Any, Any]],
    workload: Callable[[], MachineWorkload],
    seed: int,
    *,
    scenario: Scenario,
    until_us: int | None = None,
    recorder: Recorder | None = None,
    check_every: int | None = None,
    replay: Callable[[Sequence[AppliedCall]], str | None] = lambda _: None,
) -> Outcome | Failure:
    """Run one world; see `pykraft.sim.run.simulation.simulate`, and `Replicated` for ``check_every``.

    ``replay`` gets what was applied in a world that passed, and says what is wrong with it.
    """
    made: list[MachineUsers] = []

    def make(facts: Facts, watch: Watch, dice: Callable[[str], Random]) -> MachineUsers:
        made.append(MachineUsers(machine, workload(), facts, watch, dice, check_every=check_every, replay=replay))
        return made[-1]

    try:
        return run_world(
            seed, scenario=scenario, oracles=ORACLES, until_us=until_us, recorder=recorder, make_users=make
        )
    finally:
        for users in made:
            users.abandon()


def scenario_of(faults: str) -> Scenario:
    """The shipped scenario, with shorter worlds and more snapshots. Errors: UsageError for an unknown name."""
    scenario = load([faults])
    return replace(
        scenario,
        course=replace(scenario.course, faults_us=FAULTS_US),
        snapshots=replace(scenario.snapshots, records_between=RECORDS_BETWEEN, bystander_probability=0.0),
    )


def _failed(
    failure: Failure, scenario: Scenario, run: Callable[..., Outcome | Failure], page: Path | None
) -> SimulationFailedError:
    small = Shrinking(failure, scenario, tries_max=TRIES_MAX, run=run).search()
    found = small.failure
    harm = ", ".join(f"{count} x {kind}" for kind, count in found.faults.items()) or "no fault"
    lines = [
        found.reason,
        f"world {found.seed} with {counted(found.voters, 'voter')} and {counted(found.observers, 'observer')}, {harm}",
        *_last(found.trace),
        f"repeat it with simulate(..., seeds=[{found.seed}])",
    ]
    if page is not None:
        recorder = Recorder()
        run(found.seed, scenario=small.scenario, recorder=recorder)
        title, replay = f"World {found.seed}", f"simulate(..., seeds=[{found.seed}])"
        page.write_text(render(recorder, title=title, replay=replay, reason=found.reason))
        lines.append(f"page: {page}")
    error = SimulationFailedError("\n".join(lines), found)
    error.add_note(found.story)
    return error


def _last(trace: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in trace[-LINES_SHOWN:]]
