"""What must not change while the house is rebuilt, as digests: simulated worlds, golden bytes, public names, JSON keys.

    python -m tests.yardstick                # compare with tests/yardstick.json; exits with 1 and says what differs
    python -m tests.yardstick --only names   # one of the measures: worlds, planted, golden, names, keys
    python -m tests.yardstick --rewrite      # record what there is now; say in the commit which worlds moved, and why

A world is one line: all frames that arrived, and the events of the trace without their words. So a message may be
reworded. A world moves when a fault, a draw, or what a node does has changed.
"""

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pykraft.process.workers import call_in_workers
from pykraft.sim.run.world import Outcome
from tests.documented import test_json_keys, test_names
from tests.sim.mutants.search import live, recorded
from tests.tidy.repository import ROOT

PATH: Final = Path(__file__).with_suffix(".json")
WORLDS: Final = ("all", "voters,snapshots", "producers")
SEEDS: Final = range(100)
DIGITS: Final = 16
"""Of each digest, enough to tell that something differs."""
Measured: TypeAlias = Mapping[str, str]
"""Digests by the name of what they cover."""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def world(job: tuple[str, int]) -> str:
    """The world of this scenario and seed, or why it failed."""
    scenario, seed = job
    result = live(None, seed, scenario)
    return result.wordless_digest[:DIGITS] if isinstance(result, Outcome) else f"failed: {result.finding}"


def _worlds_of(jobs: Mapping[str, tuple[str, int]], workers: int) -> Measured:
    found = call_in_workers(world, list(jobs.values()), workers=workers)
    return dict(zip(jobs, found, strict=True))


def worlds(workers: int) -> Measured:
    """The first seeds of three scenarios."""
    return _worlds_of({f"{scenario} {seed}": (scenario, seed) for scenario in WORLDS for seed in SEEDS}, workers)


def planted(workers: int) -> Measured:
    """The recorded seeds of all planted bugs, without the bugs."""
    catches = recorded().mutants.values()
    return _worlds_of({catch.mutant: (catch.scenario, catch.seed) for catch in catches}, workers)


def golden(_workers: int) -> Measured:
    """The files that Kafka wrote: their tests compare what pykraft writes with them byte by byte."""
    folder = ROOT / "tests" / "golden"
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): _digest(path.read_bytes()) for path in files}


def names(_workers: int) -> Measured:
    """The public names of docs/api.md, by their headings."""
    text = test_names.PAGE.read_text(encoding="utf-8")
    _, *sections = text.split("\n## ")
    rows = {section.partition("\n")[0]: sorted(_first_cells(section)) for section in sections}
    return {heading: " ".join(cells) for heading, cells in rows.items()}


def _first_cells(section: str) -> Sequence[str]:
    return [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]


def keys(_workers: int) -> Measured:
    """The keys of each command's ``--json``."""
    return {command: " ".join(listed) for command, listed in test_json_keys.documented().items()}


MEASURES: Final[Mapping[str, Callable[[int], Measured]]] = {
    "worlds": worlds,
    "planted": planted,
    "golden": golden,
    "names": names,
    "keys": keys,
}


def differences(measure: str, was: Measured, now: Measured) -> list[str]:
    """One line for each thing that is new, gone or different."""
    lines = [f"{measure}: {name} is new" for name in now if name not in was]
    lines += [f"{measure}: {name} is gone" for name in was if name not in now]
    lines += [
        f"{measure}: {name} was {was[name]}, is {now[name]}" for name in was if now.get(name, was[name]) != was[name]
    ]
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure, and compare or record; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.yardstick", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=MEASURES, help="measure this alone; may be repeated")
    parser.add_argument("--rewrite", action="store_true", help="record what there is now")
    parser.add_argument("--workers", type=int, default=2, help="processes that run worlds (default: 2)")
    options = parser.parse_args(arguments)
    known: dict[str, Measured] = json.loads(PATH.read_text()) if PATH.exists() else {}
    found = 0
    for measure in options.only or MEASURES:
        now = MEASURES[measure](options.workers)
        lines = differences(measure, known.get(measure, {}), now)
        print(*lines, f"{measure}: {len(now)} measured, {len(lines)} differ", sep="\n")
        found += len(lines)
        known[measure] = now
    if options.rewrite:
        PATH.write_text(json.dumps(known, indent=1) + "\n")
    return 1 if found and not options.rewrite else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
