"""Unknown commands are refused with the one that was probably meant, in whichever group it is."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from lab.cli.main import pykraft
from pykraft.cli.parsing.group import OTHER_NAMES
from tests.cli.command_tree import every_command

MEANT = [
    ("tial", "pykraft tail"),
    ("describe", "pykraft quorum describe"),
    ("Describe", "pykraft quorum describe"),
    ("decribe", "pykraft quorum describe"),
    ("run", "pykraft pipeline run or pykraft sim run"),
    ("quorum decribe", "pykraft quorum describe"),
    ("quorum tail", "pykraft tail"),
    ("quorum add-voter", "pykraft quorum add-controller"),
    ("local start", "pykraft local up"),
    ("start", "pykraft server or pykraft local up"),
    ("storage up", "pykraft local up"),
    ("help", "pykraft --help"),
    ("help quorum describe", "pykraft quorum describe --help"),
    ("quorum help", "pykraft quorum --help"),
]


@pytest.mark.parametrize(("line", "meant"), MEANT, ids=[line for line, _ in MEANT])
def test_the_command_that_was_meant_is_named_with_its_group(line: str, meant: str) -> None:
    result = CliRunner().invoke(pykraft, line.split(), prog_name="pykraft")
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].endswith(f"'; did you mean {meant}?")


def test_a_word_like_no_command_gets_no_suggestion() -> None:
    output = CliRunner().invoke(pykraft, ["xyzzy"], prog_name="pykraft").output
    assert output.splitlines()[-1] == "Error: no such command 'xyzzy'"


def test_other_names_are_of_commands_that_exist() -> None:
    names = {name.removeprefix("pykraft ") for name, _ in every_command()}
    for word, meant in OTHER_NAMES.items():
        assert set(meant) <= names, word
        assert word not in {name.rpartition(" ")[2] for name in names}


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_help_of_a_group_cuts_no_sentence(columns: int) -> None:
    for name, command in every_command():
        if isinstance(command, click.Group):
            text = command.get_help(click.Context(command, info_name=name, terminal_width=columns))
            assert "..." not in text.replace("[ARGS]...", ""), name
