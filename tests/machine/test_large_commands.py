"""Commands up to 1 MiB, from any node and through HTTP; one byte more is refused where it comes from."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import bytes_serde
from pykraft.errors import BufferFullError, UsageError
from pykraft.machine import Applied, StateMachine, forwarder
from pykraft.machine.records import OpenRecord, encode_log_record, pack_records
from pykraft.machine.replicated import COMMAND_SIZE_BYTES_MAX
from pykraft.protocol.messages import ApiKey
from pykraft.recipes import Delete, KeyValues, Put, Transaction
from pykraft.recipes.key_value_commands import OPERATIONS_MAX, VALUE_SIZE_BYTES_MAX
from tests.kv.asgi import Client, served
from tests.machine.counters import Add, leader_of, machines


class Blobs(StateMachine[bytes, int]):
    """Counts the bytes that it was given."""

    commands = bytes_serde

    def __init__(self) -> None:
        self.count = 0

    def apply(self, command: bytes, context: Applied) -> int:
        del context
        self.count += len(command)
        return self.count

    def snapshot(self) -> list[bytes]:
        return [str(self.count).encode()]

    def restore(self, records: Any) -> None:
        [count] = records
        self.count = int(count)


async def test_every_node_executes_commands_up_to_the_limit(tmp_path: Path) -> None:
    largest = b"x" * COMMAND_SIZE_BYTES_MAX
    make: Any = Blobs
    async with machines(tmp_path, machine=make) as known:
        leader: Any = await leader_of(known)
        nodes: list[Any] = [*known]
        follower = next(node for node in nodes if node is not leader)
        total = 0
        for node in (leader, follower):
            for size in (60_000, 61_000, 65_536, COMMAND_SIZE_BYTES_MAX - 1, COMMAND_SIZE_BYTES_MAX):
                total += size
                assert await node.execute(largest[:size], timeout_ms=30_000) == total
            with pytest.raises(UsageError, match="at most 1048576 bytes: its serde made 1048577 bytes"):
                await node.execute(largest + b"x")
        # Small ones go on beside large ones, and all of them arrive once.
        many = [largest if at % 8 == 0 else b"y" for at in range(32)]
        await asyncio.gather(*(follower.execute(each, timeout_ms=30_000) for each in many))
        for node in nodes:
            async with node.read() as state:
                assert state.count == total + sum(map(len, many))


async def test_requests_under_way_are_bounded_by_their_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "REQUESTS_SIZE_BYTES_MAX", 50)
    async with machines(tmp_path, 1) as [node]:
        await node.execute(Add("x", 1))  # it leads
        server = node._server
        opening = encode_log_record(OpenRecord(0, bytes(16)))

        async def act(*records: bytes) -> int:
            return await server._act({"cluster_id": server._cluster_id, "records": pack_records(records)})

        with pytest.raises(BufferFullError, match="with 0 bytes are under way"):
            await act(opening, opening)
        await act(opening)
        assert server._size_bytes == 0


async def test_a_large_request_of_another_kind_closes_its_connection(tmp_path: Path) -> None:
    async with machines(tmp_path, 1) as [node]:
        endpoint = node.node.endpoint
        body = ApiKey.VOTE.to_bytes(2, "big") + bytes(100_000)
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(len(body).to_bytes(4, "big") + body)
        assert await reader.read(4) == b""
        writer.close()
        await writer.wait_closed()


async def test_http_takes_large_transactions(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        value = "\n" * VALUE_SIZE_BYTES_MAX
        puts = [{"put": {"key": f"k/{at}", "value": value}} for at in range(COMMAND_SIZE_BYTES_MAX // len(value) - 1)]
        client = await Client("/v1/txn", {"then": puts, "timeout_ms": 30_000}).call(api)
        assert client.status == 200, client.text[:300]
        async with api._node.read() as state:
            assert len(state.range("", "")) == len(puts)
        client = await Client("/v1/txn", {"then": [*puts, *puts[:2]]}).call(api)
        assert client.status in {400, 413}, client.text[:300]
        assert json.loads(client.text)["error"]["outcome"] == "not applied"


def test_the_largest_transaction_is_one_command() -> None:
    texts = [Put(f"{at:0100d}", "\n" * 8_000) for at in range(OPERATIONS_MAX)]
    data = KeyValues.commands.serialize(Transaction((*texts[:-1], Delete("k"))))
    assert 1_000_000 < len(data) < COMMAND_SIZE_BYTES_MAX
    assert KeyValues.commands.deserialize(data).then[0] == texts[0]
