"""What shells ask, what they get, and what real ones then complete."""

import os
import pty
import re
import select
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.cli.main import COMMANDS, VARIABLE, main, pykraft
from pykraft.cli.parsing.shells import SHELLS, script

TIMEOUT_S = 30
START = {"bash": ["--norc", "-i"], "zsh": ["-f", "-i"]}
SOURCE = {
    "bash": "bind 'set enable-bracketed-paste off'; source ./script",
    "zsh": "autoload -U compinit; compinit -u -D; source ./script",
}
SOURCES = Path(__file__).parents[3] / "src"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an executable `pykraft` in it."""
    program = tmp_path / "pykraft"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCES}" exec "{sys.executable}" -m pykraft "$@"\n')
    program.chmod(0o755)
    return tmp_path


Offer = Callable[..., list[str]]


@pytest.fixture
def offered_for(monkeypatch: pytest.MonkeyPatch) -> Offer:
    """What a shell is told when it completes ``pykraft LINE``, without the kinds and the help."""

    def offer(line: str, shell: str = "bash") -> list[str]:
        monkeypatch.setenv("COMP_LINE", f"pykraft {line}")
        monkeypatch.setenv("COMP_BREAKS", " \"'><=;|&(:")
        told = SHELLS[shell](pykraft, {}, "pykraft", VARIABLE).complete()
        return [text.split("\t")[1] for text in told.splitlines()]

    return offer


def typed(folder: Path, shell: str, line: str, shown: str) -> None:
    """Type the line and Tab into an interactive shell on a terminal of its own, and wait until it shows a text."""
    (folder / "script").write_text(script(shell, pykraft, "pykraft", VARIABLE))
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        variables = {"PATH": f"{folder}:/usr/bin:/bin", "TERM": "dumb", "INPUTRC": "/dev/null", "HOME": str(folder)}
        os.execve(str(shutil.which(shell)), [shell, *START[shell]], variables)  # noqa: S606 - the shells of this machine
    try:
        os.write(terminal, f"{SOURCE[shell]}; echo re''ady\n".encode())
        wait_for(terminal, "ready")
        os.write(terminal, f"{line}\t".encode())
        wait_for(terminal, shown)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def wait_for(terminal: int, shown: str) -> None:
    """Read until this was printed, without the control characters that move the cursor."""
    read = ""
    while shown not in re.sub(r"[^ -~]", "", read):
        ready, _, _ = select.select([terminal], [], [], TIMEOUT_S)
        assert ready, f"{shown!r} was not shown: {read!r}"
        read += os.read(terminal, 4_096).decode(errors="replace")


@pytest.mark.parametrize("shell", [shell for shell in START if shutil.which(shell)])
@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("pykraft verify --progress=al", "--progress=always"),
        ("pykraft tail --bootstrap-controller localhost:9093 --command-config fo", "--command-config foo.properties"),
        ("pykraft tail --command-config=fo", "--command-config=foo.properties"),
    ],
)
def test_a_real_shell_completes_values_and_files(folder: Path, shell: str, line: str, shown: str) -> None:
    """bash everywhere, and zsh where it is installed."""
    (folder / "foo.properties").touch()
    typed(folder, shell, line, shown)


def test_commands_options_and_their_values_are_completed(offered_for: Offer) -> None:
    assert offered_for("") == sorted(COMMANDS)
    assert offered_for("ve", "zsh") == ["verify", "version"]
    assert offered_for("storage ", "fish") == ["format", "info", "random-uuid"]
    assert offered_for("verify --") == ["--json", "--progress", "--help"]
    assert offered_for("verify 'a b' --progress ") == ["auto", "always", "never"]
    assert offered_for("sim run --faults quiet,a") == ["quiet,all", "quiet,asked"]


def test_a_value_after_an_equals_sign_is_completed_as_each_shell_wants_it(offered_for: Offer) -> None:
    assert offered_for("sim run --faults=quiet,a", "bash") == ["quiet,all", "quiet,asked"]
    for shell in ("zsh", "fish"):
        assert offered_for("sim run --faults=quiet,a", shell) == ["--faults=quiet,all", "--faults=quiet,asked"]
        assert offered_for("tail --command-config=fo", shell) == ["fo"]


def test_the_command_line_answers_a_shell_that_asks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COMP_LINE", "pykraft ver")
    monkeypatch.setenv(VARIABLE, "fish_complete")
    monkeypatch.setattr("sys.argv", ["pykraft"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["plain", "verify"],
        ["plain", "version"],
    ]
