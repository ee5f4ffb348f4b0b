"""``pykraft completion``: what a real bash offers after it has read the script."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from pykraft.cli.main import COMMANDS, pykraft

SOURCES = Path(__file__).parents[2] / "src"


def script(shell: str) -> str:
    result = CliRunner().invoke(pykraft, ["completion", shell])
    assert result.exit_code == 0
    return result.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with an executable `pykraft` in it."""
    program = tmp_path / "pykraft"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{SOURCES}" exec "{sys.executable}" -m pykraft "$@"\n')
    program.chmod(0o755)
    return tmp_path


def candidates(folder: Path, *words: str) -> list[str]:
    """What bash would offer for the last of the words."""
    (folder / "script").write_text(script("bash"))
    line = f"""
source "{folder}/script"
complete -p pykraft >/dev/null || exit 9
COMP_WORDS=(pykraft {" ".join(f"'{word}'" for word in words)})
COMP_CWORD={len(words)}
_pykraft_completion pykraft
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    bash = shutil.which("bash")
    assert bash is not None
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    done = subprocess.run(
        [bash, "--norc", "-c", line], env=environment, capture_output=True, text=True, check=True, cwd=folder
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_their_values(folder: Path) -> None:
    assert candidates(folder, "") == sorted(COMMANDS)
    assert candidates(folder, "ve") == ["verify", "version"]
    assert candidates(folder, "storage", "") == ["format", "info", "random-uuid"]
    assert candidates(folder, "verify", "--") == ["--json", "--progress", "--help"]
    assert candidates(folder, "verify", "--progress", "") == ["auto", "always", "never"]
    assert candidates(folder, "sim", "run", "--faults", "quiet,a") == ["quiet,all", "quiet,asked"]


@pytest.mark.parametrize(
    ("words", "typed", "offered"),
    [
        (("sim", "run", "--faults"), "qu", ["quiet"]),
        (("sim", "replay", "--faults"), "disk,quiet,di", []),
        (("sim", "mutants"), "votes_are", ["votes_are_given_twice"]),
        (("sim", "mutants", "--oracle"), "OneV", ["OneVote"]),
        (("chaos", "--only"), "kill,wi", ["kill,wipe", "kill,wipe-and-lag"]),
        (("chaos", "--without"), "fr", ["freeze"]),
        (("chaos", "--quorum"), "s", ["static"]),
        (("tail", "--from"), "e", ["earliest"]),
        (("pipeline", "run", "--from"), "l", ["latest"]),
        (("pipeline", "run", "--corrupt"), "", ["fail", "mark"]),
        (("server", "--log-level"), "w", ["warning"]),
        (("bench", "raft", "--peer"), "", ["kafka", "none"]),
        (("completion",), "z", ["zsh"]),
    ],
)
def test_each_list_of_names_is_completed(words: tuple[str, ...], typed: str, offered: list[str]) -> None:
    """All three shells ask for candidates this way."""
    completer = ShellComplete(pykraft, {}, "pykraft", "_PYKRAFT_COMPLETE")
    assert [item.value for item in completer.get_completions(list(words), typed)] == offered


@pytest.mark.parametrize(
    "words",
    [
        ("server",),
        ("server", "--config"),
        ("storage", "format", "--config"),
        ("dump",),
        ("sim", "run", "--scenario"),
        ("quorum", "--command-config"),
        ("tail", "--command-config"),
    ],
)
def test_paths_are_completed_by_the_shell(words: tuple[str, ...]) -> None:
    completer = ShellComplete(pykraft, {}, "pykraft", "_PYKRAFT_COMPLETE")
    assert [item.type for item in completer.get_completions(list(words), "x")] == ["file"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_pykraft(shell: str) -> None:
    assert f"_PYKRAFT_COMPLETE={shell}_complete" in script(shell)


def test_another_shell_is_refused_with_those_that_are() -> None:
    result = CliRunner().invoke(pykraft, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "tcsh: give one of bash, zsh, fish" in result.output
