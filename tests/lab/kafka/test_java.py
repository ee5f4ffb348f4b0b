"""An error names a Java that is missing or too old, and what to install."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.kafka.jars import KafkaUnavailableError
from lab.kafka.java import Kafka, Main, find_java


def put_java(folder: Path, version: str) -> None:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)


def test_the_java_of_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_java(tmp_path, "21.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == tmp_path / "bin" / "java"


def test_without_java_the_debian_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="Debian's package openjdk-17-jre-headless"):
        find_java()


@pytest.mark.parametrize("version", ["11.0.1", "1.8.0_401", "?"])
def test_a_java_that_is_too_old_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    put_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(KafkaUnavailableError, match="is not Java 17 or later"):
        find_java()


@pytest.mark.kafka
def test_tools_tell_how_they_ended(kafka: Kafka) -> None:
    assert len(kafka.run(Main.STORAGE, "random-uuid").stdout.strip()) == 22
    refused = kafka.run(Main.STORAGE, "no-such-command")
    assert refused.status != 0
    assert "no-such-command" in refused.stderr
