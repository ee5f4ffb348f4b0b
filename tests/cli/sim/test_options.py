"""Seeds and scenarios on the command line; a wrong one is an error of one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.cli.sim.options import SEEDS_MAX, choose, parse_seed, parse_seeds
from pykraft.errors import UsageError
from pykraft.sim.scenario.scenario import DEFAULT


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


@pytest.mark.parametrize("faults", ["", "nothing", "quiet,", "quiet;disk"])
def test_scenarios_that_are_not_there_are_refused(faults: str) -> None:
    with pytest.raises(UsageError, match="there is no scenario"):
        choose(faults, ())


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        choose(None, (tmp_path / "none.toml",))
