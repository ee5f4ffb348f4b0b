"""Contenders run in turn, each run is kept at once, and what fails or is missing does not end the suite."""

from pathlib import Path

import pytest

from lab.benchmarks.suite.cases import Case
from lab.benchmarks.suite.measures import Figures, Setting
from lab.benchmarks.suite.results import Results
from lab.benchmarks.suite.run import EVERY_CASE, SuiteOptions, run_suite
from pykraft.errors import LocalQuorumError, UsageError
from tests.lab.lines import Lines


class Counter:
    """A contender whose rate is the number of its run."""

    def __init__(self) -> None:
        self.settings: list[Setting] = []

    def __call__(self, setting: Setting) -> Figures:
        self.settings.append(setting)
        setting.report("and so on", is_passing=True)
        (setting.place / "kept").touch()
        return {"rate": float(len(self.settings)), "p50_ms": 1 / 3}


def fail(_: Setting) -> Figures:
    raise LocalQuorumError("nothing was committed")


def case(name: str, group: str = "group", **contenders: object) -> Case:
    return Case(group=group, name=name, label=name, position=0, contenders=contenders)  # type: ignore[arg-type]


def options(folder: Path, runs: int = 2, *contenders: str) -> SuiteOptions:
    return SuiteOptions(
        runs=runs, seconds=1.0, warm_up_s=0.0, rounds=1, disk=folder, memory=folder, contenders=frozenset(contenders)
    )


def test_all_cases_of_a_group_take_turns_and_a_failure_is_a_result(tmp_path: Path) -> None:
    results, told, counter = Results(tmp_path / "r.jsonl", {}), Lines(), Counter()
    cases = [case("one", pykraft=counter, kafka_like=fail), case("two", pykraft=counter), case("b", "other", ours=fail)]
    run_suite(cases, options(tmp_path), results, told)
    assert [(run.case, run.contender, run.turn) for run in results.runs] == [
        ("one", "pykraft", 1),
        ("one", "kafka_like", 1),
        ("two", "pykraft", 1),
        ("one", "pykraft", 2),
        ("one", "kafka_like", 2),
        ("two", "pykraft", 2),
        ("b", "ours", 1),
        ("b", "ours", 2),
    ]
    assert results.runs[0].figures == {"rate": 1.0, "p50_ms": 0.333333}
    assert results.runs[1].failure == "nothing was committed"
    assert told.stages[0].endswith("one, pykraft, run 1 of 2: 1/s, p50 0.33 ms")
    assert told.stages[1].endswith("FAILED: nothing was committed")
    one, two, three = (counter.settings[at] for at in (0, 1, 2))
    assert one.place == three.place != two.place
    assert not one.place.exists()
    assert three.known == {"pykraft": {"rate": 1.0, "p50_ms": 0.333333}}


def test_what_the_file_has_is_not_run_again(tmp_path: Path) -> None:
    counter = Counter()
    cases = [case("one", pykraft=counter, other=counter)]
    run_suite(cases, options(tmp_path, 1, "pykraft"), Results(tmp_path / "r.jsonl", {}), Lines())
    assert len(counter.settings) == 1
    results = Results(tmp_path / "r.jsonl", {})
    run_suite(cases, options(tmp_path, 2), results, Lines())
    assert [(run.contender, run.turn) for run in results.runs] == [
        ("pykraft", 1),
        ("other", 1),
        ("pykraft", 2),
        ("other", 2),
    ]


def test_a_machine_without_go_leaves_these_peers_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("lab.benchmarks.suite.peers.GO_PLACES", ())
    results, told, counter = Results(tmp_path / "r.jsonl", {}), Lines(), Counter()
    for _ in range(2):
        run_suite([case("one", pykraft=counter, etcd=fail)], options(tmp_path, 1), results, told)
    assert told.stages[0].startswith("etcd is left out: there is no go on the PATH; on Debian: apt-get install golang")
    assert [(run.case, run.contender) for run in results.runs] == [(EVERY_CASE, "etcd"), ("one", "pykraft")]


def test_an_unknown_contender_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--contenders kafak: these cases have no such contender"):
        run_suite([case("one", pykraft=fail)], options(tmp_path, 1, "kafak"), Results(tmp_path / "r", {}), Lines())
