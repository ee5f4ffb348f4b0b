"""No request of any API that a listener accepts ends a node, or what applies its commands.

For each API: every place of its body at its edges, garbage and torn batches in each field of bytes, and requests of the
right shape with wrong contents. An API that a node serves and that has no entry in `WRONG_CONTENTS` fails the test.

Source: ours (ADR 138); `tests.processes.rpc_edges` and `tests.host.clients.fuzz` draw more, without a machine.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from pykraft.client import Node, bytes_serde
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME, NodeConfig
from pykraft.errors import CommandRejectedError
from pykraft.machine import Replicated
from pykraft.machine.records import CheckRecord, OpenRecord, TickRecord, encode_command, encode_log_record, pack_records
from pykraft.protocol.api import decode_response, encode_request, frame
from pykraft.protocol.messages import APIS, GROUP_KEYS, ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.protocol.schema import Body
from pykraft.recipes import KeyValues, Put, Transaction, TransactionResult
from pykraft.types import Endpoint, Epoch, Listeners, Offset
from tests.client.nodes import TIMEOUT_S, Recorder, alone
from tests.processes.rpc_edges import edges, places, plain, put

CLIENTS: Final = ("CLIENTS",)
INT64: Final = (-(2**63), -1, 0, 1, 2**31, 2**62, 2**63 - 1)
OWN_SESSION: Final = 1
"""Of the node itself: its first record. A stranger can execute commands in it (docs/threat-model.md)."""
COMMANDS: Final = (
    b"",
    b"\xff\xfe not a command",
    b"null",
    b"[]",
    b"[1]",
    b'["Nothing"]',
    b'["Transaction"]',
    b'["Transaction",[["Put",5,null]]]',
    b'["Transaction",[["Put","k",NaN,0,false]]]',
    b'["Transaction",[["Put","k","v","lease",false]]]',
    b'["Transaction",[["Get","k",null,"many"]]]',
    b'["Transaction",[["Get","k",7]]]',
    b'["Transaction",[["Delete",[],[]]]]',
    b'["Transaction",[],[["Condition","k","nothing","<",5]]]',
    b'["Transaction",[],[["Condition","k","version","<","text"]]]',
    b'["Transaction",[["Put","\\ud800","v",0,false]]]',
    b'["Transaction",[["Transaction",[]]]]',
    b'["Transaction",{"a":1}]',
    b'["GrantLease",-1]',
    b'["GrantLease","soon"]',
    b'["GrantLease",' + b"9" * 5_000 + b"]",
    b'["KeepLease",null]',
    b'["EndLease",1e999]',
    b'["Compact",true]',
    b"[" * 50_000,
    b"[" * 900 + b"]" * 900,
    json.dumps(["Transaction", [["Put", "k", "v", 0, False]] * 1_000]).encode(),
)
"""For the store; none of these may be in the log."""


def batches(values: Iterable[Sequence[bytes]]) -> list[bytes]:
    """What Produce takes, and what answers bring."""
    return [
        bytes(encode_batch(list(each), base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=0).data) for each in values
    ]


GARBAGE: Final = (b"", b"\0", b"\xff" * 100, bytes(61), b"\x01\x02" + bytes(60), *batches([[b"x"], [b"\x01\x02"]]))


def forwards(session: int) -> list[bytes]:
    """Records of a Forward request."""
    one = encode_log_record(OpenRecord(0, bytes(16)))
    records = [
        *([encode_command(0, session, at, 0, command)] for at, command in enumerate(COMMANDS)),
        *([encode_command(0, at, at, at, b'["KeepLease",1]')] for at in INT64 if at != OWN_SESSION),
        *([encode_command(0, session, 1, at, b'["KeepLease",1]')] for at in INT64),
        *([encode_command(0, session, 2**40, 0, b'["Nothing"]'), one] for _ in range(2)),
        [encode_log_record(TickRecord(2**63 - 1))],
        [encode_log_record(CheckRecord(0))],
        [one] * 1_000,
        [one[:-1]],
        [bytes([1, kind]) + bytes(20) for kind in range(16)],
        [bytes([kind, 2]) + bytes(60) for kind in range(16)],
        [b""],
    ]
    return [*map(pack_records, records), pack_records([one])[:-1], b"\xff" * 100]


def _same(_: Body) -> list[Body]:
    return []


def _records(*path: str | int) -> Callable[[Body], list[Body]]:
    """Garbage in this field of bytes, and in a store's words."""

    def bodies(example: Body) -> list[Body]:
        return [
            _with(example, path, data) for data in (*GARBAGE, *batches([[command or b"0"] for command in COMMANDS]))
        ]

    return bodies


