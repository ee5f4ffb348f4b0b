"""A wrong command line is told in one line, in our words."""

from __future__ import annotations

import click
import pytest

from lab.cli.main import pykraft
from pykraft.cli.parsing.choice import OneOf
from pykraft.cli.parsing.usage_error import usage_line
from tests.cli.command_tree import leaves

LINES = [
    ("local up --nodez 3", "no such option --nodez; did you mean --nodes?"),
    ("server --confg x", "no such option --confg; did you mean --config?"),
    ("server --clne x", "no such option --clne; see pykraft server --help"),  # --clone is hidden
    ("tail", "--bootstrap-controller is missing; see pykraft tail --help"),
    ("dump", "FILE is missing; see pykraft dump --help"),
    ("completion", "SHELL is missing: give one of bash, zsh, fish; see pykraft completion --help"),
    ("completion bsh", "bsh: give one of bash, zsh, fish; did you mean bash?"),
    ("server --log-level inf", "--log-level inf: give one of debug, info, warning, error; did you mean info?"),
    ("chaos --episodes 0", "--episodes 0: give a whole number of at least 1"),
    ("dump absent", "absent: No such file or directory: name files of a partition directory, such as *.log"),
    ("version extra", "got unexpected extra argument (extra); see pykraft version --help"),
    ("xyzzy", "no such command xyzzy; see pykraft --help"),
    ("quorum decribe", "no such command decribe; did you mean pykraft quorum describe?"),
    ("a\nb", "no such command 'a\\nb'; see pykraft --help"),
]


@pytest.mark.parametrize(("line", "told"), LINES, ids=[line for line, _ in LINES])
def test_one_line_says_what_is_wrong_and_what_to_type(line: str, told: str) -> None:
    with pytest.raises(click.ClickException) as caught:
        pykraft.main(line.split(" "), prog_name="pykraft", standalone_mode=False)
    assert usage_line(caught.value).replace("'", "") == told.replace("'", "")


def test_an_error_without_a_command_is_told_alone() -> None:
    assert usage_line(click.ClickException("Something broke.")) == "something broke"
    assert usage_line(click.NoSuchOption("--x")) == "no such option --x"


def test_no_option_or_argument_has_a_type_whose_errors_are_clicks() -> None:
    foreign = (click.IntRange, click.FloatRange, type(click.INT), type(click.FLOAT))
    for name, command in leaves():
        for param in command.params:
            assert not isinstance(param.type, foreign), f"{name} {param.opts}: use NumberType"
            assert not isinstance(param.type, click.Choice) or isinstance(param.type, OneOf), f"{name} {param.opts}"
            for checked in ("exists", "file_okay", "dir_okay"):
                is_plain = getattr(param.type, checked, checked != "exists") is (checked != "exists")
                assert is_plain, f"{name} {param.opts}: use ExistingPath, NewFile or NewFolder"
