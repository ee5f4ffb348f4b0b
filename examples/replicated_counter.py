"""A counter that three nodes agree on, Kafka's Raft example in Python: the leader counts.

    python examples/replicated_counter.py [--target N]        three nodes in this process, in a temporary folder
    python examples/replicated_counter.py --node-id 1 --directory DIR --voters 1=HOST:PORT,2=HOST:PORT,3=HOST:PORT
                                                              one of three; start each in its own terminal

A record is the new value. A counter increments only while its node has claimed the leadership, and every counter
checks that committed values rise in steps of one, whatever happens to the leader. Half way the first form makes the
leader resign, to show that the next leader continues the count. A counter saves its state, one number, when its node
asks for it, here after about ten records as in Kafka's example. A node that restarts, or joins late like the fourth one
at the end, starts from that state. The exit status is 0 when every counter reached the target.

Source: Kafka's ``ReplicatedCounter``.
"""

import argparse
import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from pykraft.client import ClaimAdapter, Node, Reader, StateReader, configure, int_serde, until_signal
from pykraft.config import LogSettings, RaftConfig
from pykraft.errors import NotLeaderError, NotRunningError, OutcomeUnknownError, PykraftError

LIVELY = RaftConfig(election_timeout_ms=300, fetch_timeout_ms=1_000, election_backoff_max_ms=100)
OFTEN = LogSettings(snapshot_record_bytes_max=800)
"""A record of this size takes about 80 bytes in the log."""


class Counter:
    """The state machine of one node: the committed value, and a task that counts while the node leads."""

    def __init__(self, node: Node[int], target: int) -> None:
        self.committed = 0
        self._node = node
        self._target = target
        self._news = asyncio.Condition()
        self._counting: asyncio.Task[None] | None = None

    async def handle_commit(self, reader: Reader[int]) -> None:
        """Apply a committed batch: each value is one more than the last."""
        for batch in reader:
            for value in batch.records:
                assert value == self.committed + 1, f"{value} was committed after {self.committed}"
                self.committed = value
        async with self._news:
            self._news.notify_all()

    def handle_save_snapshot(self) -> list[int]:
        """Write the current state: one number, if there is one."""
        return [self.committed] if self.committed else []

    async def handle_load_snapshot(self, reader: StateReader[int]) -> None:
        """Start from the state of a snapshot, which replaces all records before it."""
        async for batch in reader:
            for value in batch.records:
                self.committed = value
        print(f"node {self._node.node_id} begins with the snapshot at {self.committed}")
        async with self._news:
            self._news.notify_all()

    def handle_claim(self, epoch: int) -> None:
        """This node leads, and `committed` is the complete state: count on from there."""
        print(f"node {self._node.node_id} claims epoch {epoch} and counts on from {self.committed}")
        self._counting = asyncio.create_task(self._count(epoch))

    def handle_resign(self, epoch: int) -> None:
        """Another node counts now."""
        print(f"node {self._node.node_id} has resigned from epoch {epoch}")
        if self._counting is not None:
            self._counting.cancel()

    async def reaches(self, value: int) -> None:
        """Wait until this value is committed here."""
        async with self._news:
            await self._news.wait_for(lambda: self.committed >= value)

    async def _count(self, epoch: int) -> None:
        """Propose one value after another; if the outcome of the last one is unknown, the next claim resolves it."""
        value = self.committed
        while value < self._target:
            try:
                await self._node.propose([value + 1], epoch=epoch)
            except (NotLeaderError, OutcomeUnknownError, NotRunningError):
                return
            value += 1


def with_counter(node: Node[int], target: int) -> Counter:
    """A node with its counter registered."""
    counter = Counter(node, target)
    node.register(ClaimAdapter(counter, node.node_id))
    return counter


async def in_one_process(target: int) -> None:
    """Run three nodes on free ports of the loopback interface."""
    with tempfile.TemporaryDirectory() as folder:
        nodes = {
            node_id: Node(configure(Path(folder) / f"n{node_id}", node_id=node_id, raft=LIVELY, log=OFTEN), int_serde)
            for node_id in (1, 2, 3)
        }
        counters = {node_id: with_counter(node, target) for node_id, node in nodes.items()}
        for node in nodes.values():
            await node.bind()
        voters = {node_id: str(node.endpoint) for node_id, node in nodes.items()}
        async with AsyncExitStack() as stack:
            for node in nodes.values():
                await node.initialize(voters)
                stack.push_async_callback(node.close)

            leader = await nodes[1].wait_for_leader()
            await counters[1].reaches(target // 2)
            print(f"half way: node {leader.leader_id} is told to resign from epoch {leader.epoch}")
            for node in nodes.values():
                if leader.is_leader(node.node_id):
                    await node.resign(leader.epoch)

            for node_id, counter in counters.items():
                await counter.reaches(target)
                print(f"node {node_id} has counted to {counter.committed}")

            late = Node(configure(Path(folder) / "n4", node_id=4, raft=LIVELY, log=OFTEN), int_serde)
            counter = with_counter(late, target)
            await late.initialize(voters)
            stack.push_async_callback(late.close)
            await counter.reaches(target)
            print(f"node 4 came late, has no vote, and knows: {counter.committed}")


async def as_one_process(node_id: int, directory: Path, voters: dict[int, str], target: int) -> None:
    """Run one node of a quorum; it serves the others until it is interrupted."""
    node = Node(configure(directory, node_id=node_id, voters=voters, raft=LIVELY, log=OFTEN), int_serde)
    counter = with_counter(node, target)
    async with until_signal(), node:
        await counter.reaches(target)
        print(f"node {node_id} has counted to {counter.committed}; it serves the others until Ctrl-C", flush=True)
        await node.wait_closed()


def main(words: list[str]) -> int:
    """Exit status: 0 done, 1 a node failed, 2 invalid arguments."""
    parser = argparse.ArgumentParser(description="A counter that three nodes agree on.")
    parser.add_argument("--target", type=int, default=200, help="how far to count")
    parser.add_argument("--node-id", type=int, help="run this one node only")
    parser.add_argument("--directory", type=Path, help="where this node keeps its log")
    parser.add_argument("--voters", default="", help="1=host:port,2=host:port,3=host:port")
    chosen = parser.parse_args(words)
    try:
        if chosen.node_id is None:
            asyncio.run(in_one_process(chosen.target))
            return 0
        if chosen.directory is None or "=" not in chosen.voters:
            parser.error("--node-id needs --directory and --voters 1=host:port,…")
        pairs = (part.partition("=") for part in chosen.voters.split(","))
        voters = {int(node_id): address for node_id, _, address in pairs}
        asyncio.run(as_one_process(chosen.node_id, chosen.directory, voters, chosen.target))
    except (PykraftError, ValueError) as error:
        print(f"replicated_counter: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
