"""A file system with room for the log but not for a snapshot, on all nodes at once: none of them ends.

A limit of the kernel for the size of a file (``RLIMIT_FSIZE``) stands for the full disk: segments stay below it, and
the application's state does not. The nodes run in a process of their own, since the limit is the process's.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes]

PROGRAM = '''
import asyncio, resource, sys
from contextlib import suppress
from pathlib import Path
from pykraft.client import Node, configure
from pykraft.config import LogSettings
from pykraft.errors import NotLeaderError, OutcomeUnknownError
from pykraft.local.voters import free_ports

LIMIT_BYTES = 1_000_000
STATE = [b"x" * 10_000] * 300

class State:
    def __init__(self):
        self.handled = 0

    def handle_commit(self, reader):
        self.handled += sum(len(batch.records) for batch in reader)

    def handle_leader_change(self, leader):
        pass

    def handle_load_snapshot(self, reader):
        pass

    def handle_save_snapshot(self):
        return STATE

async def commits(nodes, is_over):
    """Append until every node says so; on a busy machine a leader may lose its office meanwhile."""
    while not all([is_over(await node.metrics()) for node in nodes]):
        for node in nodes:
            if node.leader_and_epoch.leader_id == node.node_id:
                with suppress(NotLeaderError, OutcomeUnknownError):
                    await node.propose([b"record" * 100])
        await asyncio.sleep(0.001)

async def main():
    voters = {number: f"127.0.0.1:{port}" for number, port in enumerate(free_ports(3), start=1)}
    log = LogSettings(segment_size_bytes=100_000, index_size_bytes_max=10_000, snapshot_record_bytes_max=20_000)
    folder = Path(sys.argv[1])
    nodes = [Node(configure(folder / f"n{number}", node_id=number, voters=voters, log=log)) for number in voters]
    states = [State() for _ in nodes]
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, resource.RLIM_INFINITY))
    for node, state in zip(nodes, states):
        await node.initialize()
        node.register(state)
    await commits(nodes, lambda metrics: metrics["failed-snapshots-total"] >= 2)
    parts = [*Path(sys.argv[1]).glob("**/*.checkpoint*")]
    assert not parts, parts
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await commits(nodes, lambda _: len({path.parent for path in Path(sys.argv[1]).glob("**/*.checkpoint")}) == 3)
    for node in nodes:
        await node.shutdown()
    print("all nodes went on", min(state.handled for state in states) > 100)

asyncio.run(main())
'''


def test_quorum_goes_on_without_room_for_its_snapshots(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all nodes went on True\n"
    assert "NO SNAPSHOT WRITTEN: " in done.stderr
    assert "File too large" in done.stderr
