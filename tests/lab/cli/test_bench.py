"""`pykraft bench`: wrong input is one line; figures as text and as JSON; a passed limit is exit code 1."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.bench import options, race
from lab.cli.main import main
from pykraft.local.child import Children, wait_until
from tests.lab.bench.fakes import FakeContender
from tests.lab.bench.test_race import measure_fake


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft bench` with these arguments."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "bench", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def pretend(monkeypatch: pytest.MonkeyPatch, name: str, result: object) -> None:
    """Nothing is started; this comes of `pykraft bench name`, or is raised."""

    def measure(*_: object) -> object:
        if isinstance(result, BaseException):
            raise result
        return result

    monkeypatch.setattr(f"lab.bench.{name}.{name}", measure)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["raft", "--record-size", "0"], "--record-size 0"),
        (["raft", "--record-size", "100,,256"], "--record-size 100,,256"),
        (["raft", "--runs", "-1"], "--runs -1: give 1 to 100"),
        (["raft", "--nodes", "0"], "--nodes 0"),
        (["raft", "--seconds", "0"], "--seconds 0"),
        (["raft", "--throughput", "-5"], "--throughput -5: give a number of records a second, or max"),
        (["raft", "--dir", "no-such-folder"], "--dir no-such-folder: there is no such folder"),
        (["raft", "--peer", "none", "--kafka-libs", "jars"], "with --peer none there is no Kafka to run"),
        (["raft", "--kafka-libs", "no-such-folder"], "folder libs of a Kafka release; or measure pykraft alone"),
    ],
)
def test_wrong_input_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    monkeypatch.setattr("lab.kafka.java.find_java", lambda: Path("java"))
    assert run(monkeypatch, *arguments) == 2
    said = capsys.readouterr()
    assert problem in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


@pytest.fixture
def contenders(monkeypatch: pytest.MonkeyPatch) -> list[FakeContender]:
    """Fakes on a virtual clock in the place of real quorums."""
    fakes = [FakeContender(name="pykraft", most=400_000), FakeContender(name="kafka", most=200_000)]
    monkeypatch.setattr("lab.cli.bench._contenders", lambda peer, libs: fakes if peer == "kafka" else fakes[:1])
    monkeypatch.setattr(race, "run_in_folder", measure_fake)
    return fakes


def test_without_java_it_says_what_to_install_and_what_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(monkeypatch, "raft") == 2
    assert re.fullmatch(r"pykraft: no java .*openjdk-17-jre-headless; .*--peer none\n", capsys.readouterr().err)


def test_a_folder_without_room_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(options, "RUN_SIZE_BYTES_MIN", 2**60)
    assert run(monkeypatch, "raft", "--dir", str(tmp_path)) == 2
    assert re.search(r"--dir \S+: only \d+ MiB are free, and a run needs \d+ MiB\n", capsys.readouterr().err)


def test_the_result_is_printed_as_text_or_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], contenders: list[FakeContender], tmp_path: Path
) -> None:
    arguments = ["--runs", "2", "--record-size", "100,256", "--dir", str(tmp_path)]
    assert run(monkeypatch, "raft", *arguments) == 0
    said = capsys.readouterr()
    assert said.out.count("pykraft / kafka: 2.00 × the records") == 2
    assert said.err.count("records/s committed") == 8
    assert said.err.startswith("8 runs of about 23 s: about 3 minutes")
    assert run(monkeypatch, "raft", *arguments, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert [comparison["rate_ratio"]["median"] for comparison in result["comparisons"]] == [pytest.approx(2)] * 2
    assert result["machine"]["cores"] >= 1
    assert result["options"]["linger_ms"] == 25
    assert len(result["laps"]) == 8


def test_a_run_that_failed_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], contenders: list[FakeContender], tmp_path: Path
) -> None:
    contenders[0].most = 0
    arguments = ["--runs", "1", "--record-size", "100", "--dir", str(tmp_path), "--peer", "none"]
    assert run(monkeypatch, "raft", *arguments) == 1
    assert "FAILED pykraft, 100 bytes" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, -2), (signal.SIGTERM, -15)])
@pytest.mark.processes
def test_an_interrupted_benchmark_leaves_no_process_and_no_file(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    command = [sys.executable, "-m", "lab", "bench", "raft", "--peer", "none", "--dir", str(place)]
    with Children() as children:
        child = children.start("bench", command, tmp_path / "log")
        wait_until(lambda: len(_below(child.pid)) == 3, "the nodes to be started", alive=[child])
        nodes = _below(child.pid)
        child.signal(number)
        assert child.wait(timeout_s=30) == status
        assert not any(Path(f"/proc/{pid}").exists() for pid in nodes)
        assert list(place.iterdir()) == []
        assert child.log().splitlines()[-1] in {"pykraft: interrupted", "pykraft: ended by SIGTERM"}


@pytest.mark.kafka
def test_ours_and_kafkas_run_in_turn(tmp_path: Path) -> None:
    arguments = ["--record-size", "256", "--throughput", "2000", "--seconds", "3", "--warm-up", "1", "--runs", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "lab", "bench", "raft", *arguments, "--dir", tmp_path, "--json"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    assert [figures["contender"] for figures in comparison["figures"]] == ["pykraft", "kafka"]
    assert all(figures["records_per_s"]["median"] > 1_000 for figures in comparison["figures"])
    assert 0 < comparison["memory_ratio"] < 0.5
    assert list(tmp_path.iterdir()) == []


def _below(pid: int) -> list[int]:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(word) for word in words if b"python" in Path(f"/proc/{word}/cmdline").read_bytes()]
