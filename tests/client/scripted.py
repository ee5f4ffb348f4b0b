"""Nodes that answer as a test tells them to, over real sockets on the loopback interface.

They record the requests and check nothing: a script may answer with any body, any bytes, no answer, or the end of the
connection.
"""

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.api import decode_request_body, decode_request_header, encode_response, frame
from pykraft.protocol.messages import API_VERSIONS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.types import Endpoint

SILENCE: Final = None
HANG_UP: Final = b""
"""Instead of an answer: close the connection."""
Answer = Body | bytes | None
"""A body, whole bytes as they are (with their size), or silence."""
Script = Callable[[Body], Answer]

VERSIONS: Body = {"api_keys": api_key_bodies(API_VERSIONS)}


class ScriptedNode:
    """A server whose answers are scripts by API; without one, ApiVersions is answered as our nodes do.

    A node without a script for DescribeCluster answers it with an error.
    """

    def __init__(self, scripts: Mapping[ApiKey, Script]) -> None:
        [port] = free_ports(1)
        self.endpoint = Endpoint(HOST, port)
        self.scripts: dict[ApiKey, Script] = {
            ApiKey.API_VERSIONS: lambda _: VERSIONS,
            ApiKey.DESCRIBE_CLUSTER: lambda _: {"error_code": -1},
            **scripts,
        }
        self.asked: list[tuple[ApiKey, Body]] = []
        self.correlation_shift = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._begin, self.endpoint.host, self.endpoint.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Die: nobody listens any more, and all connections end."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def is_connected(self) -> bool:
        """True while somebody is."""
        return bool(self._tasks)

    def requests(self, key: ApiKey) -> list[Body]:
        """Bodies of what was asked of this API."""
        return [body for asked, body in self.asked if asked is key]

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Not in the task: it may be cancelled before it begins.
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                size_bytes = int.from_bytes(await reader.readexactly(4), "big")
                data = await reader.readexactly(size_bytes)
                header = decode_request_header(data)
                key = ApiKey(header.api_key)
                body = decode_request_body(header, data)
                self.asked.append((key, body))
                answer = self.scripts[key](body)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    if answer == HANG_UP:
                        return
                elif answer is not None:
                    correlation_id = header.correlation_id + self.correlation_shift
                    writer.writelines(frame(encode_response(key, header.api_version, correlation_id, answer)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop go on until this is so."""
    loop = asyncio.get_running_loop()
    while not condition():
        turn = loop.create_future()
        loop.call_later(0.005, turn.set_result, None)
        await turn
