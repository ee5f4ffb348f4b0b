"""A quorum outlives its command: the real commands, a killed node, a stale pid, and the same quorum again.

A node outlives the command, and a stale pid file is never believed. The processes here only wait for a signal.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pykraft.cli.interrupt import CommandInterrupted
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local import background_quorum
from pykraft.local.background_quorum import BackgroundNode, LocalQuorum, bring_up
from pykraft.local.child import Children, wait_until
from pykraft.local.quorum_folder import QuorumFolder
from pykraft.local.voters import SOURCES
from tests.processes.commands import Finished, assert_one_line, run

pytestmark = pytest.mark.processes


def local(folder: Path, verb: str, *options: str) -> Finished:
    return run("local", verb, "--dir", str(folder), *options, timeout_s=120)


def described(done: Finished, status: int) -> dict[str, Any]:
    assert (done.returncode, done.stderr) == (status, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.long
def test_a_quorum_goes_up_survives_its_nodes_and_goes_down(tmp_path: Path) -> None:
    folder = tmp_path / "q"
    try:
        first = described(local(folder, "up", "--json"), 0)
        assert [node["role"] for node in first["nodes"]].count("leader") == 1
        assert all(port < 32_768 for port in QuorumFolder.read(folder).ports.values())

        killed = next(node for node in first["nodes"] if node["role"] == "follower")
        os.kill(killed["pid"], signal.SIGKILL)
        home = Path(killed["logFile"]).parent
        node = BackgroundNode(home, node_id=killed["nodeId"], port=1, cluster_id="x")
        assert node.wait_until_down(30)
        # Its pid belongs to another process now: to the one of this test.
        (home / "pid").write_text(f"{os.getpid()}\n")
        found = described(local(folder, "status", "--json"), 1)
        assert {each["nodeId"]: each["pid"] for each in found["nodes"]}[killed["nodeId"]] is None
        again = described(local(folder, "up", "--json"), 0)
        # The leader remembers the killed one, and yet its new process was waited for.
        socket.create_connection(("127.0.0.1", QuorumFolder.read(folder).ports[killed["nodeId"]])).close()
        pids = {each["nodeId"]: each["pid"] for each in again["nodes"]}
        assert {each["nodeId"]: each["pid"] for each in first["nodes"]} == pids | {killed["nodeId"]: killed["pid"]}

        stopped = local(folder, "down")
        assert (stopped.returncode, stopped.stdout) == (0, f"stopped 3 nodes; the files stay in {folder}\n")
        assert described(local(folder, "status", "--json"), 1)["leaderId"] is None

        third = described(local(folder, "up", "--json"), 0)
        same = ("folder", "clusterId", "bootstrap")
        assert [third[key] for key in same] == [first[key] for key in same]
        assert third["leaderEpoch"] > first["leaderEpoch"]
    finally:
        done = local(folder, "down", "--delete", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not folder.exists()


def test_secured_quorum_in_one_command_keeps_out_who_has_no_certificate(tmp_path: Path) -> None:
    folder = tmp_path / "q"
    try:
        shown = local(folder, "up", "--tls", "--nodes", "1")
        assert (shown.returncode, shown.stderr) == (0, "")
        words = next(line for line in shown.stdout.splitlines() if "describe" in line).split()
        asked, config = words[2:4], folder / "client.properties"
        assert words[4:] == ["--command-config", os.path.relpath(config), "describe", "--status"]
        told = run("quorum", *asked, "--command-config", str(config), "describe", "--status")
        assert "LeaderId:               1" in told.stdout.splitlines()
        plain = run("quorum", *asked, "--timeout", "1", "describe", "--status")
        assert_one_line(plain, 1, "perhaps it speaks TLS only")
        found = described(local(folder, "status", "--json"), 0)
        assert found["commandConfig"] == str(config)
    finally:
        done = local(folder, "down", "--delete", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert not folder.exists()


def test_a_start_that_is_interrupted_or_fails_leaves_no_node(children: Children, tmp_path: Path) -> None:
    folder = tmp_path / "q"
    output = tmp_path / "up.log"
    pid_file = folder / "n1" / "pid"
    command = [sys.executable, "-m", "pykraft", "local", "up", "--dir", str(folder)]
    # Two nodes cannot be reached, so the first one elects nobody, and `up` waits.
    folder.mkdir()
    QuorumFolder.create(folder, node_count=1).write_configs()
    config = folder / "n1" / "server.properties"
    config.write_text(config.read_text() + "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2,3@127.0.0.1:3\n")
    up = children.start("up", command, output, environment={"PYTHONPATH": str(SOURCES)})
    wait_until(lambda: pid_file.exists() and pid_file.read_text(), "a node to be started", alive=[up])
    assert_one_line(local(folder, "down"), 1, "another `pykraft local` command starts or stops nodes")
    up.terminate()
    assert up.wait() == -signal.SIGTERM
    assert output.read_text() == "pykraft: ended by SIGTERM\n"
    node = BackgroundNode(folder / "n1", node_id=1, port=1, cluster_id="x")
    assert node.pid is None

    with pytest.raises(LocalQuorumError, match=r"no node leads after 0\.5 s; the logs, .*, say why"):
        bring_up(folder, timeout_s=0.5, report=print)
    assert node.pid is None
    config.write_text("node.id=1\n")
    with pytest.raises(LocalQuorumError, match=r"nodes ended, too many for a leader: node 1 with 2: .*listeners"):
        bring_up(folder, timeout_s=30, report=print)
    assert_one_line(local(folder, "up", "--nodes", "2"), 2, "has 1 node; give another folder with --dir")
    assert_one_line(local(folder, "up", "--nodes", "0"), 2, "--nodes 0: give 1 to 15")


def test_an_interrupt_removes_a_new_quorum_and_the_folders_made_for_it(tmp_path: Path) -> None:
    nodes: list[int | None] = []

    def show(found: LocalQuorum) -> None:
        nodes.extend(node.pid for node in found.nodes)
        raise CommandInterrupted(signal.SIGINT)

    there = tmp_path / "there"
    there.mkdir()
    for folder in (tmp_path / "a" / "b", there):
        with pytest.raises(CommandInterrupted):
            bring_up(folder, node_count=1, report=print, show=show)
    assert list(tmp_path.rglob("*")) == [there]
    assert len(nodes) == 2
    for pid in nodes:
        assert pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


WAITS = "import signal; print('waits', flush=True); signal.pause()"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BackgroundNode]:
    """A node whose program only waits."""
    monkeypatch.setattr(background_quorum, "server_command", lambda *_: [sys.executable, "-c", WAITS])
    node = BackgroundNode(tmp_path, node_id=1, port=1, cluster_id="x")
    yield node
    node.signal(signal.SIGKILL)
    assert node.wait_until_down(30)
    if node._process is not None:
        node._process.wait(30)


def test_a_node_is_started_found_again_and_stopped(node: BackgroundNode, tmp_path: Path) -> None:
    assert (node.pid, node.exit_status) == (None, None)
    node.start()
    again = BackgroundNode(tmp_path, node_id=1, port=1, cluster_id="x")
    assert again.pid is not None
    assert os.getsid(again.pid) == again.pid, "it has its own session, so no terminal reaches it"
    assert node.exit_status is None
    assert again.exit_status is None
    with pytest.raises(LocalQuorumError, match="node 1 runs already"):
        again.start()
    again.signal(signal.SIGTERM)
    assert again.wait_until_down(30)
    assert again.pid is None
    again.signal(signal.SIGTERM)


def test_a_pid_that_belongs_to_somebody_else_now_gets_no_signal(node: BackgroundNode, tmp_path: Path) -> None:
    (tmp_path / "pid").write_text(f"{os.getpid()}\n")
    assert node.pid is None
    node.signal(signal.SIGKILL)
    assert node.wait_until_down(0)


def test_a_locked_file_without_a_pid_is_reported(
    node: BackgroundNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_quorum, "LOCK_WAIT_S", 0.05)
    node.start()
    assert node.pid is not None
    (tmp_path / "pid").write_text("")
    with pytest.raises(LocalQuorumError, match="its process id is not in this file"):
        _ = node.pid
    assert not node.wait_until_down(0)
    assert node._process is not None
    (tmp_path / "pid").write_text(str(node._process.pid))


def test_what_a_node_needs_is_checked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = BackgroundNode(tmp_path, node_id=2, port=port, cluster_id="x")
        with pytest.raises(LocalQuorumError, match=rf"port {port} of node 2 is taken by another program"):
            node.check_port()
    node.check_port()
    with pytest.raises(UsageError, match="pid: No such file or directory"):
        BackgroundNode(tmp_path / "gone", node_id=1, port=1, cluster_id="x").start()
    node.log_path.write_text("")
    assert node.last_line() == ""
    node.log_path.write_text("one\ntwo\n")
    assert node.last_line() == "two"
