"""A connection to one node: negotiated versions, one answer per request, and a clear error for everything else."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial

import pytest

from pykraft.client.remote.connection import AnswerStream, ClientDialer, Connection
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.errors import ErrorCode, ProtocolError, UnreachableError
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.api import frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.connection import DialedConnection
from pykraft.rpc.context import RpcContext
from pykraft.server.binding import Names
from pykraft.types import Buffer, Endpoint
from tests.client.scripted import HANG_UP, SILENCE, Answer, ScriptedNode, until

CONTEXT = RpcContext(
    cluster_id=None, topic_name=METADATA_TOPIC_NAME, topic_id=METADATA_TOPIC_ID, default_listener="CONTROLLER"
)
NOT_LEADER: Body = {
    "topics": [
        {
            "topic_name": METADATA_TOPIC_NAME,
            "partitions": [{"partition_index": 0, "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}],
        }
    ]
}
CLUSTER: Body = {"cluster_id": "c", "controller_id": 3}
TIMEOUT_MS = 10_000


async def opened(node: ScriptedNode, *, timeout_ms: int = TIMEOUT_MS) -> Connection:
    return await ClientDialer("test").connect(node.endpoint, timeout_ms)


async def test_requests_and_bodies_are_answered_on_one_connection() -> None:
    scripts = {ApiKey.DESCRIBE_QUORUM: lambda _: NOT_LEADER, ApiKey.DESCRIBE_CLUSTER: lambda _: CLUSTER}
    async with ScriptedNode(scripts) as node:
        connection = await opened(node)
        answer = await connection.ask(DescribeQuorumRequest(), CONTEXT, timeout_ms=TIMEOUT_MS)
        assert isinstance(answer.message, DescribeQuorumResponse)
        assert answer.message.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        body = await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {}, timeout_ms=TIMEOUT_MS)
        assert (body["cluster_id"], body["controller_id"]) == ("c", 3)
        await connection.close()
        assert [key.name for key, _ in node.asked] == ["API_VERSIONS", "DESCRIBE_QUORUM", "DESCRIBE_CLUSTER"]
        assert node.requests(ApiKey.API_VERSIONS)[0]["client_software_name"] == "pykraft"


BAD_STARTS: dict[str, tuple[Answer, str]] = {
    "silence": (SILENCE, "did not answer ApiVersions within 0.1 s: is it a node of a quorum"),
    "the end": (HANG_UP, "closed the connection when it was asked for ApiVersions"),
    "HTTP": (b"HTTP/1.0 400 Bad request\r\n", "the peer seems to speak HTTP"),
    "a large frame": (b"\x7f\xff\xff\xff", "allowed are 1 to 65536"),
    "two frames": (b"\0\0\0\4abcd" * 2, "more than one answer"),
    "a frame that is no answer": (b"\0\0\0\4\0\0\0\0", "ApiVersions"),
    "an error": ({"error_code": 35}, "answered with error 35"),
}


@pytest.mark.parametrize(("answer", "words"), BAD_STARTS.values(), ids=BAD_STARTS)
async def test_a_node_that_cannot_negotiate_is_told_by_what_it_does(answer: Answer, words: str) -> None:
    async with ScriptedNode({ApiKey.API_VERSIONS: lambda _: answer}) as node:
        with pytest.raises(UnreachableError, match=words) as caught:
            await opened(node, timeout_ms=100 if answer is SILENCE else TIMEOUT_MS)
        assert caught.value.endpoint == node.endpoint
        assert str(caught.value).startswith(f"{node.endpoint}: ")


BAD_ANSWERS: dict[str, tuple[Answer, int, str]] = {
    "silence": (SILENCE, 0, "did not answer DescribeQuorum within 0.1 s$"),
    "the end": (HANG_UP, 0, "asked for DescribeQuorum"),
    "another partition": ({}, 0, "not about partition"),
    "another correlation id": (NOT_LEADER, 1, "answers request 2, expected 1"),
    "bytes": (b"".join(frame([b"xxxxyyyy"])), 0, "DescribeQuorum"),
}


@pytest.mark.parametrize(("answer", "shift", "words"), BAD_ANSWERS.values(), ids=BAD_ANSWERS)
async def test_an_answer_that_is_none_is_told(answer: Answer, shift: int, words: str) -> None:
    async with ScriptedNode({ApiKey.DESCRIBE_QUORUM: lambda _: answer}) as node:
        connection = await opened(node)
        node.correlation_shift = shift
        with pytest.raises(UnreachableError, match=words):
            await connection.ask(DescribeQuorumRequest(), CONTEXT, timeout_ms=100 if answer is None else TIMEOUT_MS)


async def test_a_request_that_is_given_up_closes_the_connection() -> None:
    async with ScriptedNode({ApiKey.DESCRIBE_QUORUM: lambda _: SILENCE}) as node:
        connection = await opened(node)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await connection.ask(DescribeQuorumRequest(), CONTEXT, timeout_ms=TIMEOUT_MS)
        await until(lambda: not node.is_connected)
        with pytest.raises(UnreachableError, match="an earlier request was given up"):
            await connection.ask(DescribeQuorumRequest(), CONTEXT, timeout_ms=TIMEOUT_MS)


async def test_a_body_with_another_correlation_id_is_refused_too() -> None:
    async with ScriptedNode({ApiKey.DESCRIBE_CLUSTER: lambda _: CLUSTER}) as node:
        connection = await opened(node)
        node.correlation_shift = 5
        with pytest.raises(UnreachableError, match="DescribeCluster: it answers request 6"):
            await connection.ask_body(ApiKey.DESCRIBE_CLUSTER, {}, timeout_ms=TIMEOUT_MS)


async def test_an_api_that_is_not_offered_is_not_asked() -> None:
    only_fetch: Body = {"api_keys": [{"api_key": 1, "min_version": 4, "max_version": 17}]}
    async with ScriptedNode({ApiKey.API_VERSIONS: lambda _: only_fetch}) as node:
        connection = await opened(node)
        with pytest.raises(UnreachableError, match="no common version of DESCRIBE_QUORUM"):
            await connection.ask(DescribeQuorumRequest(), CONTEXT, timeout_ms=TIMEOUT_MS)


async def test_nobody_there_is_told_in_the_systems_words() -> None:
    [port] = free_ports(1)
    with pytest.raises(UnreachableError, match=rf"{HOST}:{port}: connection refused"):
        await ClientDialer("test").connect(Endpoint(HOST, port), TIMEOUT_MS)


async def test_an_unknown_name_is_told() -> None:
    def unknown(endpoint: Endpoint) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    names = Names(asyncio.get_running_loop(), lookup=unknown)
    asking = ClientDialer("test", names=names)
    with pytest.raises(UnreachableError, match=r"nowhere.invalid:1: its name cannot be resolved \(Name or service"):
        await asking.connect(Endpoint("nowhere.invalid", 1), TIMEOUT_MS)


async def test_a_name_without_addresses_and_a_slow_name_server_are_told() -> None:
    loop = asyncio.get_running_loop()
    asking = ClientDialer("test", names=Names(loop, lookup=lambda _: []))
    with pytest.raises(UnreachableError, match="it has no address"):
        await asking.connect(Endpoint("empty.invalid", 1), TIMEOUT_MS)
    slow = Names(loop)
    slow._under_way[Endpoint("slow.invalid", 1)] = loop.create_future()
    asking = ClientDialer("test", names=slow)
    with pytest.raises(UnreachableError, match=r"its name was not resolved within 0\.05 s"):
        await asking.connect(Endpoint("slow.invalid", 1), 50)


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    async with ScriptedNode({}) as node:
        names = Names(asyncio.get_running_loop(), lookup=lambda _: ["127.0.0.9", HOST])
        asking = ClientDialer("test", names=names)
        connection = await asking.connect(Endpoint("two.invalid", node.endpoint.port), TIMEOUT_MS)
        await connection.close()


async def test_nobody_who_accepts_is_waited_for_only_so_long() -> None:
    with closing(socket.socket()) as full:
        full.bind((HOST, 0))
        full.listen(0)
        full_endpoint = Endpoint(*full.getsockname())
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex((full_endpoint.host, full_endpoint.port))
        with pytest.raises(UnreachableError, match=r"within 0\.2 s"):
            await ClientDialer("test").connect(full_endpoint, 200)
        for each in waiting:
            each.close()


LARGE = bytes(range(256)) * 2_000


class Node:
    """The other end of one connection, which sends what a test tells it to."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []

    def accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep the connection."""
        self.writers.append(writer)

    async def send(self, data: bytes) -> None:
        """Write these bytes."""
        self.writers[0].write(data)
        await self.writers[0].drain()


class Wire(DialedConnection):
    """Counts the bytes that were received in the room of a frame."""

    in_place = 0

    def filled(self, size_bytes: int) -> Buffer | None:
        self.in_place += size_bytes
        return super().filled(size_bytes)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Node, AnswerStream, Wire]]:
    """Both ends of a connection."""
    node, wire = Node(), Wire("test")
    wire._frames.size_bytes_max = 2 * len(LARGE)  # as after the negotiation
    loop = asyncio.get_running_loop()
    [port] = free_ports(1)
    server = await asyncio.start_server(node.accept, HOST, port)
    _, stream = await loop.create_connection(partial(AnswerStream, wire, loop), HOST, port)
    try:
        await until(lambda: bool(node.writers))
        yield node, stream, wire
    finally:
        await stream.close()
        server.close()
        for writer in node.writers:
            writer.transport.abort()
        await server.wait_closed()


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


async def test_the_rest_of_a_large_answer_is_received_in_its_frame() -> None:
    async with connected() as (node, stream, wire):
        for _ in range(3):
            waiting = asyncio.ensure_future(stream.answer())
            data = framed(LARGE)
            await node.send(data[:3])
            await until(lambda: wire._frames.held_size_bytes == 3)
            await node.send(data[3:1_000])
            await until(lambda: wire._frames.need_size_bytes > 0)
            await node.send(data[1_000:])
            assert bytes(await waiting) == LARGE
        assert wire.in_place >= len(LARGE)


async def test_bytes_that_nobody_waits_for_end_the_connection() -> None:
    async with connected() as (node, stream, _):
        assert stream.is_open
        await node.send(framed(b"unasked"))
        await until(lambda: not stream.is_open)
        with pytest.raises(OSError, match="end of the stream"):
            await stream.answer()


async def test_a_second_answer_after_a_given_up_wait_ends_the_connection() -> None:
    async with connected() as (node, stream, _):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await stream.answer()
        await node.send(framed(b"too late"))
        await until(lambda: not stream.is_open)


async def test_the_end_of_the_connection_ends_the_wait() -> None:
    async with connected() as (node, stream, _):
        waiting = asyncio.ensure_future(stream.answer())
        await node.send(framed(LARGE)[:500])
        node.writers[0].transport.abort()
        with pytest.raises(OSError, match=r"end of the stream|reset"):
            await waiting
        assert not stream.is_open


async def test_bytes_that_are_no_frame_end_the_wait() -> None:
    async with connected() as (node, stream, _):
        waiting = asyncio.ensure_future(stream.answer())
        await node.send((2 * len(LARGE) + 1).to_bytes(4, "big"))
        with pytest.raises(ProtocolError, match="allowed are 1 to"):
            await waiting
