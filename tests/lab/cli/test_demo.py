"""`pykraft demo`: wrong input is one line and exit code 2; files are kept only when somebody needs them."""

import io
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from threading import Event
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from lab.cli import demo as module
from lab.cli.main import main
from lab.demo.result import DemoOptions
from lab.progress import ReportProgress
from pykraft.cli.interrupt import CommandInterrupted
from pykraft.errors import LocalQuorumError, UsageError

pytestmark = pytest.mark.spark


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft demo` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "demo", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


class Stages:
    """What takes the place of `run_demo`: it tells, raises or answers as a test wants."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.options = DemoOptions()
        self.error: BaseException | None = None
        self.signal: signal.Signals | None = None
        audit = SimpleNamespace(
            acknowledged=90,
            spark_rows=91,
            duplicates=0,
            missing=0,
            out_of_order=0,
            committed_records=91,
            leader_epochs=2,
        )
        latency_ms = {"p50": 1.0, "p99": 2.0}
        self.result: Any = SimpleNamespace(
            audit=audit,
            comparison=SimpleNamespace(are_identical=True),
            problems=[],
            failover_ms=800,
            seconds=2.0,
            commit_latency_ms=latency_ms,
            batch_latency_ms={"p50": 1_100.0, "p99": 2_000.0},
            as_json=self._as_json,
        )

    @staticmethod
    def _as_json() -> dict[str, object]:
        return {"acknowledged": 90}

    def __call__(self, options: DemoOptions, folder: Path, report: ReportProgress) -> Any:
        self.options, self.folder = options, folder
        (folder / "n1").mkdir()
        report("node [1] started")
        report("5 records acknowledged", is_passing=True)
        if self.signal is not None:
            os.kill(os.getpid(), self.signal)
        if self.error is not None:
            raise self.error
        return SimpleNamespace(result=self.result)

    @property
    def exists(self) -> bool:
        """Whether what was written is still there."""
        assert self.folder is not None
        kept = self.folder.exists()
        shutil.rmtree(self.folder, ignore_errors=True)
        return kept


class WithoutSpark(ModuleType):
    """A module that fails as its import does where Spark is not installed."""

    def __getattr__(self, name: str) -> object:
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")


def test_without_spark_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "lab.demo.run", WithoutSpark("run"))
    assert run(monkeypatch) == 2
    assert "the demo needs pyspark, which is not installed: pip install 'pykraft[spark]'" in capsys.readouterr().err


def test_an_unknown_option_is_shown_with_the_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--secnds", "3") == 2
    assert "--secnds" in capsys.readouterr().err


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> Stages:
    """The demo's stages, in place of the real ones; they need no Spark."""
    stages = Stages()
    monkeypatch.setitem(sys.modules, "lab.demo.run", SimpleNamespace(run_demo=stages))
    return stages


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--seconds", "1"), "pykraft: --seconds 1: give 2 to 86400\n"),
        (("--nodes", "1", "--kill-leader"), "pykraft: --kill-leader needs --nodes 3 or more: 1 cannot elect a leader"),
        (("--record-size", "3"), "pykraft: --record-size 3: give at least 20 bytes"),
        (("--data", "{folder}"), "--data {folder}: it is not empty"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    arguments: tuple[str, ...],
    problem: str,
    stages: Stages,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    (tmp_path / "something").touch()
    assert run(monkeypatch, *(word.format(folder=tmp_path) for word in arguments)) == 2
    said = capsys.readouterr().err
    assert problem.format(folder=tmp_path) in said
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert stages.folder is None


def test_a_result_is_summed_up_and_written(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "--kill-leader", "--nodes", "5") == 0
    said = capsys.readouterr()
    assert (stages.options.nodes, stages.options.kill_leader) == (5, True)
    assert "node [1] started" in said.err
    assert "800 ms" in said.out
    assert "0 / 0 / 0" in said.out
    assert "1,100 / 2,000 ms" in said.out
    assert not stages.exists


def test_json_is_all_of_standard_output(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out) == {"acknowledged": 90}
    assert "every acknowledged record is in the tables exactly once" in said.err


def test_problems_end_with_1_and_keep_the_files(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stages.result.problems = ["the replicas [differ]"]
    assert run(monkeypatch, "--json", "--data", str(tmp_path / "data")) == 1
    said = capsys.readouterr()
    assert "FAILED the replicas [differ]" in said.err
    assert json.loads(said.out)
    assert str(tmp_path / "data") in said.err.replace("\n", "")
    assert stages.exists


@pytest.mark.parametrize(
    ("error", "status", "is_kept"),
    [
        (LocalQuorumError("node 2 ended"), 1, True),
        (UsageError("no Java"), 2, False),
        (CommandInterrupted(signal.SIGINT), 130, False),
    ],
)
def test_what_ends_it_early_is_told_and_prints_no_result(
    *,
    error: BaseException,
    status: int,
    is_kept: bool,
    stages: Stages,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    error.add_note("the end of node 2's log [1]")
    stages.error = error
    assert run(monkeypatch, "--json") == status
    out, said = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in said
    if not isinstance(error, CommandInterrupted):
        assert f"pykraft: {error}\n" in said
        assert "the end of node 2's log [1]" in said
    assert stages.exists == is_kept


@pytest.mark.parametrize("data", [False, True])
def test_a_signal_ends_it_with_one_line(
    stages: Stages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, *, data: bool
) -> None:
    """Files stay only where the user asked for them."""
    stages.signal = signal.SIGTERM
    assert run(monkeypatch, *(["--data", str(tmp_path / "data")] if data else [])) == 128 + signal.SIGTERM
    assert capsys.readouterr().err.splitlines()[-1] == "pykraft: ended by SIGTERM"
    assert stages.exists == data


class Pipe(io.StringIO):
    """Knows when a line comes again."""

    def __init__(self) -> None:
        super().__init__()
        self.has_repeated = Event()

    def write(self, text: str, /) -> int:
        if "still checking [1]" in text:
            self.has_repeated.set()
        return super().write(text)


@pytest.mark.parametrize("terminal", [None, "dumb"])
def test_what_takes_long_is_said_again_where_no_line_moves(
    monkeypatch: pytest.MonkeyPatch, terminal: str | None
) -> None:
    monkeypatch.setattr(module, "SILENCE_S_MAX", 0.02)
    pipe = Pipe()
    environment = {} if terminal is None else {"TERM": terminal}
    console = Console(file=pipe, force_terminal=terminal is not None, highlight=False, _environ=environment)
    with console.status("") as status, module._Lines(console, status).printed() as lines:
        lines("checking [1]")
        assert pipe.has_repeated.wait(60)
    written = pipe.getvalue()
    assert written.index(" s  checking [1]") < written.index(" s  still checking [1]")


def test_a_closed_output_ends_the_repetitions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE_S_MAX", 0.02)
    asked = Event()

    class Lines(module._Lines):
        def _print(self, text: str) -> None:
            if text.startswith("still"):
                asked.set()
                raise BrokenPipeError

    console = Console(file=io.StringIO())
    with console.status("") as status, Lines(console, status).printed() as lines:
        lines("checking")
        assert asked.wait(60)
