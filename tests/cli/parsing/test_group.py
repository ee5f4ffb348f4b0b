"""Unknown commands are refused with the one that was meant; help fits a terminal; an error is one line of ours."""

import re

import click
import pytest
from click.testing import CliRunner

from lab.cli.main import pykraft
from pykraft.cli.parsing.group import OTHER_NAMES, CommandContext, usage_line
from pykraft.cli.parsing.value import OneOf
from tests.cli.command_tree import every_command, leaves

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
]


@pytest.mark.parametrize(("line", "meant"), MEANT, ids=[line for line, _ in MEANT])
def test_the_command_that_was_meant_is_named_with_its_group(line: str, meant: str) -> None:
    result = CliRunner().invoke(pykraft, line.split(), prog_name="pykraft")
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].endswith(f"'; did you mean {meant}?")


@pytest.mark.parametrize("line", ["help quorum describe", "quorum help describe"])
def test_help_is_a_command_of_each_group(line: str) -> None:
    wanted = CliRunner().invoke(pykraft, ["quorum", "describe", "--help"], prog_name="pykraft")
    assert CliRunner().invoke(pykraft, line.split(), prog_name="pykraft").output == wanted.output


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


COMMANDS = list(every_command())
LITERAL = {"pykraft completion"}
"""Commands whose help has lines to copy, which are not folded."""


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_help_fits_and_has_every_word(columns: int) -> None:
    for name, command in COMMANDS:
        text, wide = (
            command.get_help(CommandContext(command, info_name=name, terminal_width=width, max_content_width=width))
            for width in (columns, 1_000)
        )
        assert set(re.findall(r"[\w.'-]{4,}", wide)) <= set(re.findall(r"[\w.'-]{4,}", re.sub(r"-\n +", "-", text))), (
            name
        )
        if name not in LITERAL:
            assert max(map(len, text.splitlines())) <= columns, name


def test_a_command_line_uses_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    root = COMMANDS[0][1]
    for words in (["--help"], ["storage", "format", "--help"]):
        with pytest.raises(SystemExit):
            root.main(words, prog_name="pykraft", standalone_mode=True)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 40
        assert any(line.startswith("    ") for line in lines)


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
