"""Two short runs of `pykraft chaos`, with static and dynamic voters; together they cover every kind of fault.

The faults are those of fixed seeds; when they strike is up to the machine. Where power cannot be cut, as without root,
the command says so and does the rest.
"""

import json
from pathlib import Path

import pytest

from lab.chaos.plan import POWER, FaultKind
from tests.processes.commands import run

KINDS = {
    "static": (
        FaultKind.KILL,
        FaultKind.FREEZE,
        FaultKind.FULL_DISK,
        FaultKind.SLOW_LINK,
        FaultKind.ONE_WAY_CUT,
        FaultKind.SILENT_READER,
        FaultKind.POWER_CUT_ALL,
        FaultKind.TWIN,
        FaultKind.DELETED_LOCK,
        FaultKind.FULL_SNAPSHOTS,
    ),
    "dynamic": (
        FaultKind.STOP,
        FaultKind.RESTART_ALL,
        FaultKind.PAUSE,
        FaultKind.RESETS,
        FaultKind.PARTITION,
        FaultKind.WIPE,
        FaultKind.WIPE_AND_LAG,
        FaultKind.FEW_DESCRIPTORS,
        FaultKind.POWER_CUT,
    ),
}


@pytest.mark.long
@pytest.mark.processes
@pytest.mark.timeout(240)
@pytest.mark.parametrize("quorum", KINDS)
def test_nothing_acknowledged_is_lost(tmp_path: Path, quorum: str) -> None:
    names = [kind.value for kind in KINDS[quorum]]
    others = [kind.value for kind in FaultKind if kind.value not in names]
    words = ("--quorum", quorum, "--minutes", "3", "--episodes", str(len(names)), "--without", ",".join(others))
    done = run("chaos", "--seed", "14", *words, "--dir", str(tmp_path), "--json", timeout_s=220)
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    done_kinds = {fault["kind"] for fault in outcome["faults"]}
    assert done_kinds | set(outcome["left_out"]) == set(names)
    assert set(outcome["left_out"]) <= {kind.value for kind in POWER}
    assert outcome["verdict"]["missing"] == outcome["verdict"]["duplicates"] == 0
    assert outcome["verdict"]["acknowledged"] >= 100 * len(names)
    assert list(tmp_path.iterdir()) == []


def test_the_short_form_does_every_kind() -> None:
    assert {kind for kinds in KINDS.values() for kind in kinds} == set(FaultKind)
