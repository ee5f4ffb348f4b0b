"""Key-value stores for tests: a log without a node, and nodes with a store each."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from pykraft.machine import Applied, Replicated
from pykraft.recipes import KeyValues, KeyValueStore, Put, Transaction, TransactionResult
from pykraft.recipes.key_value_commands import KeyValueCommand
from pykraft.types import Epoch, Offset
from tests.machine.counters import nodes_of

StoreNode = Replicated[KeyValues]


class StoreLog:
    """A replica that applies commands as the log would, each as its bytes."""

    def __init__(self) -> None:
        self.values = KeyValues()
        self.time_ms = 0
        self._end = 1

    def add(self, command: KeyValueCommand, time_ms: int | None = None) -> Any:
        self.time_ms = self.time_ms if time_ms is None else time_ms
        context = Applied(Offset(self._end), Epoch(1), self.time_ms, 0)
        self._end += 1
        deadline_ms = self.values.deadline_ms()
        if deadline_ms is not None and self.time_ms >= deadline_ms:
            self.values.elapse(context)
        command = KeyValues.commands.deserialize(KeyValues.commands.serialize(command))
        result = self.values.apply(command, context)
        return KeyValues.results.deserialize(KeyValues.results.serialize(result))

    def put(self, key: str, value: str = "", lease: int = 0) -> int:
        result = self.add(Transaction((Put(key, value, lease),)))
        assert isinstance(result, TransactionResult)
        return result.revision

    def restored(self) -> StoreLog:
        other = StoreLog()
        other.values.restore([*self.values.snapshot()])
        other.time_ms, other._end = self.time_ms, self._end
        return other

    def state(self) -> list[bytes]:
        return [*self.values.snapshot()]

    def keys(self) -> list[str]:
        return [item.key for item in self.values.range("", "")]


def stores(folder: Path, count: int = 3, **others: Any) -> AbstractAsyncContextManager[list[StoreNode]]:
    """Nodes from id 1 on, with a key-value store each; closed at the end."""
    return nodes_of(KeyValues, folder, count, **others)


async def led(nodes: list[StoreNode]) -> tuple[KeyValueStore, KeyValueStore]:
    """The stores of the leader and of a follower."""
    known = await nodes[0].node.wait_for_leader()
    leader = next(node for node in nodes if node.node.node_id == known.leader_id)
    return KeyValueStore(leader), KeyValueStore(next(node for node in nodes if node is not leader))
