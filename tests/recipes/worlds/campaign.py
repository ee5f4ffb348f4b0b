"""Plays worlds: ``python -m tests.recipes.worlds --seeds 0:2000 --out worlds.jsonl [--workers 2]``.

Half of them have programs that use the recipes, or leases that wait for their end while leaders change, and the others
counters as a program's own state machine. In half of each of the other kinds the nodes also compare digests of their
states (``check_every``). The same command continues a file; seeds that are in it are not played again. The exit status
is 1 when a world fails.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

from lab.campaign.rows import RowFile
from pykraft.cli.sim.run import parse_seeds
from pykraft.errors import UsageError
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import DrawnCommands
from pykraft.process.workers import call_in_workers
from pykraft.sim.run.campaign import PACKAGE, Identity, Row, row_of
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.machine.counters import Counters
from tests.machine.testing.bugs import draw
from tests.recipes.worlds.idle_leases import run_idle_leases
from tests.recipes.worlds.workload import run_recipes

CHECKED: Final = (1, 3, 20)
"""How many commands lie between two comparisons."""


def play(seed: int) -> Outcome | Failure:
    """Run the world of this seed; the seed says which kind it is."""
    check_every = CHECKED[seed // 4 % len(CHECKED)] if seed % 4 >= 2 else None
    if seed % 8 == 0:
        return run_idle_leases(seed)
    if seed % 2 == 0:
        return run_recipes(seed, check_every=check_every)
    commands = partial(DrawnCommands, draw)
    return run_machines(Counters, commands, seed, scenario=scenario_of("all"), check_every=check_every)


def identity() -> Identity:
    """What all rows of one file have in common: the code of these worlds, and that below it."""
    digest = blake2b(digest_size=8)
    folders: Iterable[Path] = (PACKAGE / "client", PACKAGE / "machine", PACKAGE / "recipes", Path(__file__).parent)
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(path.name.encode() + b" " + path.read_bytes())
    known = Identity.of(scenario_of("all"))
    return replace(known, source=f"{known.source} {digest.hexdigest()}")


def summary(rows: Iterable[Row]) -> str:
    """What these worlds did, as text."""
    known = list(rows)
    passed = [row for row in known if not row["failed"]]
    faults: Counter[str] = Counter()
    for row in passed:
        faults.update(row["faults"])
    commands, virtual_ms = sum(row["acknowledged"] for row in passed), sum(row["virtual_ms"] for row in passed)
    failed = {row["seed"]: row["reason"] for row in known if row["failed"]}
    lines = [
        f"worlds {len(known)}, failed {len(failed)}",
        f"answered commands {commands}, faults {sum(faults.values())}, virtual seconds {virtual_ms // 1_000}",
        *(f"seed {seed} failed: {reason}" for seed, reason in sorted(failed.items())),
    ]
    return "\n".join(lines)


def main() -> int:
    """Play the seeds that are missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.recipes.worlds")
    parser.add_argument("--seeds", default="0:2000")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    try:
        seeds = parse_seeds(options.seeds)
    except UsageError as error:
        parser.error(str(error))
    known, started_s = identity(), time.monotonic()
    rows: list[Row] = []
    with closing(RowFile(options.out, known, on_row=rows.append)) as file:
        left = file.left_of(seeds)
        for result in call_in_workers(play, left, workers=options.workers):
            row = row_of(result, known)
            file.add(row)
            rows.append(row)
            if isinstance(result, Failure):
                print(f"seed {result.seed} failed: {result.reason}", flush=True)
    print(summary(rows))
    print(f"played {len(left)} in {time.monotonic() - started_s:.0f} s")
    return int(any(row["failed"] for row in rows))
