"""The simulator notices bugs: each one planted in production code makes the world of its recorded seed fail.

The same world passes without the bug, so the bug is the cause. Each oracle notices at least one bug alone. When a code
change moves the worlds, ``pykraft sim mutants --seeds 0:500 --rewrite`` finds new seeds, and ``pytest --rewrite``
regenerates the tables of the documentation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.sim.invariants import ALL
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Process
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.sim.mutants import MUTANTS, Mutant, planted, search
from tests.sim.mutants.patch import Patch
from tests.tidy.repository import ROOT

END = "<!-- end -->"
KNOWN = search.recorded()
IN_HISTORY = {
    "append_is_not_flushed": "H55",
    "fetch_does_not_wait_for_its_append": "H54",
    "linger_wakes_nobody": "H32",
    "former_leader_campaigns_in_its_old_epoch": "H57",
    "batches_of_a_higher_epoch_are_appended": "H72",
    "two_fetches_in_flight": "H30",
}
"""Bugs that Kafka once had, by the row of tests/conformance/history.toml that they break."""
NAMES = [
    pytest.param(name, marks=[pytest.mark.conformance(IN_HISTORY[name])] if name in IN_HISTORY else [])
    for name in MUTANTS
]
WORLDS = sorted({(catch.scenario, catch.seed) for catch in (*KNOWN.mutants.values(), *KNOWN.oracles.values())})


@pytest.mark.sim
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_noticed(name: str) -> None:
    catch = KNOWN.mutants[name]
    failure = search.live(MUTANTS[name], catch.seed, catch.scenario)
    assert isinstance(failure, Failure), f"{name} lives: {failure}"
    assert search.noticed_by(failure) == catch.noticed_by, failure.reason


@pytest.mark.sim
@pytest.mark.parametrize("oracle", [kind.__name__ for kind in ALL])
def test_an_oracle_notices_a_bug_alone(oracle: str) -> None:
    catch = KNOWN.oracles[oracle]
    failure = search.live(MUTANTS[catch.mutant], catch.seed, catch.scenario, oracle)
    assert isinstance(failure, Failure), f"{catch.mutant} lives: {failure}"
    assert search.noticed_by(failure) == oracle, failure.reason


@pytest.fixture
def reversed_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that nodes report reads backwards."""
    report = Process.report
    monkeypatch.setattr(Process, "report", lambda self, seen: report(self, replace(seen, text=seen.text[::-1])))


@pytest.mark.sim
@pytest.mark.interpreted
@pytest.mark.usefixtures("reversed_words")
@pytest.mark.parametrize("oracle", [kind.__name__ for kind in ALL if kind.reported is not Invariant.reported])
def test_an_oracle_of_reports_reads_no_words(oracle: str) -> None:
    test_an_oracle_notices_a_bug_alone(oracle)


@pytest.mark.sim
@pytest.mark.interpreted
@pytest.mark.usefixtures("reversed_words")
@pytest.mark.parametrize("oracle", ["CutsAreTold", "LivingLeaderIsFollowed", "SaveIsAskedInTime", "TwinsAreTold"])
def test_a_report_in_other_words_is_a_report(oracle: str) -> None:
    test_without_the_bug_the_same_world_passes(KNOWN.oracles[oracle].scenario, KNOWN.oracles[oracle].seed)


@pytest.mark.sim
@pytest.mark.parametrize(("scenario", "seed"), WORLDS)
def test_without_the_bug_the_same_world_passes(scenario: str, seed: int) -> None:
    outcome = search.live(None, seed, scenario)
    assert isinstance(outcome, Outcome), outcome


def test_every_bug_has_a_story_a_source_and_a_scenario_and_there_are_enough() -> None:
    assert len(MUTANTS) >= 36
    for mutant in MUTANTS.values():
        assert mutant.story.endswith("."), mutant.name
        assert mutant.source, mutant.name
        assert search.scenario_of(mutant.scenario).name


def test_every_bug_of_kafkas_history_is_planted() -> None:
    assert set(IN_HISTORY) <= set(MUTANTS)


def test_every_oracle_has_a_bug_of_its_own() -> None:
    assert set(search.ALONE) == {kind.__name__ for kind in ALL}
    assert set(search.ALONE.values()) <= set(MUTANTS)


