"""Quorums of ours as contenders of `lab.bench.race.Race`: with many observers, and with a long log."""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

from lab.bench.measure import LoadedQuorum, Task
from lab.bench.quorums import PykraftQuorum
from lab.benchmarks.suite.observers import OBSERVING
from lab.benchmarks.verify import write_log
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.types import Election, Epoch, NodeId

OBSERVERS_PER_PROCESS: Final = 25
"""A process of its own takes 40 MiB, an observer in one of them a few."""
LONG_BATCH_SIZE_BYTES: Final = 1_000_000
READING_TIMEOUT_S: Final = 300.0


class WatchedQuorum(PykraftQuorum):
    """A quorum with observers, which do not count as its nodes: their processor time is not that of the quorum."""

    def __init__(self, children: Children, folder: Path, task: Task, observers: int) -> None:
        super().__init__(children, folder, task)
        self._place = folder
        self._start_child = children.start
        self._observers = observers

    def start(self) -> None:
        """Start the nodes, and the observers once there is a leader."""
        super().start()
        self.watermark()
        cluster = self.cluster
        voters = ",".join(f"{node_id}={HOST}:{node.port}" for node_id, node in cluster.nodes.items())
        children: list[Child] = []
        left = self._observers
        while left > 0:
            place = self._place / f"observers-{len(children)}"
            place.mkdir()
            count = min(left, OBSERVERS_PER_PROCESS)
            command = [sys.executable, "-m", "lab.benchmarks.suite.observers"]
            children.append(
                self._start_child(
                    place.name, [*command, str(place), cluster.cluster_id, voters, str(count)], place / "out.log"
                )
            )
            left -= count
        wait_until(lambda: all(OBSERVING in child.log() for child in children), "observers", alive=children)


class Watched:
    """See `lab.bench.measure.Contender`."""

    name = "pykraft"
    breaks_when_overloaded = False

    def __init__(self, observers: int) -> None:
        self._observers = observers

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        return WatchedQuorum(children, folder, task, self._observers)


class QuorumWithLongLog(PykraftQuorum):
    """A quorum whose leader reads its log before it writes: a listener gets all that was committed before it leads."""

    def start(self) -> None:
        """Start the nodes, and wait for the first acknowledged record."""
        super().start()
        self.cluster.journal.wait_for_acknowledged(1, since=0, timeout_s=READING_TIMEOUT_S)


class WithLongLog:
    """See `lab.bench.measure.Contender`; the first quorum writes the log, and the others get links to it."""

    name = "pykraft"
    breaks_when_overloaded = False

    def __init__(self, size_bytes: int, template: Path) -> None:
        self._size_bytes = size_bytes
        self._template = template

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        quorum = QuorumWithLongLog(children, folder, task)
        if not self._template.exists():
            write_log(self._template, [bytes(LONG_BATCH_SIZE_BYTES)], self._size_bytes)
        for node in quorum.cluster.nodes.values():
            self._give(node.partition, [NodeId(each) for each in quorum.cluster.nodes])
        return quorum

    def _give(self, partition: Path, voters: list[NodeId]) -> None:
        partition.mkdir(parents=True)
        segments = sorted(self._template.glob("*.log"))
        for path in self._template.iterdir():
            if path in segments[:-1]:
                os.link(path, partition / path.name)
            else:
                shutil.copy(path, partition / path.name)
        store = ElectionStore(OsFs(), partition)
        store.read()
        store.write(Election(epoch=Epoch(1)), voters=tuple(voters), kraft_version=0)
