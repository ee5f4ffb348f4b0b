"""Rows of a campaign: durable, continued, merged, and never mixed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, Results, merge, row_of, source_digest
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
from pykraft.sim.scenario.scenario import DEFAULT

IDENTITY = Identity(scenario="s", version="1", source="c")


def passed(seed: int, *, digest: str = "d") -> Outcome:
    return Outcome(
        seed=seed,
        voters=3,
        observers=0,
        committed=10,
        acknowledged=9,
        epochs=2,
        faults={"kill": 1},
        digest=digest,
        virtual_ms=1_500,
    )


def failed(seed: int) -> Failure:
    return Failure(seed=seed, reason="broke", story="told", trace=("line",), harm=((0, "kill"),), faults={"kill": 2})


def write(path: Path, *results: Outcome | Failure) -> None:
    rows = Results(path, IDENTITY)
    for result in results:
        rows.add(row_of(result, IDENTITY))
    rows.close()


def test_rows_say_what_they_are_results_of(tmp_path: Path) -> None:
    write(tmp_path / "rows", passed(1), failed(2))
    first, second = map(json.loads, (tmp_path / "rows").read_text().splitlines())
    assert first | {"seed": 1, "failed": False, "scenario": "s", "version": "1", "source": "c"} == first
    assert (second["failed"], second["reason"], second["faults"]) == (True, "broke", {"kill": 2})
    assert "story" not in second


def test_a_file_is_continued_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    write(path, passed(1), passed(2))
    with path.open("ab") as file:
        file.write(b'{"seed": 3, "fai')
    results = Results(path, IDENTITY)
    assert results.left_of(range(1, 5)) == [3, 4]
    results.add(row_of(passed(3), IDENTITY))
    results.close()
    assert sorted(merge([path])) == [1, 2, 3]


def test_two_runs_do_not_write_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    first = Results(path, IDENTITY)
    with pytest.raises(UsageError, match="another run writes to it"):
        Results(path, IDENTITY)
    first.close()
    Results(path, IDENTITY).close()


def test_a_seed_that_stands_twice_counts_once_if_both_agree(tmp_path: Path) -> None:
    one, two, other = (tmp_path / name for name in "abc")
    write(one, passed(1), failed(2))
    write(two, failed(2), passed(3))
    write(other, passed(1, digest="e"))
    assert sorted(merge([one, two])) == [1, 2, 3]
    with pytest.raises(UsageError, match="seed 1 has another row"):
        merge([one, other])


@pytest.mark.parametrize("line", ["", "x", "[]", "{}", '{"seed": "1"}', '{"seed": 1, "failed": false}', '{"seed": 1}'])
def test_what_is_no_row_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows"
    write(path, passed(1))
    with path.open("a") as file:
        file.write(f"{line}\n")
    for read in (lambda: merge([path]), lambda: Results(path, IDENTITY)):
        with pytest.raises(UsageError, match="line 2: this is no result"):
            read()


def test_rows_of_another_scenario_version_or_source_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    write(path, passed(1))
    for other in (replace(IDENTITY, scenario="t"), replace(IDENTITY, version="2"), replace(IDENTITY, source="d")):
        with pytest.raises(UsageError, match="not mixed"):
            Results(path, other)


def test_a_row_of_another_campaign_is_not_added(tmp_path: Path) -> None:
    results = Results(tmp_path / "rows", IDENTITY)
    with pytest.raises(UsageError, match="not mixed"):
        results.add(row_of(passed(1), replace(IDENTITY, source="d")))
    results.close()
    assert (tmp_path / "rows").read_bytes() == b""


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