def test_a_patch_puts_everything_back() -> None:
    table = {1: "one"}
    known = (search.Catch.row, search.scenario_of, dict(table))
    with Patch() as patch:
        patch.setattr(search.Catch, "row", None)
        patch.setattr(search.Catch, "row", 7)
        patch.setitem(table, 1, "two")
        patch.setitem(table, 2, "two")
        assert (vars(search.Catch)["row"], table) == (7, {1: "two", 2: "two"})
    assert (search.Catch.row, search.scenario_of, table) == known


@pytest.mark.parametrize("name", MUTANTS)
def test_a_bug_can_be_planted(name: str) -> None:
    """The code that it replaces exists: a bug that nobody can plant is found by the unit tests, not by a campaign."""
    with planted(MUTANTS[name]):
        pass


def test_what_is_found_is_kept_in_order(tmp_path: Path) -> None:
    first, second = list(MUTANTS)[:2]
    catches = {
        name: search.Catch(mutant=name, scenario="default", seed=seed, noticed_by="OneVote")
        for seed, name in enumerate((second, first))
    }
    path = tmp_path / "seeds.json"
    assert search.recorded(path) == search.Recorded(mutants={}, oracles={})
    search.record(search.Recorded(mutants=catches, oracles={"OneVote": catches[first]}), path)
    assert list(search.recorded(path).mutants) == [first, second]
    assert search.recorded(path).oracles == {"OneVote": catches[first]}


def test_a_search_replaces_what_it_looked_for(tmp_path: Path) -> None:
    first, second = (
        search.Catch(mutant=name, scenario="default", seed=3, noticed_by="OneVote") for name in list(MUTANTS)[:2]
    )
    path = tmp_path / "seeds.json"
    search.record_found(
        [(first.mutant, None, first), (second.mutant, None, second), (first.mutant, "OneVote", first)], path
    )
    assert search.recorded(path).oracles == {"OneVote": first}
    later = replace(second, seed=9)
    search.record_found([(first.mutant, None, None), (second.mutant, None, later)], path)
    assert search.recorded(path) == search.Recorded(mutants={second.mutant: later}, oracles={"OneVote": first})


def test_a_bug_without_a_seed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.sim.mutants.search.recorded", lambda: search.Recorded(mutants={}, oracles={}))
    assert search.replay("votes_are_given_twice")["verdict"] != search.CAUGHT


def table_of_mutants() -> str:
    rows = [("The bug", "Whose it was", "Scenario", "Seed", "Noticed by")]
    for name, mutant in MUTANTS.items():
        catch = KNOWN.mutants[name]
        rows.append((_described(mutant), mutant.source, catch.scenario, str(catch.seed), f"`{catch.noticed_by}`"))
    return _table(rows)


def table_of_oracles() -> str:
    rows = [("Oracle", "Alone it notices", "Scenario", "Seed")]
    for kind in ALL:
        catch = KNOWN.oracles[kind.__name__]
        rows.append((f"`{kind.__name__}`", f"`{catch.mutant}`", catch.scenario, str(catch.seed)))
    return _table(rows)


def table_of_invariants() -> str:
    rows = [("Oracle", "It says")]
    rows += [(f"`{kind.__name__}`", " ".join((kind.__doc__ or "").split("\n\n")[0].split())) for kind in ALL]
    return _table(rows)


def _described(mutant: Mutant) -> str:
    return f"`{mutant.name}`: {mutant.story.replace('``', '`')}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    def lines(rows: Iterable[Sequence[str]]) -> str:
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    return lines(rows[:1]) + lines([["---"] * len(rows[0])]) + lines(rows[1:])


@pytest.mark.parametrize(
    ("mark", "table"),
    [
        ("<!-- table of oracles -->\n", table_of_invariants),
        ("<!-- mutants -->\n", table_of_mutants),
        ("<!-- alone -->\n", table_of_oracles),
    ],
)
def test_the_page_of_the_simulation_draws_the_tables(request: pytest.FixtureRequest, mark: str, table: object) -> None:
    assert callable(table)
    path = ROOT / "docs" / "simulation-reference.md"
    page = path.read_text()
    before, _, rest = page.partition(mark)
    expected = f"{before}{mark}\n{table()}\n{END}{rest.partition(END)[2]}"
    if request.config.getoption("--rewrite"):
        path.write_text(expected)
    assert path.read_text() == expected
