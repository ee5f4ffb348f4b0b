"""Scenarios are parsed strictly, compose in order, and all shipped ones run.

A written scenario is read back unchanged; values of the default scenario are not written.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.sim.scenario.file import FILE_SIZE_BYTES_MAX, load, scenario_text, shipped_names
from pykraft.sim.scenario.scenario import DEFAULT, DEFAULT_FAULTS, KINDS, ClusterSettings, Scenario
from tests.tidy.repository import ROOT


def written(tmp_path: Path, text: str, name: str = "mine.toml") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_nothing_said_is_the_default_scenario() -> None:
    assert load() == DEFAULT


def test_shipped_scenarios_can_be_read_and_have_names() -> None:
    names = shipped_names()
    assert {"all", "default", "quiet", "network", "disk", "silent", "processes", "clocks", "versions"} <= set(names)
    for name in names:
        assert load([name]).name == name


def test_the_shipped_default_is_the_default() -> None:
    assert load(["default"]) == DEFAULT


def test_the_quiet_one_has_no_faults_and_all_has_every_kind() -> None:
    assert load(["quiet"]).faults == {}
    assert load(["all"]).faults.keys() == set(KINDS)


def test_every_kind_of_fault_has_a_row_on_the_page_of_the_simulator() -> None:
    page = (ROOT / "docs" / "simulation-reference.md").read_text(encoding="utf-8")
    told = "".join(re.findall(r"^\| ([^|]+) \|", page.partition("## What must hold")[0], re.MULTILINE))
    assert [kind for kind in KINDS if f"`{kind}`" not in told] == []


def test_the_later_wins_and_kinds_of_faults_add_up(tmp_path: Path) -> None:
    one = written(tmp_path, "[cluster]\nvoters = [3]\nobservers = [0]\n[faults]\nkill = 1\nresign = 1\n", "one.toml")
    two = written(tmp_path, "[cluster]\nvoters = [5]\n[faults]\nkill = 0\nsplit = 2.5\n", "two.toml")
    scenario = load(["quiet"], [one, two])
    assert scenario.name == "quiet+one+two"
    assert scenario.cluster == ClusterSettings(voters=(5,), observers=(0,))
    assert scenario.faults == {"kill": 0.0, "resign": 1.0, "split": 2.5}


def test_a_file_without_kinds_of_faults_keeps_those_of_the_default(tmp_path: Path) -> None:
    assert load(paths=[written(tmp_path, "[work]\nvalues_max = 1\n")]).faults == DEFAULT_FAULTS


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[cluster", "is not TOML"),
        ("[clusters]\nvoters = [3]", "there is no table 'clusters': choose one of cluster, course, faults"),
        ("[cluster]\nvoter = [3]", "there is no cluster.voter: choose one of absent, observers, voters"),
        ("cluster = 3", "cluster is a table"),
        ("[cluster]\nvoters = 3", r"cluster.voters = 3: give a list of whole numbers"),
        ("[cluster]\nvoters = []", r"cluster.voters = \[\]: give a list"),
        ("[cluster]\nvoters = [true]", r"cluster.voters = \[True\]: give a list"),
        ("[cluster]\nvoters = [0]", "from 1 to 9 is possible"),
        ("[cluster]\nvoters = [10]", "from 1 to 9 is possible"),
        ("[course]\nheal_us = 0", "course.heal_us = 0: from 1"),
        ("[course]\nheal_us = 1.5", "course.heal_us = 1.5: give a whole number"),
        ("[course]\nheal_us = -1", "course.heal_us = -1: from 1"),
        ('[links]\nslow_probability = "often"', "links.slow_probability = 'often': give a number"),
        ("[links]\nslow_probability = 1.1", "from 0 to 1 is possible"),
        ("[links]\nslow_probability = nan", "from 0 to 1 is possible"),
        ("[links]\nlatency_us_min = 5\nlatency_us_max = [9, 4]", "links.latency_us_min is greater than"),
        ("[quorum]\nsegment_size_bytes = 10", "from 1024"),
        ("[faults]\nrain = 1", "there is no kind of fault 'rain' \\(faults.rain\\): choose one of abandoned fetch"),
        ('[faults]\nkill = "yes"', "faults.kill = 'yes': a weight is a number from 0 to 1000"),
        ("[faults]\nkill = true", "faults.kill = True: a weight"),
        ("[faults]\nkill = -1", "faults.kill = -1: a weight"),
        ("[faults]\nkill = nan", "faults.kill = nan: a weight"),
        ("faults = 1", "faults is a table"),
        ('name = "x"', "there is no table 'name'"),
    ],
)
def test_what_is_wrong_is_refused_with_the_file_and_the_key(tmp_path: Path, text: str, complaint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError, match=complaint) as refused:
        load(paths=[path])
    assert str(path) in str(refused.value)


def test_what_is_no_scenario_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no scenario 'storm': choose one of all, "):
        load(["storm"])
    with pytest.raises(UsageError, match="cannot be read"):
        load(paths=[tmp_path / "absent.toml"])
    with pytest.raises(UsageError, match="cannot be read"):
        load(paths=[tmp_path])
    with pytest.raises(UsageError, match="at most"):
        load(paths=[written(tmp_path, "#" * (FILE_SIZE_BYTES_MAX + 1))])
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        load(paths=[binary])


def test_the_default_scenario_is_empty() -> None:
    assert scenario_text(DEFAULT) == ""


def test_a_scenario_survives_its_file(tmp_path: Path) -> None:
    scenario = Scenario(
        name="small",
        cluster=ClusterSettings(voters=(3,), observers=(0,)),
        links=replace(DEFAULT.links, slow_probability=0.5),
        pace=replace(DEFAULT.pace, only=(3, 17)),
        faults={"kill": 1.5, "one-way cut": 0.0},
    )
    path = tmp_path / "small.toml"
    path.write_text(scenario_text(scenario))
    assert load((), [path]) == scenario
    assert "[course]" not in path.read_text()


def test_no_decision_at_all_is_not_every_decision(tmp_path: Path) -> None:
    scenario = replace(DEFAULT, name="none", pace=replace(DEFAULT.pace, only=()))
    path = tmp_path / "none.toml"
    path.write_text(scenario_text(scenario))
    assert load((), [path]) == scenario