def _with(example: Body, path: Sequence[str | int], value: object) -> Body:
    """The same, with another value in one place."""
    copied: Any = {**example}
    holder = copied
    for step in path[:-1]:
        inner = holder[step]
        holder[step] = {**inner} if isinstance(inner, dict) else [*inner]
        holder = holder[step]
    holder[path[-1]] = value
    return copied  # type: ignore[no-any-return]


def _epochs(example: Body) -> list[Body]:
    """The right quorum and a voter, in epochs far ahead, who says that it leads or would."""
    names = {"replica_epoch", "leader_epoch", "current_leader_epoch"}
    found = [place for place, _ in places_of(example) if place[-1] in names]
    return [_with(example, place, epoch) for place in found for epoch in (2, 1_000, 2**31 - 2)]


def places_of(example: Any, path: tuple[str | int, ...] = ()) -> Iterable[tuple[tuple[str | int, ...], Any]]:
    """Every value in a body."""
    if isinstance(example, dict):
        for name, value in example.items():
            yield from places_of(value, (*path, name))
    elif isinstance(example, list):
        for at, value in enumerate(example):
            yield from places_of(value, (*path, at))
    else:
        yield path, example


WRONG_CONTENTS: Final[dict[int, Callable[[Body], list[Body]]]] = {
    ApiKey.PRODUCE: _records("topic_data", 0, "partition_data", 0, "records"),
    ApiKey.FETCH: _epochs,
    ApiKey.LIST_OFFSETS: _epochs,
    ApiKey.METADATA: _same,
    ApiKey.FIND_COORDINATOR: _same,
    **dict.fromkeys(GROUP_KEYS, _same),
    ApiKey.API_VERSIONS: _same,
    ApiKey.INIT_PRODUCER_ID: _same,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.DESCRIBE_CONFIGS: _same,
    ApiKey.VOTE: _epochs,
    ApiKey.BEGIN_QUORUM_EPOCH: _epochs,
    ApiKey.END_QUORUM_EPOCH: _epochs,
    ApiKey.DESCRIBE_QUORUM: _same,
    ApiKey.UPDATE_FEATURES: _same,
    ApiKey.FETCH_SNAPSHOT: _epochs,
    ApiKey.DESCRIBE_CLUSTER: _same,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _same,
    ApiKey.ADD_RAFT_VOTER: _same,
    ApiKey.REMOVE_RAFT_VOTER: _same,
    ApiKey.UPDATE_RAFT_VOTER: _epochs,
    ApiKey.TRANSFER_LEADERSHIP: _same,
    ApiKey.FORWARD: lambda example: [{**example, "records": records} for records in forwards(0)],
}
"""For each API, given a body for our own partition, bodies of the right shape with contents that nobody sends."""


def hostile(key: ApiKey, cluster_id: str) -> list[bytes]:
    """The requests for one API, as frames."""
    versions = APIS[key].request.versions
    sent = []
    for version in {versions.min, versions.max}:
        schema = APIS[key].request.body

        def example(version: int = version, schema: Any = schema) -> Body:
            body: Body = plain(schema, version)
            return {**body, "cluster_id": cluster_id} if "cluster_id" in body else body

        bodies = [example(), *WRONG_CONTENTS[key](example())]
        for place, kind in places(schema, version):
            for at in range(len(edges(kind, []))):
                body = example()
                put(body, place, kind, at)
                bodies.append(body)
        sent += [encode_request(key, version, 7, "hostile", body) for body in bodies]
    return [b"".join(frame([b"".join(parts)])) for parts in sent]


def config_of(folder: Path) -> NodeConfig:
    """A quorum of one with a listener of each kind."""
    config = alone(folder)
    at = Endpoint("127.0.0.1", 0)
    added = tuple((name, at) for name in CLIENTS)
    return replace(
        config,
        listeners=Listeners((*config.listeners.entries, *added)),
        advertised_listeners=Listeners((*config.advertised_listeners.entries, *added)),
        client_listeners=("CLIENTS",),
        topic_name=TEST_TOPIC_NAME,
        topic_id=TEST_TOPIC_ID,
    )


