"""A measurement stops its nodes and removes their files, however it ends; a failed quorum is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.cli.bench.run import run_in
from pykraft.cli.interrupt import CommandInterrupted
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children
from pykraft.local.waiting import wait_until
from tests.cli.bench_command import pretend, run


@pytest.mark.parametrize("name", ["join", "transfer"])
@pytest.mark.parametrize(
    ("problem", "told", "status"),
    [(LocalQuorumError("node 1 died"), "pykraft: node 1 died\n", 1), (CommandInterrupted(2), "", 130)],
)
def test_a_run_that_ends_early(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    *,
    name: str,
    problem: BaseException,
    told: str,
    status: int,
) -> None:
    pretend(monkeypatch, name, problem)
    assert run(monkeypatch, name, "--dir", str(tmp_path)) == status
    said = capsys.readouterr()
    assert said.err.endswith(told)
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_the_logs_of_a_quorum_that_failed_are_shown_and_its_processes_ended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    started: list[Child] = []

    def measure(children: Children, home: Path) -> None:
        log = home / "node.log"
        child = children.start("node 1", ["sh", "-c", "echo it hurts; exec sleep 60"], log)
        started.append(child)
        wait_until(lambda: "it hurts" in log.read_text(), "its words", alive=[child])
        raise LocalQuorumError("no leader")

    with pytest.raises(LocalQuorumError, match="no leader"):
        run_in(tmp_path, measure, plan="about a minute")
    said = capsys.readouterr().err
    assert said.startswith("about a minute\n")
    assert "it hurts" in said
    assert started[0].status is not None
    assert list(tmp_path.iterdir()) == []
