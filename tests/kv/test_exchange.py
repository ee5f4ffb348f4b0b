"""A request and its answer within bounds: bodies, slow clients, and answers that were begun."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

import pytest

from pykraft.kv import exchange as exchange_module
from pykraft.kv.exchange import BODY_SIZE_BYTES_MAX, PIECE_SIZE_BYTES, ClientGoneError, Exchange
from pykraft.kv.json_answers import ApiFailure, RequestRefusedError
from tests.kv.asgi import Client


def serve(client: Client, act: Any) -> Client:
    """Let ``act`` serve one request; its exception is raised."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await act(Exchange(scope, receive, send))

    return asyncio.run(client.call(app))


def test_a_body_comes_in_pieces() -> None:
    async def echo(exchange: Exchange) -> None:
        await exchange.answer({"body": (await exchange.body()).decode()}, HTTPStatus.CONFLICT, b"x: y")

    client = serve(Client("/", pieces=[b"a", b"", b"b"]), echo)
    assert client.json() == {"body": "ab"}
    assert (client.status, client.is_complete) == (409, True)
    assert client.answer_headers["content-length"] == str(len(client.text))
    assert client.answer_headers["content-type"] == "application/json"
    assert client.answer_headers["x"] == "y"


@pytest.mark.parametrize(
    "client",
    [
        lambda: Client("/", headers={"content-length": str(BODY_SIZE_BYTES_MAX + 1)}),
        lambda: Client("/", headers={"content-length": "9" * 5_000}),
        lambda: Client("/", pieces=[bytes(BODY_SIZE_BYTES_MAX), b"x"]),
    ],
    ids=["announced", "absurd", "in pieces"],
)
def test_a_body_that_is_too_large_is_refused(client: Any) -> None:
    async def read(exchange: Exchange) -> None:
        with pytest.raises(RequestRefusedError, match=f"at most {BODY_SIZE_BYTES_MAX} bytes") as caught:
            await exchange.body()
        assert caught.value.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        assert caught.value.headers == (b"connection: close",)

    serve(client(), read)


def test_a_body_that_does_not_arrive_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "BODY_TIMEOUT_S", 0.01)

    async def read(exchange: Exchange) -> None:
        with pytest.raises(RequestRefusedError, match="did not arrive within") as caught:
            await exchange.body()
        assert caught.value.status == HTTPStatus.REQUEST_TIMEOUT

    serve(Client("/", pieces=[]), read)


def test_a_client_that_leaves_is_noticed() -> None:
    client = Client("/", pieces=[])

    async def read(exchange: Exchange) -> None:
        client.left.set()
        with pytest.raises(ClientGoneError):
            await exchange.body()
        await exchange.gone()

    serve(client, read)


def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client("/")

    async def stream(exchange: Exchange) -> None:
        await exchange.begin_lines()
        await exchange.line({"a": 1})
        monkeypatch.setattr(exchange_module, "WRITE_TIMEOUT_S", 0.01)
        client.reads.clear()
        with pytest.raises(ClientGoneError):
            await exchange.line({"a": 2})

    assert serve(client, stream).is_aborted
    assert client.lines() == [{"a": 1}]
    assert not client.is_complete


async def test_a_connection_that_breaks_is_a_client_that_is_gone() -> None:
    async def broken(*_: Any) -> Any:
        raise ConnectionResetError

    with pytest.raises(ClientGoneError):
        await Exchange({"method": "GET", "path": "/", "headers": []}, broken, broken).begin_lines()


def test_a_failure_is_an_answer_or_the_last_line() -> None:
    failure = ApiFailure(HTTPStatus.GONE, "compacted", "too late", headers=(b"retry-after: 1",))

    async def fail(exchange: Exchange) -> None:
        await exchange.fail(failure)

    async def fail_late(exchange: Exchange) -> None:
        await exchange.begin_lines()
        await exchange.line({"a": 1})
        await exchange.fail(failure)

    whole, late = serve(Client("/"), fail), serve(Client("/"), fail_late)
    assert (whole.status, whole.json(), whole.is_complete) == (410, failure.as_json(), True)
    assert whole.answer_headers["retry-after"] == "1"
    assert (late.status, late.lines(), late.is_complete) == (200, [{"a": 1}, failure.as_json()], True)


def test_a_large_answer_is_written_in_pieces() -> None:
    written: list[int] = []

    async def answer(exchange: Exchange) -> None:
        deliver = exchange._send

        async def counted(message: Any) -> None:
            written.append(len(message.get("body", b"")))
            await deliver(message)

        exchange._send = counted
        await exchange.answer({"a": "x" * 3 * PIECE_SIZE_BYTES})

    client = serve(Client("/"), answer)
    assert len(client.json()["a"]) == 3 * PIECE_SIZE_BYTES
    assert max(written) == PIECE_SIZE_BYTES
    assert client.is_complete
