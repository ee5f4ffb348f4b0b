"""The command group lists its commands without importing them."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pykraft import __version__
from pykraft.cli.main import COMMANDS, main, pykraft
from tests.cli.command_tree import every_command

SOURCES = Path(__file__).parents[2] / "src"


def test_help_names_every_command_and_what_it_does() -> None:
    result = CliRunner().invoke(pykraft, ["--help"])
    assert result.exit_code == 0
    for name, (_, text) in COMMANDS.items():
        assert name in result.output
        assert text.split()[0] in result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_that_begins_as_the_groups(name: str) -> None:
    command = pykraft.get_command(click.Context(pykraft), name)
    assert command is not None
    assert command.name == name
    result = CliRunner().invoke(pykraft, [name, "--help"])
    assert result.exit_code == 0


def test_every_option_has_help_in_one_style() -> None:
    """A help text is a sentence; nothing in it is meant for the formatter alone."""
    for name, command in every_command():
        text = command.get_help(click.Context(command, info_name=name))
        assert "\\b" not in text, name
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                said = (option.help or "").partition("  [default")[0]
                assert said, f"{name} {option.opts}: no help"
                assert said[0].isupper(), f"{name} {option.opts}: {said}"
                assert said[-1] in ".…", f"{name} {option.opts}: {said}"


@pytest.mark.parametrize(
    ("word", "said"),
    [("--help", "Commands:"), ("help", "Commands:"), *((word, __version__) for word in ("version", "--version", "-V"))],
)
def test_what_is_asked_most_imports_nothing_that_costs(word: str, said: str) -> None:
    code = f"""
import sys
from pykraft.cli.main import main
sys.argv = ["pykraft", "{word}"]
try:
    main()
except SystemExit:
    costly = {{"asyncio", "rich", "crc32c", "pykraft.config", "pykraft.protocol", "pykraft.log"}}
    print("imported:", *sorted(costly & set(sys.modules)))
"""
    environment = {"PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert said in done.stdout
    assert done.stdout.splitlines()[-1] == "imported:"


def test_main_leaves_the_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["pykraft", "version"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert capsys.readouterr().out
