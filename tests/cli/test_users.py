"""`pykraft users`: users are added with a password from standard input, listed and removed."""

import json
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from pykraft.cli import users as module
from pykraft.cli.users import users
from pykraft.errors import UsageError
from pykraft.security.exchanges import ScramAnswer, ScramAsk
from pykraft.security.users import read_users


def run(path: Path, verb: str, *words: str, typed: str = "") -> Result:
    return CliRunner().invoke(users, [verb, "--file", str(path), *words], input=typed, catch_exceptions=False)


def test_users_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    assert run(path, "add", "alice", typed="one two\nmore\n").output == ""
    run(path, "add", "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", typed="secret")
    assert run(path, "list").output == "alice  SCRAM-SHA-256, SCRAM-SHA-512\nbob  SCRAM-SHA-512\n"
    assert json.loads(run(path, "list", "--json").output)["users"]["bob"] == ["SCRAM-SHA-512"]
    known = read_users(path)
    assert known["SCRAM-SHA-512"]["bob"][3] == 8_192
    answering = ScramAnswer("SCRAM-SHA-256", known["SCRAM-SHA-256"])
    asking = ScramAsk("SCRAM-SHA-256", "alice", "one two")
    final = asking.answer(answering.answer(asking.begin()))
    assert final is not None
    answering.answer(final)
    assert answering.proven is not None
    run(path, "remove", "alice")
    assert run(path, "list").output == "bob  SCRAM-SHA-512\n"
    with pytest.raises(UsageError, match=f"{path}: it has no user 'alice'"):
        run(path, "remove", "alice")


def test_password_is_asked_for_on_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr(click, "prompt", lambda text, **options: "typed" if options["hide_input"] else "")
    assert module._password("alice") == "typed"
    del tmp_path


@pytest.mark.parametrize("typed", ["", "\n", "x" * 1_025])
def test_password_has_bounds(typed: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="its first line is the password"):
        run(tmp_path / "users.json", "add", "alice", typed=typed)
    assert list(tmp_path.iterdir()) == []


def test_user_without_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not empty"):
        run(tmp_path / "users.json", "add", "", typed="x\n")


def test_other_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text("else")
    with pytest.raises(UsageError, match=f"{path}: it is no file that"):
        run(path, "add", "alice", typed="x\n")
    assert path.read_text() == "else"
    with pytest.raises(UsageError, match="Is a directory"):
        run(tmp_path, "list")
