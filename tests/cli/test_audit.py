"""``pykraft audit``: rows, words, page and exit status without Spark, and with a session whose executors are here.

tests/spark has Spark's own.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import pykraft.spark.session.master
from pykraft.cli.audit import audit
from pykraft.cli.errors import exit_code
from pykraft.errors import ForeignClusterError, UsageError
from pykraft.log.small_files.meta import encode_meta
from tests.audit.replicas import our_replicas, run_here
from tests.log.data_directory import META, flip, segments

JOB = "pykraft.spark.audit_job"


@pytest.fixture
def replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three directories, and nothing of Spark can be imported."""
    for name in ("pyspark", "pyarrow", "numpy", "pandas", "py4j", JOB):
        monkeypatch.setitem(sys.modules, name, None)
    return our_replicas(tmp_path)


@pytest.fixture
def masters(monkeypatch: pytest.MonkeyPatch, replicas: list[Path]) -> list[str]:
    """The masters that sessions were opened at; their executors are this process."""
    del replicas
    opened: list[str] = []

    @contextmanager
    def session(settings: Mapping[str, str]) -> Iterator[None]:
        opened.append(settings["spark.master"])
        yield None

    monkeypatch.setattr(pykraft.spark.session.master, "session_at", session)
    monkeypatch.setitem(sys.modules, JOB, SimpleNamespace(run_on=lambda _, tasks: run_here(tasks)))
    return opened


def run(*words: object) -> Result:
    return CliRunner().invoke(audit, [str(word) for word in words])


def test_sound_replicas_are_summed_up(replicas: list[Path]) -> None:
    result = run(*replicas)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[-1].startswith("No damage found in 3 logs")


def test_damage_is_named_in_words_and_rows_and_on_a_page(replicas: list[Path], tmp_path: Path) -> None:
    path = segments(next(replicas[1].glob("__*")))[0]
    flip(path, 100)
    result = run(*replicas, "--report", tmp_path / "audit.html")
    assert result.exit_code == 4
    assert f"{replicas[1]}: {path}: byte 0: expected CRC" in result.stdout.replace("\n", " ")
    assert "pykraft: 2 places damaged" in result.stderr
    assert f"{path}, byte 100" in (tmp_path / "audit.html").read_text()
    rows = [json.loads(line) for line in run(*replicas, "--json").stdout.splitlines()]
    assert [row["row"] for row in rows] == ["log", "log", "log", "damage", "damage", "total"]
    assert {(row["kind"], row["replica"], row["file"]) for row in rows[3:5]} == {
        ("damaged", str(replicas[1]), str(path)),
        ("differs", str(replicas[1]), str(path)),
    }


def test_a_directory_twice_and_an_empty_journal_are_refused(replicas: list[Path], tmp_path: Path) -> None:
    assert isinstance(run(replicas[0], replicas[0]).exception, UsageError)
    (tmp_path / "journal").write_text("")
    error = run(replicas[0], "--journal", tmp_path / "journal").exception
    assert "nothing in it was acknowledged" in str(error)


def test_directories_of_two_clusters_are_wrong_usage_and_no_damage(replicas: list[Path]) -> None:
    (replicas[1] / "meta.properties").write_bytes(encode_meta(replace(META, cluster_id="another")))
    error = run(*replicas).exception
    assert f"of cluster {META.cluster_id}: {replicas[0]}, {replicas[2]}; of cluster another: {replicas[1]}" in str(
        error
    )
    assert isinstance(error, ForeignClusterError)
    assert exit_code(error) == 2


def test_spark_finds_the_same_where_it_is_asked_for(replicas: list[Path], masters: list[str]) -> None:
    flip(segments(next(replicas[1].glob("__*")))[0], 100)
    here = run(*replicas, "--json")
    assert masters == []
    there = run(*replicas, "--json", "--master", "local[3]")
    assert (there.exit_code, there.stdout, there.stderr) == (4, here.stdout, here.stderr)
    run(*replicas, "--conf", "spark.ui.enabled=false")
    run(*replicas, "--conf", "spark.master=spark://far:7077")
    assert masters == ["local[3,4]", "local[*,4]", "spark://far:7077"]


def test_much_is_read_all_the_same_and_it_says_that_spark_would_share_it(
    replicas: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pykraft.cli.audit.SPARK_SIZE_BYTES_MIN", 1)
    result = run(*replicas)
    assert result.exit_code == 0
    assert result.stdout == run(*replicas).stdout
    assert "are read by this machine alone" in result.stderr
    assert "pip install 'pykraft[spark]', then --master spark://host:port" in result.stderr


def test_without_spark_a_master_says_how_to_get_it(replicas: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutSpark(ModuleType):
        def __getattr__(self, name: str) -> None:
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setitem(sys.modules, JOB, WithoutSpark(JOB))
    error = run(replicas[0], "--master", "local[2]").exception
    assert str(error) == "audit --master needs pyarrow, which is not installed: pip install 'pykraft[spark]'"
