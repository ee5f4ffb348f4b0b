"""`pykraft chaos`: wrong input is one line; plan, table, JSON; a failure keeps the files and says how to repeat it."""

import json
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.chaos.ground import ChaosOptions
from lab.chaos.plan import FaultKind
from lab.chaos.run import ChaosOutcome, Done
from lab.cli.main import main
from lab.kafka.java import Kafka
from lab.nodes.verdict import JournalVerdict
from pykraft.cli.interrupt import CommandInterrupted
from pykraft.errors import LocalQuorumError, UsageError
from tests.lab.chaos.test_run import done


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    monkeypatch.setattr(sys, "argv", ["pykraft", "chaos", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def pretend(
    monkeypatch: pytest.MonkeyPatch, *faults: Done, error: BaseException | None = None, power: str | None = None
) -> list[ChaosOptions]:
    """Nothing is started; these faults come of it, or this is raised; ``power`` is why power cannot be cut."""
    seen: list[ChaosOptions] = []

    def run_chaos(options: ChaosOptions, folder: Path, watcher: Any) -> ChaosOutcome:
        seen.append(options)
        (folder / "journal.jsonl").touch()
        watcher.passing("starting the nodes", 0.0)
        for fault in faults:
            watcher.done(fault)
        if error is not None:
            raise error
        return ChaosOutcome(
            seed=options.seed,
            nodes=options.nodes,
            is_dynamic=options.is_dynamic,
            seconds=61.0,
            episodes=2,
            elections=3,
            memory_max_bytes=50 * 1024 * 1024,
            left_out={kind.value: why for kind, why in options.left_out.items()},
            faults=faults,
            verdict=JournalVerdict(acknowledged=12_345, found=12_345),
        )

    monkeypatch.setattr("lab.chaos.run.run_chaos", run_chaos)
    monkeypatch.setattr("lab.chaos.loop_disks.power_problem", lambda folder: power)
    return seen


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--nodes", "2"], "--nodes 2: give 3 to 9"),
        (["--minutes", "0"], "--minutes 0: give more than 0"),
        (["--record-size", "19"], "--record-size 19: give at least 20"),
        (["--throughput", "0"], "--throughput 0: give at least 1"),
        (["--only", "kill", "--without", "stop"], "--only and --without: give one of them"),
        (["--only", "kil"], "--only kil: there is no such kind of fault; the kinds are kill, stop,"),
        (["--without", "kil"], "--without kil: there is no such kind of fault"),
        (["--dir", "no-such-folder"], "--dir no-such-folder: there is no such folder"),
    ],
)
def test_wrong_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    pretend(monkeypatch)
    assert run(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert said.err.count("\n") == 1


def test_a_plan_is_printed_and_nothing_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = pretend(monkeypatch)
    words = ("--plan", "--seed", "3", "--quorum", "static", "--only", "kill,wipe")
    assert run(monkeypatch, *words, "--episodes", "4") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "seed 3: 3 static voters, 500 records per second"
    assert [line.split()[0] for line in lines[1:]] == ["kill", "wipe", "1", "2", "3", "4"]
    assert run(monkeypatch, *words, "--minutes", "0.01") == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert seen == []


def test_faults_are_told_and_summed_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pretend(monkeypatch, done(failover_ms=1_234, pause_ms=2_000), done("pause", hit_leader=False))
    assert run(monkeypatch, "--seed", "1", "--quorum", "static", "--dir", str(tmp_path)) == 0
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "seed 1: 3 static voters, 500 records per second",
        "    1.0 s  kill (node 1): pause 2,000 ms, fail-over 1,234 ms",
        "    1.0 s  pause (node 1): pause 5 ms",
    ]
    assert said.out.splitlines() == [
        "fault  times  on the leader  fail-over ms, median   most  longest pause ms",
        "kill       1              1                 1,234  1,234             2,000",
        "pause      1              0                                              5",
        "",
        "2 episodes in 61 s, 3 elections",
        "12,345 records acknowledged: 0 missing, 0 duplicated, 0 out of order; all logs identical",
        "peak memory of a node: 50 MiB",
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_fault_of_all_nodes_names_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pretend(monkeypatch, replace(done("restart-all"), node_id=None))
    assert run(monkeypatch, "--dir", str(tmp_path)) == 0
    assert "restart-all (all nodes): pause 5 ms" in capsys.readouterr().err


def test_a_java_voter_is_static(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kafka = Kafka(java=Path("java"), jars=tmp_path)
    monkeypatch.setattr("lab.kafka.java.Kafka.find", lambda libs: kafka)
    seen = pretend(monkeypatch, error=LocalQuorumError("lost"))
    for seed in range(5):
        assert run(monkeypatch, "--seed", str(seed), "--java", "--dir", str(tmp_path)) == 1
    assert {(options.is_dynamic, options.kafka) for options in seen} == {(False, kafka)}
    assert "--record-size 100 --java" in capsys.readouterr().err
    assert run(monkeypatch, "--java", "--quorum", "dynamic") == 2
    assert "--java: Kafka's TestRaftServer has static voters only" in capsys.readouterr().err


def test_figures_are_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    seen = pretend(monkeypatch, done())
    assert run(monkeypatch, "--without", "wipe", "--quorum", "static", "--dir", str(tmp_path), "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seed"] == seen[0].seed
    assert document["kinds"][0]["kind"] == "kill"
    assert set(seen[0].kinds) == set(FaultKind) - {FaultKind.WIPE}


def test_what_cannot_be_injected_is_left_out_and_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    seen = pretend(monkeypatch, power="mount: no loop device")
    static = ("--quorum", "static", "--dir", str(tmp_path))
    assert run(monkeypatch, *static, "--json") == 0
    said = capsys.readouterr()
    why = "power cuts need root and loop devices (mount: no loop device)"
    assert said.err.splitlines()[1:] == [f"left out: power-cut: {why}", f"left out: power-cut-all: {why}"]
    assert json.loads(said.out)["left_out"] == {"power-cut": why, "power-cut-all": why}
    assert set(FaultKind) - set(seen[0].kinds) == {FaultKind.POWER_CUT, FaultKind.POWER_CUT_ALL}
    assert run(monkeypatch, *static, "--only", "kill,power-cut-all") == 2
    assert f"--only power-cut-all: {why}" in capsys.readouterr().err
    assert run(monkeypatch, *static, "--without", "power-cut,power-cut-all") == 0
    assert "left out" not in capsys.readouterr().err
    assert run(monkeypatch, "--quorum", "dynamic", "--only", "twin") == 2
    assert "--only twin: the directory id is part of a dynamic voter" in capsys.readouterr().err


def test_the_seed_decides_what_voters_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = pretend(monkeypatch)
    for seed in range(20):
        run(monkeypatch, "--seed", str(seed), "--dir", str(tmp_path))
        run(monkeypatch, "--seed", str(seed), "--dir", str(tmp_path))
    assert [options.is_dynamic for options in seen[::2]] == [options.is_dynamic for options in seen[1::2]]
    assert {options.is_dynamic for options in seen} == {False, True}


def test_a_failure_keeps_the_files_and_says_how_to_do_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pretend(monkeypatch, error=LocalQuorumError("node 2 ended with 1"))
    words = ("--seed", "5", "--quorum", "static", "--episodes", "9", "--minutes", "1.5", "--only", "kill,wipe")
    assert run(monkeypatch, *words, "--dir", str(tmp_path)) == 1
    said = capsys.readouterr().err.splitlines()
    (home,) = tmp_path.iterdir()
    assert (home / "journal.jsonl").exists()
    again = "pykraft chaos --seed 5 --minutes 1.5 --nodes 3 --quorum static --throughput 500 --record-size 100"
    assert said[1:] == [
        f"to repeat the same faults, with different timing: {again} --episodes 9 --only kill,wipe",
        f"logs, journal and the nodes' output are in {home}",
        "pykraft: node 2 ended with 1",
    ]


def test_what_this_machine_cannot_have_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend(monkeypatch, error=UsageError("no small file system can be mounted here"))
    assert run(monkeypatch, "--dir", str(tmp_path)) == 2
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    pretend(monkeypatch, error=CommandInterrupted(signal.SIGINT))
    assert run(monkeypatch, "--dir", str(tmp_path)) == 130
    assert "are in" not in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
