"""How many small bugs the simulator catches by itself: draw places in the code, plant a bug at each, run worlds.

    python -m tests.sim.strength draw --seed 14 --count 30         # places to plant bugs at, one line each
    python -m tests.sim.strength draw --seed 14 --since COMMIT     # only in functions that have changed since then
    python -m tests.sim.strength run EDITS --worlds 300            # EDITS: a TOML file, see below
    python -m tests.sim.strength run EDITS --name NAME --json

A person writes the bugs, because a change that a machine draws often changes nothing that matters. The machine draws
the places, so that nobody chooses what is easy. One bug is one table of the TOML file::

    [name_of_the_bug]
    path = "core/quorum.py"          # below src/pykraft
    before = "len(voters) // 2 + 1"  # stands there exactly once
    after = "len(voters) // 2"
    story = "Half of the voters are a majority."

Each bug is planted in a copy of the package, and `pykraft sim run` of that copy runs worlds until the first one fails.
The clone is never changed. Exit status of ``run``: 0 when every bug was caught, 1 when one was not, 2 for a bad file.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias, TypeVar

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "pykraft"
LAB = Path(__file__).resolve().parents[2] / "lab"
DRAWN_FROM = ("core", "log", "snapshot", "host")
TOOLS = ("dump", "verify", "describe_cluster", "format", "sensors", "metrics")
"""Modules whose names begin so serve operators' commands; a simulated node never runs them."""
STATEMENTS_MIN = 3
"""Shorter functions only pass something on."""
WORLDS = 300
CRASHED = "the run itself crashed"
_HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One bug as a change of text; ``path`` is relative to the package, or begins with ``lab/``."""

    name: str
    path: str
    before: str
    after: str
    story: str


E = TypeVar("E", bound=Edit)
Changed: TypeAlias = dict[str, set[int]]
"""Numbers of lines, by the path of their file below the package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one bug; ``seed`` is the first world that failed, None when all ``worlds`` passed."""

    name: str
    worlds: int
    seed: int | None
    reason: str

    @property
    def is_caught(self) -> bool:
        return self.seed is not None


def draw(seed: int, count: int, package: Path = PACKAGE, changed: Changed | None = None) -> list[str]:
    """``count`` functions as ``path:line name``, each line of code as likely as any other, no function twice.

    With ``changed`` only those that one of these lines is in.
    """
    functions = list(_functions(package, changed))
    rng = Random(seed)
    drawn: list[str] = []
    while len(drawn) < min(count, len(functions)):
        (place,) = rng.choices([place for place, _ in functions], [lines for _, lines in functions])
        if place not in drawn:
            drawn.append(place)
    return drawn


def changed_since(commit: str, package: Path = PACKAGE) -> Changed:
    """The lines of the package that this commit did not have. Errors: CalledProcessError."""
    command = ["git", "diff", "--unified=0", "--no-ext-diff", "--no-prefix", "--relative", commit, "--", "."]
    diff = subprocess.run(command, cwd=package, check=True, capture_output=True, text=True).stdout
    changed: Changed = {}
    lines: set[int] = set()
    for line in diff.splitlines():
        if line.startswith("+++ "):
            lines = changed.setdefault(line[4:], set())
        elif hunk := _HUNK.match(line):
            lines.update(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    return changed


def _functions(package: Path, changed: Changed | None) -> Iterator[tuple[str, int]]:
    for part in DRAWN_FROM:
        for path in sorted((package / part).rglob("*.py")):
            if path.name.startswith(TOOLS):
                continue
            name = str(path.relative_to(package))
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef) and len(node.body) >= STATEMENTS_MIN:
                    lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                    if changed is None or not changed.get(name, set()).isdisjoint(lines):
                        yield f"{name}:{node.lineno} {node.name}", len(lines) - 1


def read(path: Path, kind: type[E]) -> list[E]:
    """The bugs in a TOML file. Errors: OSError; ValueError for a file that is not as the module of ``kind`` says."""
    edits = []
    for name, table in tomllib.loads(path.read_text()).items():
        try:
            edits.append(kind(name=name, **table))
        except TypeError as error:
            raise ValueError(f"{path}: [{name}]: {error}") from None
    return edits


def plant(edit: Edit, package: Path) -> None:
    """Change this copy of the package. Errors: ValueError when the text is not there exactly once."""
    target = package / edit.path
    text = target.read_text()
    found = text.count(edit.before)
    if found != 1:
        raise ValueError(f"[{edit.name}]: {edit.path} holds {edit.before!r} {found} times, expected once")
    target.write_text(text.replace(edit.before, edit.after))
    ast.parse(target.read_text())


def planted_copy(edit: Edit, folder: Path) -> Path:
    """Copy the package into ``folder`` and plant this bug there; the copy. Errors: as `plant`."""
    is_lab = edit.path.startswith(f"{LAB.name}/")
    package = folder / PACKAGE.name
    for source in (PACKAGE, LAB) if is_lab else (PACKAGE,):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    plant(edit, folder if is_lab else package)
    return package


def judge(edit: Edit, worlds: int, faults: str = "all") -> Verdict:
    """Run worlds 0 to ``worlds`` - 1 of a copy with this bug, until the first one fails."""
    with tempfile.TemporaryDirectory(prefix="strength-") as folder:
        planted_copy(edit, Path(folder))
        command = [sys.executable, "-P", "-m", PACKAGE.name, "sim", "run"]
        command += ["--seeds", f"0:{worlds}", "--faults", faults, "--workers", "1", "--json"]
        with subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": folder}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stdout is not None
            assert run.stderr is not None
            passed = 0
            for line in run.stdout:
                row = json.loads(line)
                if row["failed"]:
                    run.kill()
                    return Verdict(name=edit.name, worlds=passed, seed=row["seed"], reason=str(row["reason"])[:200])
                passed += 1
            said = run.stderr.read()
    if passed < worlds:
        # The bug broke the run outside of any world, for instance at an import: also noticed, and said to be so.
        return Verdict(name=edit.name, worlds=passed, seed=passed, reason=f"{CRASHED}: {said[-200:]}")
    return Verdict(name=edit.name, worlds=passed, seed=None, reason="")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.strength", description="Plant drawn bugs.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    drawing = verbs.add_parser("draw", help="draw places")
    drawing.add_argument("--seed", type=int, required=True)
    drawing.add_argument("--count", type=int, default=30)
    drawing.add_argument("--since", metavar="COMMIT", help="only in functions that have changed since this commit")
    running = verbs.add_parser("run", help="plant bugs and run worlds")
    running.add_argument("edits", type=Path)
    running.add_argument("--name", action="append", help="only this bug; may be repeated")
    running.add_argument("--worlds", type=int, default=WORLDS)
    running.add_argument("--faults", default="all")
    running.add_argument("--json", action="store_true", help="one object a bug")
    options = parser.parse_args(arguments)
    if options.verb == "draw":
        changed = None if options.since is None else changed_since(options.since)
        print("\n".join(draw(options.seed, options.count, changed=changed)))
        return 0
    try:
        edits = [edit for edit in read(options.edits, Edit) if options.name is None or edit.name in options.name]
        verdicts = list(_judged(edits, options))
    except (OSError, ValueError, SyntaxError) as error:
        print(error, file=sys.stderr)
        return 2
    return exit_status([verdict.is_caught for verdict in verdicts], as_json=options.json)


def exit_status(caught: Sequence[bool], *, as_json: bool) -> int:
    """Print how many bugs were caught; 0 if all were, else 1."""
    if not as_json:
        print(f"{sum(caught)} of {len(caught)} caught")
    return 0 if all(caught) else 1


def _judged(edits: Sequence[Edit], options: argparse.Namespace) -> Iterator[Verdict]:
    for edit in edits:
        verdict = judge(edit, options.worlds, options.faults)
        told = f"seed {verdict.seed}: {verdict.reason}" if verdict.is_caught else f"LIVES through {verdict.worlds}"
        print(json.dumps(asdict(verdict)) if options.json else f"{edit.name}: {told}", flush=True)
        yield verdict


if __name__ == "__main__":
    sys.exit(main())
