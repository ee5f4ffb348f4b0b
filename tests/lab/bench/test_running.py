"""The benchmark waits for the nodes that it starts, and fails when one ends."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.bench.running import Running
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children
from pykraft.local.ports import free_ports
from tests.lab.bench.voters import partition, voter

pytestmark = pytest.mark.processes


def nodes(child: Child) -> dict[int, Any]:
    return {1: SimpleNamespace(process=child)}


def test_nodes_that_run_have_a_watermark_and_a_usage(tmp_path: Path) -> None:
    code = "import sys; sys.stdin = None; import signal; signal.pause()"
    with Children() as children, voter(lambda asked: partition(high_watermark=7, leader=1, epoch=0)) as port:
        child = children.start("node 1", [sys.executable, "-c", code], tmp_path / "log")
        running = Running(nodes(child), {1: port})
        assert running.watermark().offset == 7
        running.close()
        assert running.usage()[1].memory_mib > 0
        assert running.failure() is None
        child.kill()
        assert running.failure() == "node 1 ended with -9"
        with pytest.raises(LocalQuorumError, match="node 1 has ended"):
            running.usage()


def test_nodes_that_end_are_not_waited_for(tmp_path: Path) -> None:
    with Children() as children:
        child = children.start("node 1", [sys.executable, "-c", "raise SystemExit('no [disk]')"], tmp_path / "log")
        with pytest.raises(LocalQuorumError, match=r"node 1 ended with 1: no \[disk\]"):
            Running(nodes(child), {1: free_ports(1)[0]}).watermark()
