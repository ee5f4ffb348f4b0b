"""Rows of a campaign say whose results they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pykraft.sim.run.campaign import Identity, row_of, source_digest
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
from pykraft.sim.scenario.scenario import DEFAULT

IDENTITY = Identity(scenario="s", version="1", source="c")


def passed(seed: int) -> Outcome:
    return Outcome(
        seed=seed,
        voters=3,
        observers=0,
        committed=10,
        acknowledged=9,
        epochs=2,
        faults={"kill": 1},
        digest="d",
        virtual_ms=1_500,
    )


def failed(seed: int) -> Failure:
    return Failure(
        seed=seed, finding="it", reason="broke", story="told", trace=("line",), harm=((0, "kill"),), faults={"kill": 2}
    )


def test_rows_say_what_they_are_results_of() -> None:
    first, second = (json.loads(json.dumps(row_of(each, IDENTITY))) for each in (passed(1), failed(2)))
    assert first | {"seed": 1, "failed": False, "scenario": "s", "version": "1", "source": "c"} == first
    assert (second["failed"], second["reason"], second["faults"]) == (True, "broke", {"kill": 2})
    assert "story" not in second


def test_an_identity_changes_with_the_scenario_only_where_it_must() -> None:
    one, again = Identity.of(DEFAULT), Identity.of(DEFAULT)
    other = Identity.of(replace(DEFAULT, course=replace(DEFAULT.course, faults_us=1)))
    assert one == again
    assert (one.source, one.version) == (other.source, other.version)
    assert one.scenario != other.scenario


def test_the_digest_of_the_source_sees_every_byte_that_decides_a_world(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "cli").mkdir()
    (tmp_path / "core" / "a.py").write_text("a")
    before = source_digest(tmp_path)
    (tmp_path / "cli" / "a.py").write_text("no part of it")
    assert source_digest(tmp_path) == before
    (tmp_path / "core" / "a.py").write_text("b")
    changed = source_digest(tmp_path)
    (tmp_path / "types.py").write_text("")
    assert len({before, changed, source_digest(tmp_path)}) == 3


def test_a_row_of_an_outcome_is_json() -> None:
    assert json.loads(json.dumps(row_of(passed(1), IDENTITY)))["committed"] == 10
