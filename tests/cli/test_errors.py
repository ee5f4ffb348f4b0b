"""Errors as an operator sees them: one line and an exit code; a bug shows its traceback."""

import errno
import re
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from pykraft import errors
from pykraft.cli.errors import EXIT_CODES, error_text, exit_code, run_with_exit_codes

CASES: list[tuple[Exception, int]] = [
    (errors.UsageError("do it otherwise"), 2),
    (errors.ConfigError("node.id", "x", "a whole number"), 2),
    (errors.AddressInUseError("listeners", "A://:1", "cannot be bound"), 1),
    (errors.NotLeaderError(None, 3), 2),
    (errors.BufferFullError("later"), 2),
    (errors.StorageError("/data", "no space left on device"), 3),
    (errors.CorruptionError("/data/log", position=4, expected="a", found="b"), 4),
    (errors.ForeignDirectoryError("/data", "belongs to node 2"), 4),
    (errors.UnusableLogError("/data", "lacks its beginning"), 4),
    (errors.ProtocolError("garbage"), 1),
    (OSError(2, "No such file or directory", "absent"), 1),
]


def run(body: Callable[[], object], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit status of a command with this body."""

    @click.command()
    @click.option("--number", type=int)
    def command(number: int | None) -> object:
        del number
        return body()

    monkeypatch.setattr("sys.argv", ["pykraft", *arguments])
    with pytest.raises(SystemExit) as caught:
        run_with_exit_codes(command)
    assert isinstance(caught.value.code, int)
    return caught.value.code


def raises(error: BaseException) -> Callable[[], object]:
    def body() -> object:
        raise error

    return body


@pytest.mark.parametrize(("error", "code"), CASES, ids=lambda case: type(case).__name__)
def test_an_error_is_one_line_and_a_code(
    error: Exception, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(error) == code
    assert run(raises(error), monkeypatch) == code
    assert capsys.readouterr() == ("", f"pykraft: {error_text(error)}\n")


def test_the_operating_system_s_errors_are_told_in_words() -> None:
    assert error_text(OSError(2, "No such file or directory", "absent")) == "absent: No such file or directory"
    assert error_text(OSError(28, "No space left on device")) == "No space left on device"
    assert error_text(OSError("only a text")) == "only a text"
    assert error_text(errors.UsageError("do it otherwise")) == "do it otherwise"


def test_a_command_may_choose_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(lambda: None, monkeypatch) == 0
    assert run(lambda: 1, monkeypatch) == 1


def test_wrong_arguments_are_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lambda: None, monkeypatch, "--number", "x") == 2
    assert "invalid value for --number: x is not a valid integer" in capsys.readouterr().err
    assert run(lambda: None, monkeypatch, "--unheard-of") == 2


def test_an_interrupt_is_1_and_no_story(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(raises(KeyboardInterrupt()), monkeypatch) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_a_reader_that_is_gone_is_1_and_no_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(raises(BrokenPipeError(errno.EPIPE, "Broken pipe")), monkeypatch) == 1
    assert capsys.readouterr().err == ""


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="ours"):
        run(raises(AssertionError("ours")), monkeypatch)


def test_the_page_has_the_table_of_codes() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text()
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", page.partition("\n## ")[0], re.MULTILINE)
    assert {int(code): text for code, text in rows} == EXIT_CODES
