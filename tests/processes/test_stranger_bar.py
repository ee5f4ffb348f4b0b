"""A stranger with all public ids stops no node, raises no epoch far, and fills no memory: a short form of the bar.

The rate depends on the machine; only the command judges it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.stranger_bar import Bar, raise_bar

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]
SECONDS = 10.0


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_a_quorum_lives_with_a_stranger_who_knows_its_ids(tmp_path: Path, *, is_dynamic: bool) -> None:
    bar = raise_bar(tmp_path, is_dynamic=is_dynamic, seconds=SECONDS, rate=50)
    assert bar.sent > SECONDS * 10, "it hardly sent anything"
    assert not bar.problems(is_rate_judged=False), bar


def test_each_limit_is_judged() -> None:
    bar = Bar(
        kind="static",
        quiet_per_s=100,
        attacked_per_s={"VOTE": 49, "FETCH": 51},
        epochs=1_001,
        leaders=9,
        memory_mib=151,
        sent=1,
        ended=(2,),
    )
    assert len(bar.problems(is_rate_judged=False)) == 3
    assert len(bar.problems(is_rate_judged=True)) == 4
