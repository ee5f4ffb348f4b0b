"""Calls the API as an ASGI server does, on a node in the test's loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pykraft.kv.api import ABORT, KeyValueApi
from pykraft.machine import Replicated
from pykraft.recipes import KeyValues
from tests.client.nodes import alone


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[KeyValueApi]:
    """The API of a quorum of one."""
    async with Replicated(alone(folder), KeyValues()) as node:
        api = KeyValueApi(node)
        try:
            yield api
        finally:
            api.close()


@dataclass
class Client:
    """One request and what came back; a body in pieces comes in messages of its own."""

    path: str
    body: Any = b""
    method: str = "POST"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] | None = None
    status: int = 0
    answer_headers: dict[str, str] = field(default_factory=dict)
    text: bytes = b""
    is_complete: bool = False
    is_aborted: bool = False

    def __post_init__(self) -> None:
        self.left = asyncio.Event()
        """Set it to disconnect."""
        self.news = asyncio.Event()
        """Set with each message of the answer."""
        self.reads = asyncio.Event()
        """Cleared, the client reads nothing."""
        self.reads.set()
        data = self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()
        self._upcoming = self.pieces if self.pieces is not None else [data]

    async def call(self, app: Any) -> Client:
        scope = {
            "type": "http",
            "method": self.method,
            "path": self.path,
            "headers": [(name.encode(), value.encode()) for name, value in self.headers.items()],
            ABORT: self._abort,
        }
        await app(scope, self._receive, self._send)
        return self

    def json(self) -> Any:
        return json.loads(self.text)

    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.text.splitlines()]

    async def until_lines(self, count: int) -> list[Any]:
        """Wait until there are so many lines."""
        while len(self.lines()) < count:
            self.news.clear()
            await self.news.wait()
        return self.lines()

    def _abort(self) -> None:
        self.is_aborted = True
        self.left.set()

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._upcoming:
            body = self._upcoming.pop(0)
            return {"type": "http.request", "body": body, "more_body": bool(self._upcoming)}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.reads.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.answer_headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            assert self.status, "the head comes first"
            self.text += message["body"]
            self.is_complete = not message["more_body"]
        self.news.set()


async def ask(app: Any, path: str, **body: Any) -> Any:
    """The answer to a call that succeeds."""
    client = await Client(path, body).call(app)
    assert client.status == 200, client.text
    return client.json()


async def refused(app: Any, path: str, **body: Any) -> tuple[int, str, str]:
    """Status, code and message of a call that fails; nothing was changed."""
    client = await Client(path, body).call(app)
    error = client.json()["error"]
    assert error["outcome"] == "not applied"
    return client.status, error["code"], error["message"]
