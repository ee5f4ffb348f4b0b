"""A node with its API in this process: addresses, what it says, and its end."""

import asyncio
import http.client
import json
import logging
import os
import re
import signal
import socket
import ssl
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import AddressInUseError, LocalQuorumError, QuorumUnavailableError, UsageError
from pykraft.kv import service
from pykraft.kv.client import KeyValueClient
from pykraft.kv.service import http_addresses, require_package, serve, serve_command, status_of, try_quorum
from pykraft.local.voters import free_ports
from pykraft.security.contexts import Side
from pykraft.security.settings import KEY_VALUE_NAME, Security
from pykraft.server import secured
from pykraft.server.reload import ask_to_reload
from pykraft.types import Endpoint
from tests.client.nodes import alone
from tests.kv.scripted_node import scripted
from tests.security.credentials import HOSTS, authority, context, properties, security, write


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


def test_secured_service_serves_whom_it_knows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """https with a certificate of this authority, and then a token or a user of the file, which changes meanwhile."""
    values = properties(tmp_path / "certificates", ssl__client__auth="none")
    file = tmp_path / "credentials"
    file.write_text("ann:pass word\n\na-token\n")
    told: dict[str, Any] = {}

    def call(port: int) -> None:
        url = f"localhost:{port}"
        trusting = {"ssl.truststore.location": values["ssl.truststore.location"], "security.protocol": "SSL"}
        for name, node, token in (
            ("user", f"https://ann:pass%20word@{url}", None),
            ("token", f"https://{url}", "a-token"),
            ("stranger", f"https://{url}", None),
            ("wrong", f"https://{url}", "a-toke"),
        ):
            client = KeyValueClient([node], timeout_s=10, token=token, security=Security.of_client(trusting))
            try:
                told[name] = client.ask("/v1/put", {"key": "a", "value": name}, changes=True)
            except UsageError as error:
                told[name] = str(error)
        try:
            KeyValueClient([f"https://{url}"], timeout_s=1).ask("/v1/put", {}, changes=True)
        except QuorumUnavailableError as error:
            told["foreign"] = str(error)
        file.write_text("another-token\n")
        client = KeyValueClient(
            [f"https://{url}"],
            timeout_s=10,
            token="another-token",  # noqa: S106 - a test's
            security=Security.of_client(trusting),
        )
        told["another"] = client.ask("/v1/get", {"key": "a"}, changes=False)["item"]["value"]
        file.write_text("")
        told["kept"] = client.ask("/v1/get", {"key": "a"}, changes=False)["item"]["value"]

    async def main() -> None:
        config = replace(alone(tmp_path), security=((KEY_VALUE_NAME, security(values)),))
        serving = asyncio.ensure_future(serve(config, Endpoint("", 0), credentials=file))
        while (found := re.search("key-value store at https://.*:([0-9]+)", caplog.text)) is None:
            await asyncio.wait([serving], timeout=0.01)
            assert not serving.done()
        await asyncio.to_thread(call, int(found[1]))
        os.kill(os.getpid(), signal.SIGTERM)
        await serving

    with caplog.at_level(logging.INFO, logger="pykraft"):
        asyncio.run(main())
    assert told.pop("user")["revision"] < told.pop("token")["revision"]
    assert "its certificate is refused: " in told.pop("foreign")
    wanted = "a user and password, or a token, of --credentials-file is wanted"
    assert told == {"stranger": wanted, "wrong": wanted, "another": "token", "kept": "token"}
    assert "loopback" not in caplog.text
    assert "changed credentials are not taken up" in caplog.text
    assert "pass word" not in caplog.text


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), (b" \n", "no line user:password"), (b"\xff", "is not UTF-8")]
)
def test_credentials_that_cannot_be_used_end_the_start(content: bytes | None, words: str, tmp_path: Path) -> None:
    from pykraft.kv.http_server import AllowedUsers

    if content is not None:
        (tmp_path / "c").write_bytes(content)
    with pytest.raises(UsageError, match=f"--credentials-file .*c: .*{words}"):
        AllowedUsers(tmp_path / "c")


