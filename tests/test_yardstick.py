"""The yardstick says what differs; what it has recorded is what there is."""

import json
from pathlib import Path

import pytest

from tests import yardstick


@pytest.fixture(name="known")
def _known() -> dict[str, yardstick.Measured]:
    known: dict[str, yardstick.Measured] = json.loads(yardstick.PATH.read_text(encoding="utf-8"))
    return known


def test_a_difference_is_named_with_both_values() -> None:
    was, now = {"same": "1", "moved": "1", "gone": "1"}, {"same": "1", "moved": "2", "new": "1"}
    assert yardstick.differences("worlds", was, now) == [
        "worlds: new is new",
        "worlds: gone is gone",
        "worlds: moved was 1, is 2",
    ]


@pytest.mark.parametrize("measure", ["golden", "names", "keys"])
def test_what_is_recorded_is_what_there_is(known: dict[str, yardstick.Measured], measure: str) -> None:
    now = yardstick.MEASURES[measure](1)
    assert len(now) > 10
    assert yardstick.differences(measure, known[measure], now) == []


@pytest.mark.parametrize("scenario", yardstick.WORLDS)
def test_the_first_world_of_each_scenario_is_the_recorded_one(
    known: dict[str, yardstick.Measured], scenario: str
) -> None:
    assert yardstick.world((scenario, 0)) == known["worlds"][f"{scenario} 0"]


def test_a_difference_fails_the_command_until_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(yardstick, "PATH", tmp_path / "known.json")
    assert yardstick.main(["--only", "keys"]) == 1
    assert yardstick.main(["--only", "keys", "--rewrite"]) == 0
    assert yardstick.main(["--only", "keys"]) == 0
    assert capsys.readouterr().out.endswith("measured, 0 differ\n")
