"""``pykraft completion``: a script for each shell, and what commands offer."""

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from lab.cli.main import pykraft


def script(shell: str) -> str:
    result = CliRunner().invoke(pykraft, ["completion", shell])
    assert result.exit_code == 0
    return result.stdout


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
