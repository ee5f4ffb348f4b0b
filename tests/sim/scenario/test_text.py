"""A written scenario is read back unchanged; values of the default scenario are not written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import DEFAULT, ClusterSettings, Scenario
from pykraft.sim.scenario.text import scenario_text


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
