"""The help of every command fits terminals of 40, 80 and 120 columns, and splits no word."""

from __future__ import annotations

import re

import pytest

from pykraft.cli.parsing.narrow_help import CommandContext
from tests.cli.command_tree import every_command

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
