"""The commands of a clone are those of the package and those of the laboratory."""

import re

import click
import pytest
from click.testing import CliRunner

from lab.cli.main import LAB_COMMANDS, main, pykraft
from pykraft.cli.main import COMMANDS
from tests.tidy.repository import files


def test_a_clone_has_the_commands_of_the_package_and_those_of_the_laboratory() -> None:
    assert pykraft.list_commands(click.Context(pykraft)) == sorted({*COMMANDS, *LAB_COMMANDS})
    assert LAB_COMMANDS.keys() - COMMANDS.keys() == {"bench", "chaos", "demo"}


def test_no_module_of_the_package_names_the_laboratory() -> None:
    """`tests.install.test_wheel` checks that the wheel has nothing of it."""
    named = re.compile(r"\blab[./]\w|\bimport lab\b|\bfrom lab\b")
    assert [file.path for file in files() if file.path.startswith("src/") and named.search(file.text)] == []


@pytest.mark.parametrize("name", LAB_COMMANDS)
def test_every_command_has_help(name: str) -> None:
    command = pykraft.get_command(click.Context(pykraft), name)
    assert command is not None
    assert command.name == name
    assert CliRunner().invoke(pykraft, [name, "--help"]).exit_code == 0


def test_main_runs_a_command_and_ends(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["pykraft", "demo", "--help"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert "--kill-leader" in capsys.readouterr().out
