"""What `OsFs` really makes durable: its system calls are recorded, and a power loss follows each of them.

Source: POSIX ``fdatasync``, ``rename``; Rebello et al., Can Applications Recover from fsync Failures? (USENIX ATC
2020).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.log.os_fs import OsFs
from pykraft.sim.machine.fate import ALL_KEPT
from tests.log.power.exploration import explore, record
from tests.log.power.planted import PLANTED, BuggyFs
from tests.log.power.replay import Replay
from tests.log.power.stories import STORIES
from tests.log.power.system_calls import real_tree

pytestmark = pytest.mark.no_cover  # it would take twice as long, and other tests reach the same


@pytest.mark.parametrize("name", STORIES)
def test_a_power_loss_after_any_system_call_costs_nothing_that_was_told(name: str, tmp_path: Path) -> None:
    recorded = record(name, OsFs(), tmp_path)
    replay = Replay(tmp_path)
    for call in recorded.calls:
        replay.apply(call)
    assert replay.left(ALL_KEPT) == real_tree(tmp_path), "a system call was not recorded"
    assert list(explore(recorded)) == []


@pytest.mark.parametrize(("bug", "name", "expected"), PLANTED)
def test_a_planted_bug_is_found(bug: type[BuggyFs], name: str, expected: str, tmp_path: Path) -> None:
    assert expected in next(explore(record(name, bug(), tmp_path)), "nothing")


def test_the_place_for_bugs_is_none_itself(tmp_path: Path) -> None:
    assert list(explore(record("quarantined", BuggyFs(), tmp_path))) == []
