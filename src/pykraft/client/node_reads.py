"""Reads of a snapshot where the node reads its files: in its bulk lane, between the reads for peers.

Apart from `pykraft.client.state_reader`, since a client without a node reads snapshots, too, and starts faster without
the imports of one.

Source: Kafka's ``RecordsSnapshotReader``, which reads on the IO thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pykraft.client.life import HostAccess, OnAnswer
from pykraft.client.state_reader import SnapshotPiece, StateReader
from pykraft.errors import PykraftError
from pykraft.host.host import Host
from pykraft.snapshot.reader import SnapshotReader

T = TypeVar("T")


def read_by(node: HostAccess, opened: SnapshotReader[T]) -> StateReader[T]:
    """What a listener of this node gets of a snapshot. Its errors: NotRunningError, too."""

    async def run(read: Callable[[], SnapshotPiece[T] | PykraftError]) -> SnapshotPiece[T]:
        def act(host: Host, answer: OnAnswer[SnapshotPiece[T]]) -> None:
            host.read(read, answer)

        return await node.ask(act)

    return StateReader(run, opened)
