"""Kafka's jars are fetched once, completely or not at all; an error says what to install. Uses a fake Maven."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.kafka.jars import KAFKA_VERSION, LOCKED, KafkaUnavailableError, check_jars, ensure_jars, read_sums

JARS = {"a.jar": b"one", "b.jar": b"two"}


class FalseMaven:
    """A ``mvn`` on the PATH that writes the jars it is told to, and counts how often it was asked."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.locked = folder / "jars.sha256"
        self.cache = folder / "cache"
        self._bin = folder / "bin"
        self._calls = folder / "calls"
        self._bin.mkdir()
        self.locked.write_text("".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in JARS.items()))
        monkeypatch.setenv("PATH", f"{self._bin}:{os.environ['PATH']}")

    def brings(self, jars: dict[str, bytes], *, status: int = 0) -> None:
        script = self._bin / "mvn"
        script.write_text(
            f"#!{sys.executable}\n"
            "import pathlib, sys\n"
            "option = next(option for option in sys.argv if option.startswith('-DoutputDirectory='))\n"
            "out = pathlib.Path(option.partition('=')[2])\n"
            "out.mkdir(parents=True)\n"
            f"for name, data in {jars!r}.items(): (out / name).write_bytes(data)\n"
            f"with open({str(self._calls)!r}, 'a') as calls: calls.write('x')\n"
            f"print('a word from Maven'); sys.exit({status})\n"
        )
        script.chmod(0o755)

    @property
    def calls(self) -> int:
        return len(self._calls.read_text()) if self._calls.exists() else 0

    def ensure(self) -> Path:
        return ensure_jars(self.cache, self.locked)


@pytest.fixture
def maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FalseMaven:
    maven = FalseMaven(tmp_path, monkeypatch)
    maven.brings(JARS)
    return maven


def test_jars_are_fetched_once(maven: FalseMaven) -> None:
    folder = maven.ensure()
    assert folder == maven.cache / f"kafka-{KAFKA_VERSION}"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == JARS
    assert maven.ensure() == folder
    assert maven.calls == 1
    assert sorted(path.name for path in maven.cache.iterdir()) == [folder.name, f"{folder.name}.lock"]


def test_a_folder_that_is_not_whole_is_fetched_again(maven: FalseMaven) -> None:
    (maven.ensure() / "a.jar").unlink()
    (maven.ensure() / "a.jar").write_bytes(b"other")
    assert (maven.ensure() / "a.jar").read_bytes() == b"one"
    assert maven.calls == 3


@pytest.mark.parametrize(
    ("brought", "problem"),
    [
        ({"a.jar": b"one"}, "missing: b.jar"),
        (JARS | {"c.jar": b""}, "not listed: c.jar"),
        (JARS | {"b.jar": b"2"}, "other bytes: b.jar"),
    ],
)
def test_other_jars_than_expected_are_refused(maven: FalseMaven, brought: dict[str, bytes], problem: str) -> None:
    maven.brings(brought)
    with pytest.raises(KafkaUnavailableError, match=problem):
        maven.ensure()
    assert [path.name for path in maven.cache.iterdir()] == [f"kafka-{KAFKA_VERSION}.lock"]


def test_a_maven_that_fails_is_quoted(maven: FalseMaven) -> None:
    maven.brings({}, status=1)
    with pytest.raises(KafkaUnavailableError, match="a word from Maven"):
        maven.ensure()


def test_without_maven_the_debian_package_is_named(
    maven: FalseMaven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="Debian's package maven"):
        maven.ensure()


def test_two_runs_at_once_fetch_once(maven: FalseMaven) -> None:
    code = (
        "import sys, pathlib; from lab.kafka.jars import ensure_jars;"
        "ensure_jars(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, str(maven.cache), str(maven.locked)]
    root = Path(__file__).resolve().parents[3]
    runs = [subprocess.Popen(command, cwd=root) for _ in range(3)]
    assert [run.wait(60) for run in runs] == [0, 0, 0]
    assert maven.calls == 1


def test_the_list_of_jars_has_what_the_pom_asks_for() -> None:
    names = read_sums(LOCKED).keys()
    for artifact in ("kafka_2.13", "kafka-tools", "kafka-shell", "kafka-clients", "kafka-raft"):
        assert f"{artifact}-{KAFKA_VERSION}.jar" in names


def test_jars_that_somebody_brought_are_looked_at(tmp_path: Path) -> None:
    with pytest.raises(KafkaUnavailableError, match="folder libs of a Kafka release"):
        check_jars(tmp_path / "none")
    for name in ("kafka_2.13-4.4.0.jar", "kafka-raft-4.4.0.jar"):
        (tmp_path / name).touch()
    assert check_jars(tmp_path) == tmp_path
