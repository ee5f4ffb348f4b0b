"""``pykraft sim run`` and ``replay``: seeds, scenarios, rows, totals, traces, and how a failure is shown."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.sim.run import (
    SEEDS_MAX,
    SEEDS_TOLD_MAX,
    WIDTH,
    choose,
    draw,
    parse_seed,
    parse_seeds,
    print_failure,
    shrink_and_draw,
    sim,
    summary_lines,
)
from pykraft.errors import UsageError
from pykraft.sim.invariants import ALL
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row, Totals
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import DEFAULT
from tests.cli.sim_worlds import FAILING, at_once, failed, live, passed


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return at_once(monkeypatch)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sim, ["run", *arguments])


def test_a_range_that_passes_is_summed_up_and_the_verdict_is_last() -> None:
    result = run("--seeds", "0:3")
    assert result.exit_code == 0
    counts, verdict = result.stdout.splitlines()
    watched = f"watched by {len(ALL)} oracles"
    assert counts == f"30 records committed, 27 acknowledged; 3 faults of 1 kind, {watched} (--coverage lists them)"
    assert verdict.startswith("PASSED: 3 seeds; 4 s of virtual time in ")


def test_coverage_names_oracles_and_faults_before_the_verdict() -> None:
    lines = run("--seeds", "0:3", "--coverage").stdout.splitlines()
    assert lines[0] == f"{len(ALL)} oracles watched each world:"
    assert all(kind.__name__ in "".join(lines) for kind in ALL)
    at = lines.index("")
    assert [line.split() for line in lines[at + 1 : at + 3]] == [
        ["fault", "times", "worlds", "happened", "to"],
        ["kill", "3", "3"],
    ]
    assert lines[-1].startswith("PASSED: 3 seeds; ")


def test_a_number_of_seeds_is_as_many_from_0_on_and_one_seed_is_one(asked: list[dict[str, Any]]) -> None:
    run("--seeds", "4")
    run("--seed", "4")
    assert [call["seeds"] for call in asked] == [[0, 1, 2, 3], [4]]


def test_a_failing_seed_prints_what_replays_it() -> None:
    result = run("--seeds", "12:15", "--faults", "disk,network")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "the last line",
        "the traceback",
        "seed 13 failed: ViolationError: OneVote: it broke",
        "replay it: bin/pykraft sim replay --seed 13 --faults disk,network",
    ]
    assert lines[-1].startswith("FAILED: 1 of 3 seeds (13); ")


def test_of_many_failures_the_first_are_told_at_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.cli.sim.run.simulate_all", lambda seeds, **given: [live(FAILING) for _ in seeds])
    result = run("--seeds", "9")
    assert result.stdout.count("the traceback") == 3
    assert result.stdout.count("replay it:") == 9


def test_a_trace_is_told_as_it_comes_and_not_again() -> None:
    result = run("--seed", "13", "--trace")
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "a line of seed 13"
    assert "the last line" not in result.stdout


def test_json_is_one_object_a_seed_and_nothing_else() -> None:
    result = run("--seeds", "12:14", "--json")
    assert result.exit_code == 1
    passed, failed = map(json.loads, result.stdout.splitlines())
    assert (passed["seed"], passed["failed"], passed["faults"]) == (12, False, {"kill": 1})
    assert passed["oracles"] == failed["oracles"] == [kind.__name__ for kind in ALL]
    assert (failed["seed"], failed["failed"], failed["faults"]) == (13, True, {"kill": 2, "split": 1})
    assert failed["replay"] == "bin/pykraft sim replay --seed 13"


def test_with_json_the_trace_goes_elsewhere() -> None:
    result = run("--seed", "12", "--json", "--trace")
    assert result.stderr == "a line of seed 12\n"
    assert json.loads(result.stdout)["seed"] == 12


def test_there_are_no_more_processes_than_seeds(asked: list[dict[str, Any]]) -> None:
    run("--seeds", "0:2", "--workers", "8")
    run("--seeds", "0:9", "--workers", "3")
    assert [call["workers"] for call in asked] == [2, 3]


def test_a_failure_is_shrunk_and_drawn_into_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(
        "pykraft.cli.sim.run.shrink_and_draw", lambda failure, scenario, page, *, say: drawn.append(page)
    )
    run("--seeds", "12:15", "--html", str(tmp_path / "pages"))
    assert drawn == [tmp_path / "pages" / "seed-13.html"]


def of(totals: Totals, *failures: Row) -> CampaignSummary:
    identity = Identity(scenario="s", version="1", source="c")
    return CampaignSummary(identity=identity, totals=totals, failed=len(failures), kept=[*failures])


def test_without_faults_there_are_two_lines() -> None:
    assert list(summary_lines(of(Totals()))) == [
        "0 records committed, 0 acknowledged; 0 faults of 0 kinds (--coverage lists them)",
        "PASSED: 0 seeds; 0 s of virtual time",
    ]


def test_names_are_counted_and_listed_only_when_asked_for() -> None:
    totals = Totals(seeds=1, faults=Counter(kill=1), worlds_with=Counter(kill=1))
    short = "0 records committed, 0 acknowledged; 1 fault of 1 kind, watched by 2 oracles"
    assert next(summary_lines(of(totals), oracles=["One", "Two"])) == f"{short} (--coverage lists them)"
    lines = list(summary_lines(of(totals), oracles=["One", "Two"], with_coverage=True))
    assert lines[:3] == ["2 oracles watched each world:", "  One, Two", ""]
    assert lines[-2:] == [short, "PASSED: 1 seed; 0 s of virtual time"]


def test_each_kind_says_how_often_in_how_many_worlds_and_to_whom() -> None:
    totals = Totals(
        faults=Counter(kill=1_200, split=7),
        worlds_with=Counter(kill=3, split=7),
        states={"kill": Counter(follower=200, leader=1_000)},
    )
    assert list(summary_lines(of(totals), with_coverage=True))[:4] == [
        "fault  times  worlds  happened to",
        "kill   1,200       3  leader 1,000, follower 200",
        "split      7       7",
        "",
    ]


def test_virtual_time_is_set_against_the_clock_on_the_wall() -> None:
    totals = Totals(seeds=1, sums=Counter(virtual_ms=600_000))
    assert list(summary_lines(of(totals), took_s=2.0))[-1] == (
        "PASSED: 1 seed; 600 s of virtual time in 2 s (300.0 times as fast)"
    )


def test_a_failure_is_the_verdict_and_names_the_first_seeds() -> None:
    one = of(Totals(seeds=3), {"seed": 7})
    assert list(summary_lines(one))[-1] == "FAILED: 1 of 3 seeds (7); 0 s of virtual time"
    many = of(Totals(seeds=30), *({"seed": seed} for seed in range(SEEDS_TOLD_MAX + 1)))
    assert "FAILED: 11 of 30 seeds (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …); " in list(summary_lines(many))[-1]


def test_who_watched_is_named_in_lines_that_are_not_too_long() -> None:
    names = [f"Oracle{number}IsRight" for number in range(20)]
    lines = list(summary_lines(of(Totals()), oracles=names, with_coverage=True))
    assert lines[0] == "20 oracles watched each world:"
    named = lines[1 : lines.index("")]
    assert "".join(named).replace(" ", "").split(",") == names
    assert all(line.startswith("  ") and len(line) <= WIDTH for line in named)


@pytest.fixture(autouse=True)
def _worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(seed: int, scenario: Any, page: Path, words: Any, *, echo: Any = None) -> Outcome | Failure:
        page.write_text("a page")
        return live(seed, print_line=echo)

    monkeypatch.setattr("pykraft.cli.sim.run.simulate", live)
    monkeypatch.setattr("pykraft.cli.sim.run.draw", draw)


def replay(*arguments: str) -> Result:
    return CliRunner().invoke(sim, ["replay", *arguments])


def test_a_seed_that_passes_is_told_whole() -> None:
    result = replay("--seed", "4")
    assert result.exit_code == 0
    assert result.stdout == "a line of seed 4\nseed 4 passed: 10 records committed in 1.5 s\n"


def test_a_seed_that_fails_is_told_with_its_story() -> None:
    result = replay("--seed", "13", "--faults", "disk")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "a line of seed 13",
        "the traceback",
        "seed 13 failed: ViolationError: OneVote: it broke",
        "replay it: bin/pykraft sim replay --seed 13 --faults disk",
    ]


def test_json_is_one_row_as_of_a_run(tmp_path: Path) -> None:
    passed = replay("--seed", "4", "--json", "--html", str(tmp_path / "page.html"))
    assert passed.exit_code == 0
    assert passed.stderr == f"page: {tmp_path / 'page.html'}\n"
    assert json.loads(passed.stdout)["failed"] is False
    failed = replay("--seed", "13", "--json")
    assert failed.exit_code == 1
    row = json.loads(failed.stdout)
    assert (row["seed"], row["failed"], row["replay"]) == (13, True, "bin/pykraft sim replay --seed 13")


def test_a_page_is_written_with_the_trace_or_without(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = replay("--seed", "4", "--html", str(page), "--quiet")
    assert page.read_text() == "a page"
    assert result.stdout.splitlines()[0] == f"page: {page}"


def test_shrinking_takes_the_place_of_the_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shrunk: list[tuple[int, Path]] = []
    monkeypatch.setattr(
        "pykraft.cli.sim.run.shrink_and_draw",
        lambda failure, scenario, page, *, say: shrunk.append((failure.seed, page)),
    )
    result = replay("--seed", "13", "--shrink", "--html", str(tmp_path / "page.html"))
    assert "a line of" not in result.stdout
    assert replay("--seed", "13", "--shrink").exit_code == 1
    assert shrunk == [(13, tmp_path / "page.html"), (13, Path("seed-13.html"))]


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("0:3", range(3)),
        ("1000", range(1_000)),
        ("5:6", range(5, 6)),
        (f"{'9' * 17}8:{'9' * 18}", range(10**18 - 2, 10**18 - 1)),
    ],
)
def test_seeds_are_a_range_or_a_count(text: str, seeds: range) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    "text",
    ["", ":", "a", "0", "1:", ":1", "1:b", "-1:3", "3:3", "4:3", "1:2:3", "1.5", "٣", "1" * 19, f"0:{SEEDS_MAX + 1}"],
)
def test_other_seeds_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as refusal:
        parse_seeds(text)
    assert "\n" not in str(refusal.value)


def test_one_seed_is_one_number() -> None:
    assert parse_seed("0") == 0
    for text in ("", "0:1", "-1", "x", "1" * 19):
        with pytest.raises(UsageError, match="--seed"):
            parse_seed(text)


def test_without_a_word_it_is_the_default_scenario() -> None:
    choice = choose(None, ())
    assert choice.scenario == DEFAULT
    assert choice.words == ()


def test_a_choice_knows_the_words_that_made_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[cluster]\nvoters = [3]\n")
    choice = choose("quiet, disk", (path,))
    assert choice.words == ("--faults", "quiet,disk", "--scenario", str(path))
    assert choice.scenario.cluster.voters == (3,)


def fails_with_three_voters(seed: int, *, scenario: Any, recorder: Recorder | None = None, **given: Any) -> Any:
    voters = scenario.cluster.voters[0]
    if recorder is not None:
        recorder.nodes = dict.fromkeys(range(1, voters + 1), True)
        recorder.note(1, 1, "starts")
    if voters < 3:
        return passed(seed)
    harm = tuple((number, "kill") for number in scenario.pace.only)
    return replace(failed(seed), voters=voters, observers=scenario.cluster.observers[0], harm=harm)


def test_the_smaller_run_is_a_page_and_a_scenario(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pykraft.cli.sim.run.simulate", fails_with_three_voters)
    monkeypatch.setattr("pykraft.sim.run.shrink.simulate", fails_with_three_voters)
    monkeypatch.setattr("pykraft.cli.sim.run.draw", draw)
    page, said = tmp_path / "seed-13.html", list[str]()
    shrink_and_draw(failed(13), DEFAULT, page, say=said.append)
    assert said[0] == "shrinking: 4 nodes, 3 faults of 2 kinds, 2.000 s"
    assert any(line.endswith("tries: 3 nodes, 0 faults of 0 kinds, 2.000 s") for line in said)
    assert f"replay the shrunk run: bin/pykraft sim replay --seed 13 --scenario {page.with_suffix('.toml')}" in said[-1]
    scenario = load((), [page.with_suffix(".toml")])
    assert (scenario.cluster.voters, scenario.cluster.observers, scenario.pace.only) == ((3,), (0,), ())
    assert "OneVote was violated" in page.read_text()


@pytest.mark.parametrize("result", [passed(3), failed(3)])
def test_a_page_is_written_of_what_passes_and_of_what_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: Outcome | Failure
) -> None:
    told: list[str] = []

    def live(seed: int, *, print_line: Callable[[str], None], **given: Any) -> Outcome | Failure:
        print_line("a line")
        return result

    monkeypatch.setattr("pykraft.cli.sim.run.simulate", live)
    page = tmp_path / "page.html"
    assert draw(3, DEFAULT, page, ("--faults", "a b"), echo=told.append) == result
    assert told == ["a line"]
    assert "sim replay --seed 3 --faults &#x27;a b&#x27;" in page.read_text()


def test_a_long_story_and_a_short_one(capsys: pytest.CaptureFixture[str]) -> None:
    print_failure(failed(13), (), is_short=False)
    print_failure(failed(13), (), is_short=True)
    assert capsys.readouterr().out.count("the traceback") == 1
