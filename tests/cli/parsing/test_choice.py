"""Options that take one of some names, or several."""

from __future__ import annotations

import click
import pytest

from pykraft.cli.parsing.choice import OneOf, any_of, several_of

NAMES = ("kill", "kill-all", "pause")


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("", ["kill", "kill-all", "pause"]),
        ("ki", ["kill", "kill-all"]),
        ("pause,", ["pause,kill", "pause,kill-all"]),
        ("pause,kill,k", ["pause,kill,kill-all"]),
        ("pause,x", []),
    ],
)
def test_the_last_of_several_names_is_completed(typed: str, offered: list[str]) -> None:
    option = click.Option(["--only"], shell_complete=several_of(lambda: NAMES))
    assert [item.value for item in option.shell_complete(click.Context(click.Command("x")), typed)] == offered


def test_one_name_is_completed() -> None:
    option = click.Option(["--only"], shell_complete=any_of(lambda: NAMES))
    assert [item.value for item in option.shell_complete(click.Context(click.Command("x")), "p")] == ["pause"]


def test_a_word_that_is_not_similar_gets_the_list_alone() -> None:
    with pytest.raises(click.BadParameter, match=r"^x: give one of kill, kill-all, pause$"):
        OneOf(NAMES).convert("x", None, None)
    with pytest.raises(click.BadParameter, match=r"; did you mean pause\?$"):
        OneOf(NAMES).convert("pase", None, None)
