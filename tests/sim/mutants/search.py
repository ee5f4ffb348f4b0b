"""Searches for seeds: for each bug the first one whose world notices it, and for each oracle one that it notices alone.

The results are in ``seeds.json`` beside this file. A search tries seeds in order and stops at the first that fails; the
tests check that the same world passes without the bug.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from pathlib import Path
from typing import Any

from pykraft.process.workers import call_in_workers
from pykraft.sim.invariants import ALL
from pykraft.sim.run.simulation import Failure, simulate
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import load, shipped_names
from pykraft.sim.scenario.scenario import Scenario
from tests.sim.mutants import MUTANTS, Mutant, planted

CAUGHT = "caught"
ORACLES = tuple(kind.__name__ for kind in ALL)
SEEDS_PATH = Path(__file__).with_name("seeds.json")
SCENARIOS_PATH = Path(__file__).with_name("scenarios")
DEFAULT_SCENARIO = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catch:
    """A seed whose world notices a bug. ``noticed_by`` is an oracle, or the class of an exception."""

    mutant: str
    scenario: str
    seed: int
    noticed_by: str
    seen: str = ""

    def row(self) -> dict[str, Any]:
        """The catch as a command prints it."""
        return asdict(self)


@cache
def scenario_of(names: str) -> Scenario:
    """The scenario with these names, separated by commas: shipped ones first, then those that were made for bugs."""
    shipped = [name for name in names.split(",") if name in shipped_names()]
    own = [SCENARIOS_PATH / f"{name}.toml" for name in names.split(",") if name not in shipped]
    return load([name for name in shipped if name != DEFAULT_SCENARIO], own)


def live(mutant: Mutant | None, seed: int, scenario: str, oracle: str | None = None) -> Outcome | Failure:
    """Run one world, with or without the bug, watched by one oracle or by all."""
    oracles = ALL if oracle is None else tuple(kind for kind in ALL if kind.__name__ == oracle)
    if mutant is None:
        return simulate(seed, scenario=scenario_of(scenario), oracles=oracles)
    with planted(mutant):
        return simulate(seed, scenario=scenario_of(scenario), oracles=oracles)


def noticed_by(failure: Failure) -> str:
    """The oracle, or the class of the exception."""
    return failure.finding.removeprefix("ViolationError: ")


def first_catch(name: str, seeds: Iterable[int], oracle: str | None = None) -> Catch | None:
    """The first of these worlds that notices the bug; if an oracle is given, that oracle must notice it, alone."""
    mutant = MUTANTS[name]
    for seed in seeds:
        result = live(mutant, seed, mutant.scenario, oracle)
        if isinstance(result, Failure) and oracle in (None, noticed_by(result)):
            found = noticed_by(result)
            seen = result.reason[:300]
            return Catch(mutant=name, scenario=mutant.scenario, seed=seed, noticed_by=found, seen=seen)
    return None


def search_all(
    jobs: Sequence[tuple[str, str | None]], seeds: range, *, workers: int
) -> Iterator[tuple[str, str | None, Catch | None]]:
    """A catch, or None, for each pair of bug and oracle; no oracle means any."""
    if workers == 1:
        for name, oracle in jobs:
            yield name, oracle, first_catch(name, seeds, oracle)
        return
    with closing(call_in_workers(partial(_first_catch_of, seeds), jobs, workers=workers)) as found:
        for (name, oracle), catch in zip(jobs, found, strict=True):
            yield name, oracle, catch


def _first_catch_of(seeds: range, job: tuple[str, str | None]) -> Catch | None:
    name, oracle = job
    return first_catch(name, seeds, oracle)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The content of `SEEDS_PATH`: a catch for every bug, and one for every oracle alone."""

    mutants: Mapping[str, Catch]
    oracles: Mapping[str, Catch]


def recorded(path: Path = SEEDS_PATH) -> Recorded:
    """The recorded catches; none if there is no file."""
    content = json.loads(path.read_text()) if path.exists() else {"mutants": {}, "oracles": {}}
    names = {field.name for field in fields(Catch)}

    def catches(table: str, key: str) -> dict[str, Catch]:
        found = (Catch(**{name: entry[name] for name in names & entry.keys()}) for entry in content[table])
        return {getattr(catch, key): catch for catch in found}

    return Recorded(mutants=catches("mutants", "mutant"), oracles=catches("oracles", "noticed_by"))


ALONE: Mapping[str, str] = {oracle: catch.mutant for oracle, catch in recorded().oracles.items()}
"""For each oracle, the bug that it must notice without the others; that of a new one is written there by hand."""


def record(found: Recorded, path: Path = SEEDS_PATH) -> None:
    """Write the file, one line per catch, in the order of the tables of bugs and oracles."""

    def lines(catches: Iterable[Catch | None]) -> str:
        entries = [{**asdict(catch)} for catch in catches if catch is not None]
        for entry in entries:
            del entry["seen"]
        return ",\n".join(f"    {json.dumps(entry)}" for entry in entries)

    mutants = lines(found.mutants.get(name) for name in MUTANTS)
    oracles = lines(found.oracles.get(kind.__name__) for kind in ALL)
    path.write_text(f'{{\n  "mutants": [\n{mutants}\n  ],\n  "oracles": [\n{oracles}\n  ]\n}}\n')


def alone_jobs(names: Sequence[str]) -> list[tuple[str, str | None]]:
    """Each of these bugs that an oracle must notice alone, with that oracle."""
    return [(name, oracle) for oracle, name in ALONE.items() if name in names]


def record_found(found: Sequence[tuple[str, str | None, Catch | None]], path: Path = SEEDS_PATH) -> None:
    """Replace the recorded catches of these searches by the results; a search without a result removes its entry."""
    known = recorded(path)
    mutants, oracles = dict(known.mutants), dict(known.oracles)
    for name, oracle, catch in found:
        table, key = (mutants, name) if oracle is None else (oracles, oracle)
        table.pop(key, None)
        if catch is not None:
            table[key] = catch
    record(Recorded(mutants=mutants, oracles=oracles), path)


def replay(name: str, oracle: str | None = None) -> dict[str, Any]:
    """Run the world of the recorded seed with and without the bug; ``verdict`` is `CAUGHT` if only the first fails.

    With an oracle, the seed is the one recorded for that oracle alone, if it is for this bug.
    """
    known = recorded()
    catch = known.mutants.get(name)
    if oracle is not None and oracle in known.oracles and known.oracles[oracle].mutant == name:
        catch = known.oracles[oracle]
    if catch is None:
        return {"mutant": name, "verdict": "no seed is recorded"}
    with_bug = live(MUTANTS[name], catch.seed, catch.scenario, oracle)
    row = {"mutant": name, "scenario": catch.scenario, "seed": catch.seed, "alone": oracle}
    if not isinstance(with_bug, Failure):
        return {**row, "verdict": "not noticed"}
    row |= {"noticed_by": noticed_by(with_bug), "seen": with_bug.reason[:300]}
    without = live(None, catch.seed, catch.scenario, oracle)
    if isinstance(without, Failure):
        return {**row, "verdict": f"fails without the bug, too: {without.reason[:300]}"}
    expected = oracle or catch.noticed_by
    return {**row, "verdict": CAUGHT if row["noticed_by"] == expected else f"not by {expected}"}
