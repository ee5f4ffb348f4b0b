"""A node with its API in this process: addresses, what it says, and its end."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import os
import signal
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import AddressInUseError, UsageError
from pykraft.kv.service import require_package, serve
from pykraft.local.voters import free_ports
from pykraft.types import Endpoint
from tests.client.nodes import alone


def test_a_node_serves_until_a_signal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    [port] = free_ports(1)
    answers: list[Any] = []

    def call() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("POST", "/v1/put", json.dumps({"key": "a", "value": "b"}))
            answers.append(json.loads(connection.getresponse().read()))
            connection.request("POST", "/v1/watch", json.dumps({"key": "a", "from_revision": 1}))
            response = connection.getresponse()
            answers.extend(json.loads(response.readline()) for _ in range(2))
            os.kill(os.getpid(), signal.SIGTERM)
            answers.append(json.loads(response.readline()))
        finally:
            connection.close()

    async def main() -> None:
        serving = asyncio.ensure_future(serve(alone(tmp_path), Endpoint("127.0.0.1", port)))
        while "key-value store at" not in caplog.text:
            await asyncio.wait([serving], timeout=0.01)
        caller = threading.Thread(target=call)
        caller.start()
        await serving
        caller.join()

    with caplog.at_level(logging.INFO, logger="pykraft"):
        asyncio.run(main())
    assert f"key-value store at http://127.0.0.1:{port}" in caplog.text
    assert "loopback" not in caplog.text
    put, first, change, last = answers
    assert put == {"revision": 1, "key": "a"}
    assert first == {"from_revision": 1}
    assert change["item"]["value"] == "b"
    assert last["error"]["code"] == "not_running"


def test_an_address_in_use_is_named_and_nothing_is_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        at = Endpoint("127.0.0.1", other.getsockname()[1])
        with pytest.raises(AddressInUseError, match=f"--http = '{at}': cannot be bound"):
            asyncio.run(serve(alone(tmp_path), at))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "uvicorn", None)
    monkeypatch.delitem(__import__("sys").modules, "pykraft.kv.http_server", raising=False)
    with pytest.raises(UsageError) as caught:
        require_package()
    assert str(caught.value) == "pykraft kv serve needs uvicorn, which is not installed: pip install 'pykraft[kv]'"
