"""Says which kinds of faults cannot be injected here, and why.

Invariant: a run never leaves a fault out silently. `lab.cli.chaos` refuses one that --only names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.chaos.loop_disks import power_problem
from lab.chaos.plan import POWER, FaultKind


def left_out(kinds: Sequence[FaultKind], folder: Path, *, is_dynamic: bool) -> Mapping[FaultKind, str]:
    """Those of the kinds that cannot be injected into nodes in this folder, each with the reason."""
    found: dict[FaultKind, str] = {}
    if wanted := [kind for kind in kinds if kind in POWER]:
        problem = power_problem(folder)
        if problem is not None:
            found.update(dict.fromkeys(wanted, f"power cuts need root and loop devices ({problem})"))
    if is_dynamic and FaultKind.TWIN in kinds:
        found[FaultKind.TWIN] = "the directory id is part of a dynamic voter, so a second process is another replica"
    return found
