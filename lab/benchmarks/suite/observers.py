"""Observers of a quorum of servers, many in one process: each is an embedded node without an id, with a listener.

    python -m lab.benchmarks.suite.observers FOLDER CLUSTER_ID VOTERS COUNT

VOTERS is ``1=host:port,...``. Prints a line once all of them have received a record, and then observes until it is
killed.
"""

import asyncio
import sys
from pathlib import Path

from pykraft.client import LeaderAndEpoch, Node, Reader, configure
from pykraft.server.run import loop_factory

OBSERVING = "all observe"


class Listener:
    """Takes what is committed, and decodes nothing."""

    def __init__(self) -> None:
        self.has_received = asyncio.Event()

    def handle_commit(self, reader: Reader[bytes]) -> None:
        del reader
        self.has_received.set()

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        """Ignored."""


async def observe(folder: Path, cluster_id: str, voters: dict[int, str], count: int) -> None:
    """Start them, say so, and go on."""
    listeners = []
    for number in range(count):
        node = Node(configure(folder / f"o{number}", voters=voters, cluster_id=cluster_id))
        listeners.append(Listener())
        node.register(listeners[-1])
        await node.initialize()
    for listener in listeners:
        await listener.has_received.wait()
    print(OBSERVING, flush=True)
    await asyncio.Event().wait()


def main(folder: str, cluster_id: str, voters: str, count: str) -> None:
    """Observe until the process is killed."""
    addresses = {int(node_id): address for node_id, _, address in (each.partition("=") for each in voters.split(","))}
    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(observe(Path(folder), cluster_id, addresses, int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
