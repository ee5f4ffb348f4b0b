"""A node outlives the command, and a stale pid file is never believed. The processes here only wait for a signal."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local import background_node
from pykraft.local.background_node import BackgroundNode

pytestmark = pytest.mark.processes

WAITS = "import signal; print('waits', flush=True); signal.pause()"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BackgroundNode]:
    """A node whose program only waits."""
    monkeypatch.setattr(background_node, "server_command", lambda *_: [sys.executable, "-c", WAITS])
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
    monkeypatch.setattr(background_node, "LOCK_WAIT_S", 0.05)
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
