"""Worlds that end at once, for tests of the commands: seed 13 fails, the others pass."""

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome

FAILING = 13


def passed(seed: int) -> Outcome:
    return Outcome(
        seed=seed,
        voters=3,
        observers=0,
        committed=10,
        acknowledged=9,
        epochs=2,
        faults={"kill": 1},
        digest="d",
        virtual_ms=1_500,
    )


def failed(seed: int) -> Failure:
    return Failure(
        seed=seed,
        finding="ViolationError: OneVote",
        reason="ViolationError: OneVote: it broke",
        story="the traceback",
        trace=("the last line",),
        at_us=2_000_000,
        voters=3,
        observers=1,
        harm=((0, "kill"), (4, "kill"), (5, "split")),
        faults={"kill": 2, "split": 1},
        states={"kill": {"leader": 2}},
    )


def live(seed: int, *, print_line: Callable[[str], None] | None = None, **given: Any) -> Outcome | Failure:
    """In place of `pykraft.sim.run.simulation.simulate`."""
    if print_line is not None:
        print_line(f"a line of seed {seed}")
    return failed(seed) if seed == FAILING else passed(seed)


def at_once(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Worlds that are over at once; returns how they were asked for."""
    calls: list[dict[str, Any]] = []

    def live_all(seeds: list[int] | range, **given: Any) -> list[Outcome | Failure]:
        calls.append({"seeds": list(seeds), **given})
        return [live(seed) for seed in seeds]

    monkeypatch.setattr("pykraft.cli.sim.run.simulate", live)
    monkeypatch.setattr("pykraft.cli.sim.run.simulate_all", live_all)
    return calls
