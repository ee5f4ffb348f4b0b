"""A node that lives as long as an ASGI application, such as one of FastAPI or Starlette, and says how it is.

No framework is imported: a lifespan is a function that returns an async context manager, and a router an application to
mount. Servers with several workers run the application in each; `worker_number` tells these processes apart.

Invariants: the node starts before the first request, and has left its quorum when the server ends. Two processes never
have one number of one folder at the same time, and the lowest free one is taken first.

Source: ASGI specification 3.0, HTTP and lifespan; ``flock(2)``.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pykraft.client.arguments import whole_number
from pykraft.errors import NotRunningError, UsageError
from pykraft.machine.replicated import Replicated
from pykraft.machine.state_machine import StateMachine

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[AsgiScope, AsgiReceive, AsgiSend], Awaitable[None]]

WORKERS_MAX: Final = 1_000
TIMEOUT_MS: Final = 60_000
RETRY_S: Final = 0.1

M = TypeVar("M", bound=StateMachine[Any, Any])


class AppNode(Generic[M]):
    """The node of an application, which runs from the application's start to its end.

    Give ``lifespan`` to the application, mount ``router``, and call the object for the node, also as a dependency of
    FastAPI: ``Depends(node)``. ``wrap`` is for an application without a lifespan of its own.
    """

    def __init__(self, make: Callable[[], Awaitable[Replicated[M]]]) -> None:
        """``make`` makes the node when the application starts, in each worker."""
        self._make = make
        self._node: Replicated[M] | None = None

    def __call__(self) -> Replicated[M]:
        """The node. Errors: NotRunningError before the application has started, and after its end."""
        if self._node is None:
            raise NotRunningError("the application has not started its node: pass lifespan to it, or use wrap")
        return self._node

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncIterator[None]:
        """Runs the node within this block. Errors: those of the node, also when it ends by itself."""
        async with await self._make() as node:
            self._node = node
            try:
                yield
            finally:
                self._node = None

    async def router(self, scope: AsgiScope, _receive: AsgiReceive, send: AsgiSend) -> None:
        """Answers GET of ``live``, ``ready`` and ``status``, wherever it is mounted.

        ``live`` is 503 when the node has ended, ``ready`` also while it knows no leader. Changed files that cannot be
        used are in the answer and change no status: the node serves on with the former ones, and all nodes may have
        the same broken file.
        """
        if scope["type"] != "http":
            return
        status, content = HTTPStatus.OK, self._status()
        name = str(scope["path"]).rstrip("/").rpartition("/")[2]
        if name not in {"live", "ready", "status"}:
            status, content = HTTPStatus.NOT_FOUND, {"error": "there is live, ready and status"}
        elif scope["method"] not in {"GET", "HEAD"}:
            status = HTTPStatus.METHOD_NOT_ALLOWED
        elif (name != "status" and not content["live"]) or (name == "ready" and not content["ready"]):
            status = HTTPStatus.SERVICE_UNAVAILABLE
        data = json.dumps(content).encode() + b"\n"
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(data))]
        await send({"type": "http.response.start", "status": int(status), "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else data})

    def wrap(self, app: AsgiApp) -> AsgiApp:
        """This application, with the node started and ended by the server's lifespan messages."""

        async def wrapped(scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
            if scope["type"] == "lifespan":
                await self._run(receive, send)
            else:
                await app(scope, receive, send)

        return wrapped

    async def _run(self, receive: AsgiReceive, send: AsgiSend) -> None:
        step = "startup"
        try:
            async with AsyncExitStack() as stack:
                await receive()
                await stack.enter_async_context(self.lifespan())
                await send({"type": "lifespan.startup.complete"})
                step = "shutdown"
                await receive()
        except Exception as error:
            # The server logs it and ends.
            await send({"type": f"lifespan.{step}.failed", "message": f"{type(error).__name__}: {error}"})
            raise
        await send({"type": "lifespan.shutdown.complete"})

    def _status(self) -> dict[str, Any]:
        if self._node is None or not self._node.node.is_running:
            return {"live": False, "ready": False}
        node = self._node.node
        leader = node.leader_and_epoch
        return {
            "live": True,
            "ready": leader.leader_id is not None,
            "node_id": node.node_id,
            "leader_id": leader.leader_id,
            "leader_epoch": leader.epoch,
            "high_watermark": node.high_watermark,
            "log_end_offset": node.log_end_offset,
            "not_taken_up": [report.as_json() for report in node.not_taken_up],
        }


_HELD: Final[dict[tuple[int, str], tuple[int, int]]] = {}
"""By process and folder: the number, and the descriptor that holds its lock."""


async def worker_number(folder: str | os.PathLike[str], *, workers: int, timeout_ms: int = TIMEOUT_MS) -> int:
    """The number of this process among the workers of a server, 1 to ``workers``, until the process ends.

    The lowest free one is taken, so a worker that replaces another one has its number. While all are taken it waits:
    a server may start new workers before it ends the former ones.

    Errors: UsageError when no number becomes free in time.
    """
    whole_number("workers", workers, least=1, most=WORKERS_MAX)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + timeout_ms / 1_000
    while (number := _lowest_free(folder, workers)) is None:
        if loop.time() >= deadline_s:
            raise UsageError(f"{folder}: all {workers} workers are running: is the number that of the server's?")
        await asyncio.sleep(RETRY_S)
    return number


def _lowest_free(named: str | os.PathLike[str], workers: int) -> int | None:
    folder = os.path.realpath(named)
    known = _HELD.get((os.getpid(), folder))
    if known is not None:
        return known[0]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number in range(1, workers + 1):
        descriptor = os.open(f"{folder}/worker-{number}.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            continue
        _HELD[os.getpid(), folder] = number, descriptor
        return number
    return None