@asynccontextmanager
async def store(folder: Path) -> AsyncIterator[Replicated[KeyValues]]:
    async with Replicated(config_of(folder), KeyValues()) as node:
        await node.node.wait_for_leader()
        yield node


async def ask(port: int, key: ApiKey, version: int, body: Body) -> Body:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(frame([b"".join(encode_request(key, version, 7, None, body))])))
    size = int.from_bytes(await reader.readexactly(4), "big")
    answer: Body = decode_response(key, version, await reader.readexactly(size))[1]
    writer.close()
    await writer.wait_closed()
    return answer


async def send(port: int, frames: Iterable[bytes]) -> None:
    """One connection for each; the node reads what was sent before it sees the end."""
    for data in frames:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.close()
        with suppress(ConnectionError):  # it refused that
            await writer.wait_closed()


async def served(node: Node[Any]) -> dict[str, set[int]]:
    """The APIs of each listener, as the node says."""
    found = {}
    for name, endpoint in node.listeners:
        answer = await ask(endpoint.port, ApiKey.API_VERSIONS, 3, {})
        found[name] = {each["api_key"] for each in answer["api_keys"]}
    return found


async def test_every_served_api_has_its_wrong_contents(tmp_path: Path) -> None:
    async with store(tmp_path / "store") as node:
        by_name = await served(node.node)
        assert ApiKey.PRODUCE not in set().union(*by_name.values()), "a state machine reads the whole log"
        [name] = node.node._life.config.controller_listener_names
        assert {at for at, keys in by_name.items() if ApiKey.FORWARD in keys} == {name}
    keys = set().union(*by_name.values())
    async with Node(config_of(tmp_path / "plain"), bytes_serde) as plain_node:
        keys |= set().union(*(await served(plain_node)).values())
    # The answer to SaslHandshake does not depend on the request.
    assert keys - {ApiKey.SASL_HANDSHAKE} == set(WRONG_CONTENTS)


@pytest.mark.parametrize("key", [*map(ApiKey, WRONG_CONTENTS)], ids=lambda key: key.name)
async def test_a_store_applies_commands_after_every_hostile_request(tmp_path: Path, key: ApiKey) -> None:
    async with store(tmp_path) as node:
        await node.execute(Transaction((Put("k", "before"),)))
        frames = hostile(key, node._server._cluster_id)
        for _, endpoint in node.node.listeners:
            await send(endpoint.port, frames)
        result = await node.execute(Transaction((Put("k", "after"),)), timeout_ms=int(TIMEOUT_S * 1_000))
        assert isinstance(result, TransactionResult)
        assert result.revision == 2, "nothing of theirs was applied"
        async with node.read() as state:
            assert [item.value for item in state.range("", "")] == ["after"]


async def test_a_listener_gets_records_after_every_hostile_batch(tmp_path: Path) -> None:
    async with Node(config_of(tmp_path), bytes_serde) as node:
        recorder = Recorder()
        node.register(recorder)
        await node.wait_for_leader()
        frames = hostile(ApiKey.PRODUCE, node._life.config.cluster_id)
        for _, endpoint in node.listeners:
            await send(endpoint.port, frames)
        await node.wait_for_leader()
        await node.propose([b"after"])
        await recorder.wait_for(lambda: b"after" in recorder.records)


async def test_a_command_that_no_replica_could_apply_is_refused_and_is_not_in_the_log(tmp_path: Path) -> None:
    async with store(tmp_path) as node:
        await node.execute(Transaction((Put("k", "before"),)))
        [port] = [endpoint.port for name, endpoint in node.node.listeners if name not in CLIENTS]

        async def forward(*records: bytes) -> Body:
            body = {"cluster_id": node._server._cluster_id, "records": pack_records(records)}
            return await ask(port, ApiKey.FORWARD, 0, body)

        opened = await forward(encode_log_record(OpenRecord(0, b"n" * 16)))
        session, end = opened["offset"], node.node.log_end_offset
        for command in COMMANDS:
            answer = await forward(encode_command(0, session, 0, 0, command))
            assert answer["error_code"] == 42, command[:100]
        assert node.node.log_end_offset == end
        good = KeyValues.commands.serialize(Transaction((Put("k", "theirs"),)))
        assert (await forward(encode_command(0, session, 0, 0, good)))["error_code"] == 0
        with pytest.raises(CommandRejectedError):
            await node.execute(Transaction((Put("k", "v", lease=9),)))
