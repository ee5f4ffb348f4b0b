"""A node within an ASGI application: its life, what its router says, and numbers for the workers of a server."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import MutableMapping
from contextlib import closing
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from pykraft.errors import NotRunningError, UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, SOURCES, free_ports
from pykraft.machine import AppNode, Replicated, worker_number
from pykraft.security.acls import AuthorizerSettings
from pykraft.server.reload import SOCKET_NAME, ask_to_reload
from tests.client.nodes import alone
from tests.documented.blocks import blocks
from tests.machine.counters import Add, Counters


def node_in(folder: Path) -> AppNode[Counters]:
    async def make() -> Replicated[Counters]:
        return Replicated(alone(folder), Counters())

    return AppNode(make)


async def get(app: Any, path: str, method: str = "GET") -> tuple[int, Any]:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "headers": [], "query_string": b"", "root_path": ""}
    await app(scope, no_body, send)
    head, body = sent
    assert dict(head["headers"])[b"content-type"] == b"application/json"
    return head["status"], json.loads(body["body"] or b"null")


async def no_body() -> MutableMapping[str, Any]:
    return {"type": "http.request", "body": b""}


async def test_the_node_lives_as_long_as_the_application_and_says_how_it_is(tmp_path: Path) -> None:
    node = node_in(tmp_path)
    app = Starlette(routes=[Mount("/raft", node.router)], lifespan=node.lifespan)
    assert await get(app, "/raft/live") == (503, {"live": False, "ready": False})
    with pytest.raises(NotRunningError, match="pass lifespan to it, or use wrap"):
        node()
    async with app.router.lifespan_context(app):
        assert await node().execute(Add("x", 2)) == 2
        status, content = await get(app, "/raft/status")
        assert (status, content["node_id"], content["leader_id"]) == (200, 1, 1)
        assert not (alone(tmp_path).log_dir / SOCKET_NAME).exists(), "nothing is made from files"
        assert content["high_watermark"] == content["log_end_offset"] == node().node.log_end_offset
        assert await get(app, "/raft/ready/") == (200, content)
        assert await get(app, "/raft/live", "HEAD") == (200, None)
        assert (await get(app, "/raft/live", "POST"))[0] == HTTPStatus.METHOD_NOT_ALLOWED
        assert await get(app, "/raft/other") == (404, {"error": "there is live, ready and status"})
        await node().node.close()
        assert (await get(app, "/raft/live"))[0] == HTTPStatus.SERVICE_UNAVAILABLE
        assert (await get(app, "/raft/status"))[0] == HTTPStatus.OK
    with pytest.raises(NotRunningError):
        node()


async def test_a_broken_file_is_named_and_the_node_stays_ready(tmp_path: Path) -> None:
    rules = tmp_path / "acls"
    rules.write_text("")

    async def make() -> Replicated[Counters]:
        node = Replicated(replace(alone(tmp_path), authorizer=AuthorizerSettings(acl_file=rules)), Counters())
        await node.initialize()
        await node.node.wait_for_leader()
        return node

    node = AppNode(make)
    async with node.lifespan():
        assert (await get(node.router, "ready"))[1]["not_taken_up"] == []
        rules.write_text("nonsense")
        [told] = (await asyncio.to_thread(ask_to_reload, alone(tmp_path).log_dir))["files"]
        assert (told["what"], told["files"], told["state"]) == ("rules", [str(rules)], "refused")
        status, content = await get(node.router, "ready")
        # All nodes may have the same file: were they not ready, nobody would be served, and they all serve.
        assert (status, content["ready"], content["not_taken_up"]) == (200, True, [told])


async def test_without_a_leader_it_is_not_ready(tmp_path: Path) -> None:
    async def make() -> Replicated[Counters]:
        [port] = free_ports(1)
        config = alone(tmp_path)
        other = {1: f"{HOST}:0", 2: f"{HOST}:{port}"}
        node = Replicated(config, Counters())
        await node.bind()
        await node.initialize(other)
        return node

    node = AppNode(make)
    async with node.lifespan():
        status, content = await get(node.router, "ready")
        assert (status, content["live"], content["leader_id"]) == (503, True, None)
        assert (await get(node.router, "live"))[0] == HTTPStatus.OK


async def test_a_plain_application_gets_its_lifespan(tmp_path: Path) -> None:
    node = node_in(tmp_path)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await node.router(scope, receive, send)

    wrapped = node.wrap(app)
    sent: list[Any] = []
    messages: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
    told = asyncio.Event()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        told.set()

    messages.put_nowait({"type": "lifespan.startup"})
    running = asyncio.ensure_future(wrapped({"type": "lifespan"}, messages.get, send))
    await told.wait()
    await node().node.wait_for_leader()
    assert (await get(wrapped, "/ready"))[0] == HTTPStatus.OK
    messages.put_nowait({"type": "lifespan.shutdown"})
    await running
    assert [message["type"] for message in sent] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    await node.router({"type": "websocket"}, messages.get, send)  # nothing of its own
    assert len(sent) == 2


async def test_a_node_that_cannot_start_ends_the_server() -> None:
    async def make() -> Replicated[Counters]:
        raise UsageError("no number")

    sent: list[Any] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    with pytest.raises(UsageError):
        await AppNode(make).wrap(AppNode(make).router)({"type": "lifespan"}, no_body, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": "UsageError: no number"}]


HOLD = """
import asyncio, sys
from pykraft.machine import worker_number
print(asyncio.run(worker_number(sys.argv[1], workers=2)), flush=True)
sys.stdin.read()
"""


async def test_workers_have_different_numbers_and_a_new_one_takes_a_free_one(tmp_path: Path) -> None:
    def worker() -> subprocess.Popen[str]:
        words = [sys.executable, "-c", HOLD, str(tmp_path / "w")]
        environment = os.environ | {"PYTHONPATH": str(SOURCES)}
        return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def number(of: subprocess.Popen[str]) -> int:
        assert of.stdout is not None
        return int(of.stdout.readline())

    with worker() as first, worker() as second:
        numbers = [number(first), number(second)]
        assert sorted(numbers) == [1, 2]
        with pytest.raises(UsageError, match="all 2 workers are running"):
            await worker_number(tmp_path / "w", workers=2, timeout_ms=1)
        with worker() as third:
            first.kill()
            assert number(third) == numbers[0], "it waited for this one"
            third.kill()
        assert await worker_number(tmp_path / "w", workers=2) == numbers[0]
        assert await worker_number(tmp_path / "w", workers=2) == numbers[0], "this process has it"
        second.kill()
    with pytest.raises(UsageError, match="workers = 0"):
        await worker_number(tmp_path, workers=0)


@pytest.mark.processes
def test_two_workers_of_uvicorn_share_the_documented_node(tmp_path: Path) -> None:
    raft, web = free_ports(2)
    for block in (*blocks("docs/embedding.md"), *blocks("docs/web.md")):
        if block.file_name in {"counters.py", "web.py"}:
            (tmp_path / block.file_name).write_text(block.text.replace("127.0.0.1:9491", f"{HOST}:{raft}"))
    code = f"import os; os.chdir({str(tmp_path)!r}); from uvicorn.main import main; main()"
    words = [sys.executable, "-c", code, "web:app", "--app-dir", str(tmp_path), "--port", str(web)]
    environment = {"PYTHONPATH": os.pathsep.join([str(SOURCES), str(tmp_path)]), "WEB_CONCURRENCY": "2"}

    def post() -> int:
        with closing(HTTPConnection(HOST, web, timeout=20)) as connection:
            connection.request("POST", "/add/visits")
            return int(json.load(connection.getresponse())["total"])

    with Children() as children:
        server = children.start("uvicorn", words, tmp_path / "log", environment=environment, has_group=True)
        wait_until(lambda: server.log().count("startup complete") == 2, "both workers", alive=[server])
        assert [post() for _ in range(20)] == [*range(1, 21)]
        assert (tmp_path / "data" / "web" / "worker-2.lock").exists()
        assert server.stop() == 0, server.log()
