"""`pykraft pipeline`: from a log to tables on the command line; wrong input is one line and a status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from pykraft.cli.main import main
from tests.spark.logs import three_batches, write_segment

TIMEOUT_S = 280


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int | str | None:
    """The exit status of `pykraft pipeline` in this process."""
    monkeypatch.setattr(sys, "argv", ["pykraft", "pipeline", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def start(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`pykraft pipeline` in a process of its own, since a session belongs to one."""
    command = [sys.executable, "-m", "pykraft", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "--tables", "t"], "either --bootstrap-controller or --path"),
        (["run", "--tables", "t", "--path", "p", "--bootstrap-controller", "a:1"], "either --bootstrap-controller"),
        (["run", "--tables", "t", "--path", "p", "--from", "first"], "--from 'first': it must be earliest"),
        (["run", "--tables", "t", "--bootstrap-controller", "a"], "host:port"),
        (["run", "--tables", "t", "--path", "p", "--master", "cluster"], "--master cluster: it must be local[CORES]"),
        (["run", "--tables", "t", "--path", "p", "--conf", "memory"], "--conf memory: it must be a property of Spark"),
        (["run", "--tables", "t", "--path", "p", "--conf", "a=b"], "--conf a=b: it must be a property of Spark"),
        (["run", "--tables", "t", "--path", "p"], "p: no segment files; give partition directories"),
        (["run", "--path", "p"], "--tables is missing; see pykraft pipeline run --help"),
        (["run", "--tables", "t", "--path", "p", "--format", "csv"], "--format csv: give one of delta, parquet"),
        (["status", "--tables", "t"], "no pipeline has written there"),
        (["report", "--tables", "t"], "no pipeline has written there"),
        (["report", "--tables", "t", "--journal", "j"], "--journal j: No such file or directory"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "Traceback" not in error
    assert not (tmp_path / "t").exists()


def test_the_package_travels_as_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "package", str(tmp_path / "pykraft.zip")) == 0
    assert "pykraft/spark/source.py" in ZipFile(tmp_path / "pykraft.zip").namelist()
    (tmp_path / "file").touch()
    assert run(monkeypatch, "package", str(tmp_path / "file" / "pykraft.zip")) == 2


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_log_becomes_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = str(tmp_path / "tables")
    segment = write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches()))
    done = start("run", "--tables", tables, "--path", str(segment.parent), "--json")
    assert done.returncode == 0, done.stderr
    (line,) = (json.loads(each) for each in done.stdout.splitlines())
    assert (line["batch_id"], line["batches"]) == (0, 3)
    assert "written: 3 batches in 1 micro-batch\n" in done.stderr
    assert run(monkeypatch, "status", "--tables", tables, "--json") == 0
    assert json.loads(capsys.readouterr().out)["tables"]["silver_records"]["rows"] == 6
    assert run(monkeypatch, "status", "--tables", tables) == 0
    assert "silver_records" in capsys.readouterr().out
