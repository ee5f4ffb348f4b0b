"""Spark's process is started at once and connected to later; each failure is reported."""

import os
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Children
from pykraft.spark.session import jvm
from pykraft.spark.session.jvm import Jvm
from pykraft.spark.session.local import session_settings

pytestmark = pytest.mark.spark

TELLS = """
import os, struct, sys
assert sys.argv[-1] == "pyspark-shell"
with open(os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"], "wb") as way:
    for part in (struct.pack(">i", 4711), struct.pack(">i", 6), b"sec", b"ret"):
        way.write(part)
        way.flush()
sys.stdin.read()
"""
"""In Spark's place: it tells its port and its secret in pieces, and ends with its standard input."""


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of one test; dead when it ends."""
    with Children() as children:
        yield children


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in Spark's place; what is set in the environment is put back."""
    home = tmp_path / "spark home"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setattr(jvm, "prepare_environment", lambda **_: None)
    return home


def put(home: Path, program: str) -> None:
    script = home / "bin" / "spark-submit"
    script.write_text(f"#!{sys.executable}\n{program}")
    script.chmod(0o755)


@pytest.mark.parametrize(("name", "has_sockets"), [("s", True), ("s" * 60, False)])
def test_sockets_are_files_where_their_path_is_not_too_long(
    children: Children, spark_home: Path, monkeypatch: pytest.MonkeyPatch, *, name: str, has_sockets: bool
) -> None:
    put(spark_home, TELLS)
    opened: list[Any] = []

    def open_session(settings: dict[str, str]) -> Any:
        opened.append(settings.get("spark.python.unix.domain.socket.enabled") == "true")
        return SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=SimpleNamespace()))

    monkeypatch.setattr(jvm, "open_session", open_session)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Jvm(children, Path(folder) / name, session_settings("test")).session()
    assert opened == [has_sockets]


def test_the_session_is_opened_with_port_and_secret(
    children: Children, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put(spark_home, TELLS)
    opened: list[Any] = []

    def open_session(settings: dict[str, str]) -> Any:
        opened.append((settings["spark.local.dir"], os.environ["PYSPARK_GATEWAY_PORT"]))
        opened.append(os.environ["PYSPARK_GATEWAY_SECRET"])
        return SimpleNamespace(sparkContext=SimpleNamespace(_accumulatorServer=SimpleNamespace()))

    monkeypatch.setattr(jvm, "open_session", open_session)
    process = Jvm(children, tmp_path / "spark", session_settings("test"))
    process.session()
    assert opened == [(str(tmp_path / "spark"), "4711"), "secret"]
    assert "PYSPARK_GATEWAY_PORT" not in os.environ
    assert process.process.status is None
    process.close()
    assert process.process.wait(timeout_s=10) == 0


def test_a_process_that_ends_is_told(children: Children, spark_home: Path, tmp_path: Path) -> None:
    put(spark_home, "raise SystemExit(7)")
    process = Jvm(children, tmp_path / "spark", session_settings("test"))
    with pytest.raises(LocalQuorumError, match="while waiting for Spark to start: Spark ended with 7"):
        process.session()


def test_half_of_a_way_is_none(children: Children, spark_home: Path, tmp_path: Path) -> None:
    put(spark_home, "")
    process = Jvm(children, tmp_path / "spark", session_settings("test"))
    for told in (b"", struct.pack(">i", 1), struct.pack(">ii", 1, 2) + b"s"):
        (tmp_path / "spark" / "gateway").write_bytes(told)
        assert process._read_way() is None


def test_without_java_nothing_is_started(
    children: Children, spark_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_java(**_: object) -> None:
        raise UsageError("Spark needs a Java runtime")

    monkeypatch.setattr(jvm, "prepare_environment", no_java)
    with pytest.raises(UsageError, match="Java"):
        Jvm(children, tmp_path / "spark", session_settings("test"))
    assert not (tmp_path / "spark").exists()
