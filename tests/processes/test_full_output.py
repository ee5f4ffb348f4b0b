"""A node whose standard output is on a full disk ends with a message."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pykraft.local.cluster import SOURCES, server_command
from pykraft.local.voters import free_ports, voter_properties, write_properties

pytestmark = pytest.mark.processes


def test_a_node_whose_printouts_are_lost_ends_with_a_line(tmp_path: Path) -> None:
    """``/dev/full`` is a file on a full disk: each write is ENOSPC. The first printout comes after five seconds."""
    properties = voter_properties(tmp_path / "n1", node_id=1, ports={1: free_ports(1)[0]})
    config = write_properties(tmp_path / "server.properties", properties)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            server_command(config, "--throughput", "5000"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={"PYTHONPATH": str(SOURCES)},
        )
    assert done.stderr.splitlines()[-1] == "pykraft: standard output: No space left on device"
    assert done.returncode == 2
    assert "Exception ignored" not in done.stderr
