"""Nodes on the loopback interface within the process of the test, and a disk that stalls or fails at a sync."""

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from pykraft.config import NodeConfig, RaftConfig
from pykraft.errors import StorageError
from pykraft.host.delivery import CommittedBatch
from pykraft.local.voters import HOST, free_ports
from pykraft.log.os_fs import OsFile, OsFs
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, ReplicaKey, Voter, VoterSet

LISTENER = "PLAINTEXT"
TIMEOUT_S = 20.0
QUICK = RaftConfig(election_timeout_ms=100, fetch_timeout_ms=1_000, election_backoff_max_ms=50, append_linger_ms=0)


def node_configs(folder: Path, count: int, *, raft: RaftConfig = QUICK) -> list[NodeConfig]:
    """Voters from id 1 on, each with a port and a directory of its own."""
    listeners = {
        NodeId(node_id): Listeners(((LISTENER, Endpoint(HOST, port)),))
        for node_id, port in enumerate(free_ports(count), start=1)
    }
    voters = VoterSet.of(Voter(key=ReplicaKey(node_id), listeners=at) for node_id, at in listeners.items())
    return [
        NodeConfig(
            node_id=node_id,
            listeners=at,
            advertised_listeners=at,
            controller_listener_names=(LISTENER,),
            voters=voters,
            log_dir=folder / f"n{node_id}",
            raft=raft,
        )
        for node_id, at in listeners.items()
    ]


class Watcher:
    """A listener that keeps the values of committed records and the news of leaders, and can be waited on."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.leaders: list[tuple[Epoch, NodeId | None]] = []
        self.on_news: Callable[[Epoch, NodeId | None], None] = lambda epoch, leader_id: None
        self._changed = asyncio.Event()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        for batch in batches:
            self.values += batch.values()
        self._changed.set()

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        self.leaders.append((epoch, leader_id))
        self._changed.set()
        self.on_news(epoch, leader_id)

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until this is so; it is looked at when something was heard. Errors: TimeoutError."""
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    async def leader(self) -> tuple[Epoch, NodeId]:
        """The newest leader that is known, as soon as one is."""
        await self.wait_for(lambda: bool(self.leaders) and self.leaders[-1][1] is not None)
        epoch, leader_id = self.leaders[-1]
        assert leader_id is not None
        return epoch, leader_id


class StallingFs(OsFs):
    """Syncs wait while the gate is closed; ``fails`` makes them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.is_stalled = threading.Event()
        self.fails = False

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        """See `pykraft.log.fs.Fs`."""
        file = super().open(path, create=create, write=write)
        gated = _GatedFile(self, path, os.dup(file.fileno()))
        file.close()
        return gated

    def pass_gate(self, path: Path) -> None:
        """Wait until syncs may go on. Errors: StorageError when they fail."""
        if not self.gate.is_set():
            self.is_stalled.set()
            assert self.gate.wait(TIMEOUT_S)
        if self.fails:
            raise StorageError(path, "input/output error")


class _GatedFile(OsFile):
    def __init__(self, fs: StallingFs, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._fs = fs

    def sync(self) -> None:
        self._fs.pass_gate(self.path)
        super().sync()
