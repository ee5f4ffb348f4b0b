"""Coverage of each package by the unit tests, and the required minimum.

    python -m tests.covered FILE       FILE: what pytest wrote with --cov-report=json:FILE

Lines and branches count separately, and each must reach the floor: whoever adds a branch adds a test that takes it.
``bin/test unit`` ends with this. Exit status: 0; 1 when a package is below its floor, with the places that no test
reached; 2 when the file is missing, is no such report, or says nothing of a package that has a floor.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

FLOORS: Mapping[str, int] = {"core": 100, "protocol": 100, "rpc": 100, "log": 95, "snapshot": 95, "host": 95}
"""Percent, by package of pykraft."""
IN_PACKAGES = "src/pykraft/"


@dataclass(slots=True, kw_only=True)
class Covered:
    """One package; counts of what there is and of what was reached."""

    lines: int = 0
    lines_reached: int = 0
    branches: int = 0
    branches_reached: int = 0
    missing: list[str] = field(default_factory=list)

    @property
    def percents(self) -> tuple[float, float]:
        """Of lines and of branches; all of nothing is 100."""
        pairs = ((self.lines_reached, self.lines), (self.branches_reached, self.branches))
        lines, branches = (100 * reached / there if there else 100.0 for reached, there in pairs)
        return lines, branches

    def is_below(self, floor: int) -> bool:
        """True when lines or branches are."""
        return min(self.percents) < floor


def read(path: Path) -> dict[str, Covered]:
    """What a report of coverage's says of the packages with a floor.

    Errors: OSError; ValueError, KeyError, TypeError or AttributeError for what is no such report; ValueError when a
    package is not in it.
    """
    found = {package: Covered() for package in FLOORS}
    for name, each in json.loads(path.read_text(encoding="utf-8"))["files"].items():
        package = name.partition(IN_PACKAGES)[2].partition("/")[0]
        if package not in found:
            continue
        one, summary = found[package], each["summary"]
        one.lines += summary["num_statements"]
        one.lines_reached += summary["covered_lines"]
        one.branches += summary["num_branches"]
        one.branches_reached += summary["covered_branches"]
        one.missing += [f"{name}:{line}" for line in each["missing_lines"]]
        one.missing += [f"{name}:{start} to {end}" for start, end in each["missing_branches"]]
    if nothing := [package for package, one in found.items() if not one.lines]:
        raise ValueError(f"nothing was measured of {', '.join(nothing)}")
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the table, and say what is below its floor."""
    try:
        (file,) = arguments
        found = read(Path(file))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"give one report of coverage's in JSON: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print("package    lines %  branches %  at least")
    for package, one in found.items():
        lines, branches = one.percents
        print(f"{package:10} {lines:7.2f}  {branches:10.2f}  {FLOORS[package]:8}")
    below = [(package, one) for package, one in found.items() if one.is_below(FLOORS[package])]
    for package, one in below:
        print(f"{package} is below {FLOORS[package]} %; no test reaches", *one.missing, sep="\n  ", file=sys.stderr)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