async def test_files_of_the_service_are_taken_up_with_the_nodes_and_a_broken_one_is_in_its_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secured, "REFRESH_S", inf)
    values, file = properties(tmp_path / "certificates", ssl__client__auth="none"), tmp_path / "credentials"
    file.write_text("a-token")
    config = replace(alone(tmp_path), security=((KEY_VALUE_NAME, security(values)),))
    trusting = context({"ssl.truststore.location": values["ssl.truststore.location"]}, Side.CLIENT).current

    def status(port: int) -> tuple[dict[str, Any], str]:
        with closing(http.client.HTTPSConnection("localhost", port, timeout=20, context=trusting)) as connection:
            connection.request("GET", "/v1/status", headers={"Authorization": "Bearer a-token"})
            assert isinstance(connection.sock, ssl.SSLSocket)
            name = str(connection.sock.getpeercert())
            return json.loads(connection.getresponse().read()), name

    with caplog.at_level(logging.INFO, logger="pykraft"):
        serving = asyncio.ensure_future(serve(config, Endpoint("", 0), credentials=file))
        while (found := re.search("key-value store at https://.*:([0-9]+)", caplog.text)) is None:
            await asyncio.wait([serving], timeout=0.01)
            assert not serving.done()
    port = int(found[1])
    told, name = await asyncio.to_thread(status, port)
    assert (told["not_taken_up"], "renewed" in name) == ([], False)
    write(tmp_path / "certificates" / "node.pem", authority().issue("renewed", HOSTS))
    file.write_text("")
    [certificates, credentials] = (await asyncio.to_thread(ask_to_reload, config.log_dir))["files"]
    assert (certificates["what"], certificates["state"]) == ("certificates", "taken up")
    assert (credentials["what"], credentials["state"], credentials["files"]) == ("credentials", "refused", [str(file)])
    told, name = await asyncio.to_thread(status, port)
    assert (told["not_taken_up"], "renewed" in name) == ([credentials], True)
    os.kill(os.getpid(), signal.SIGTERM)
    await serving


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


def test_the_status_of_a_node_or_of_something_else() -> None:
    answers: list[Any] = [(200, {"leader_id": 2}), (200, b"hello"), (200, b"[]")]
    with scripted(lambda path, body: answers.pop(0)) as node:
        at = Endpoint("127.0.0.1", node.server_port)
        assert [status_of(at), status_of(at), status_of(at)] == [{"leader_id": 2}, {}, {}]
    assert status_of(Endpoint("127.0.0.1", 9)) == {}


def test_a_node_is_our_own_program(tmp_path: Path) -> None:
    words = serve_command(tmp_path / "x", Endpoint("::1", 7080), "id")
    assert words[1:] == ["-m", "pykraft", "kv", "serve", *words[5:]]
    assert words[5:] == ["--config", str(tmp_path / "x"), "--cluster-id", "id", "--http", "[::1]:7080"]


def test_nodes_have_the_next_ports_or_any() -> None:
    assert http_addresses(Endpoint("::1", 80), 2) == [Endpoint("::1", 80), Endpoint("::1", 81)]
    found = http_addresses(Endpoint("127.0.0.1", 0), 3)
    assert len({address.port for address in found} - {0}) == 3


def python(code: str, **marks: object) -> Any:
    """In place of the command of a node."""

    def command(config: Path, at: Endpoint, cluster_id: str) -> list[str]:
        return ["python3", "-c", code]

    return command


def test_a_node_that_cannot_start_is_told_with_its_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        service, "serve_command", python("import sys; print('x', flush=True); sys.exit('pykraft: no room')")
    )
    with pytest.raises(LocalQuorumError, match="node 1 ended with 1: pykraft: no room"):
        try_quorum(1, Endpoint("127.0.0.1", 9), show=lambda _: None, report=lambda _: None)


def test_each_end_is_told_and_the_last_one_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "serve_command", python("import time; time.sleep(600)"))
    monkeypatch.setattr(service, "status_of", lambda address: {"leader_id": 1})
    told: list[str] = []
    folders: list[Path] = []

    def show(running: Sequence[Any]) -> None:
        assert [str(address) for address, _ in running] == ["127.0.0.1:7000", "127.0.0.1:7001"]
        for _, child in running:
            folders.append(child.log_path.parent.parent)
            child.kill()

    with pytest.raises(LocalQuorumError, match="all nodes have ended"):
        try_quorum(2, Endpoint("127.0.0.1", 7_000), show=show, report=told.append)
    assert sorted(told)[:1] == ["node 1 ended with -9; 1 of 2 are left"]
    assert not folders[0].exists()
