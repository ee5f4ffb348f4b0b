"""No request with edge values stops a node, exhausts its memory or blocks its loop: a short run of the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.rpc_edges import fuzz

pytestmark = pytest.mark.processes
SECONDS = 6.0


@pytest.mark.parametrize("voters", [1, 3])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_node_lives_with_every_edge_of_every_request(tmp_path: Path, loop: str, voters: int) -> None:
    assert fuzz(tmp_path, loop=loop, voters=voters, seconds=SECONDS, seed=1) > 0
