"""`pykraft sim mutants`: known bugs, planted in production code, and the worlds that notice them.

The bugs are not part of the package: they are in ``tests/sim/mutants`` of a clone of the repository, and are imported
from there when the command runs. Defines the options and the exit status.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import click

import pykraft
from pykraft.cli.json_option import json_lines_option
from pykraft.cli.parsing.value import any_of
from pykraft.cli.sim.options import parse_seeds, workers_option
from pykraft.errors import UsageError
from pykraft.text.words import did_you_mean

MODULE = "tests.sim.mutants.search"


@click.command(short_help="Plant known bugs, and check that each is noticed.")
@click.argument("names", nargs=-1, shell_complete=any_of(lambda: _known("MUTANTS")))
@click.option("--list", "is_list", is_flag=True, help="List the bugs and their stories, and plant none.")
@click.option(
    "--seeds",
    metavar="A:B",
    help="Search these seeds for the first that notices the bug, instead of using the recorded one.",
)
@click.option(
    "--oracle",
    metavar="NAME",
    shell_complete=any_of(lambda: _known("ORACLES")),
    help="Watch with this oracle only; without NAMES, plant the bug that is recorded for it.",
)
@click.option(
    "--rewrite",
    is_flag=True,
    help="Record what --seeds finds for these bugs, and for each oracle that must notice one of them alone.",
)
@workers_option("Number of processes for a search.")
@json_lines_option("per bug")
def mutants(
    names: tuple[str, ...],
    *,
    is_list: bool,
    seeds: str | None,
    oracle: str | None,
    rewrite: bool,
    workers: int,
    as_json: bool,
) -> None:
    """Plant each bug, or only NAMES, and run its recorded seed with and without the bug.

    Exits with 1 unless the recorded oracle fails the run with the bug and passes the run without it. With --seeds, it
    tries seeds in order until one notices the bug, and exits with 1 if none does.
    """
    search = _from_the_clone()
    chosen = _chosen(search, names)
    if oracle is not None and oracle not in search.ORACLES:
        listed = did_you_mean(oracle, search.ORACLES) or f": choose one of {', '.join(search.ORACLES)}"
        raise UsageError(f"there is no oracle {oracle!r}{listed}")
    if rewrite and (oracle or seeds is None):
        raise UsageError("--rewrite records bugs and what each oracle notices alone: give it --seeds, and no --oracle")
    if is_list:
        for name in chosen:
            bug = search.MUTANTS[name]
            _tell({"mutant": name, "story": bug.story, "source": bug.source}, as_json=as_json)
        return
    if oracle is not None and not names:
        chosen = [search.ALONE[oracle]]
    if seeds is None:
        is_good = _replay(search, chosen, oracle, as_json=as_json)
    else:
        jobs = [(name, oracle) for name in chosen] + (search.alone_jobs(chosen) if rewrite else [])
        found = _search(search, jobs, parse_seeds(seeds), workers, as_json=as_json)
        is_good = all(catch is not None for *_, catch in found)
        if rewrite:
            search.record_found(found)
    if not is_good:
        raise SystemExit(1)


def _replay(search: ModuleType, names: Sequence[str], oracle: str | None, *, as_json: bool) -> bool:
    is_good = True
    for name in names:
        row = search.replay(name, oracle)
        is_good &= row["verdict"] == search.CAUGHT
        _tell(row, as_json=as_json)
    return is_good


def _search(
    search: ModuleType, jobs: Sequence[tuple[str, str | None]], seeds: range, workers: int, *, as_json: bool
) -> list[tuple[str, str | None, Any]]:
    found = []
    for name, watching, catch in search.search_all(jobs, seeds, workers=workers):
        found.append((name, watching, catch))
        row = {"mutant": name, "alone": watching, "seed": None, "noticed_by": None, "seen": f"survives {seeds}"}
        _tell(row if catch is None else {**row, **catch.row()}, as_json=as_json)
    return found


def _tell(row: dict[str, Any], *, as_json: bool) -> None:
    """Print one JSON object, or the bug with its details below it."""
    if as_json:
        click.echo(json.dumps(row))
        return
    told = [f"{row['mutant']}: {row.get('verdict', '')}".rstrip(": ")]
    if row.get("seed") is not None:
        told.append(f"scenario {row['scenario']}, seed {row['seed']}, noticed by {row.get('noticed_by')}")
    told += [str(row[key]) for key in ("seen", "story", "source") if row.get(key)]
    click.echo("\n    ".join(told))


def _chosen(search: ModuleType, names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in search.MUTANTS:
            hint = did_you_mean(name, search.MUTANTS)
            raise UsageError(f"there is no planted bug {name!r}: `pykraft sim mutants --list` lists them{hint}")
    return names or list(search.MUTANTS)


def _known(kind: str) -> Iterable[str]:
    """Names for the shell's completion; none outside of a clone."""
    try:
        return tuple(getattr(_from_the_clone(), kind))
    except UsageError:
        return ()


def _from_the_clone() -> ModuleType:
    """The module with the bugs. Errors: UsageError outside of a clone."""
    for root in (Path(pykraft.__file__).parents[2], Path.cwd()):
        if (root / "tests" / "sim" / "mutants" / "__init__.py").is_file():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return importlib.import_module(MODULE)
    raise UsageError("the planted bugs are in the repository, not in the package: run this command in a clone")
