"""An error names a Java that is missing or too old, and what to install."""

from pathlib import Path

import pytest

from lab.kafka.jars import KafkaUnavailableError
from lab.kafka.java import STOPPED_BY_SIGTERM, JavaNode, Kafka, Main, find_java
from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from pykraft.local.child import Children
from pykraft.local.voters import free_ports
from tests.processes.elections import wait_for_known_leader


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


pytestmark = pytest.mark.kafka


def test_two_java_nodes_form_a_quorum_and_go_on_after_a_kill(kafka: Kafka, children: Children, tmp_path: Path) -> None:
    ports = dict(zip((1, 2), free_ports(2), strict=True))
    nodes = {i: JavaNode(kafka, children, tmp_path / f"n{i}", node_id=i, ports=ports) for i in ports}
    for node in nodes.values():
        node.start()
    first = wait_for_known_leader(nodes[1].partition, nodes[1].process)
    leader, follower = nodes[first.id], nodes[3 - first.id]
    wait_for_end_offset(follower.partition, 20, follower.process)

    leader.process.kill()
    leader.start()
    second = wait_for_known_leader(follower.partition, follower.process, after_epoch=first.epoch)
    end = read_stream(nodes[second.id].partition).end_offset
    for node in nodes.values():
        wait_for_end_offset(node.partition, end + 20, node.process)

    assert {node.process.stop() for node in nodes.values()} == {STOPPED_BY_SIGTERM}
    require_identical({str(i): read_stream(node.partition) for i, node in nodes.items()}, end_offset=end)
