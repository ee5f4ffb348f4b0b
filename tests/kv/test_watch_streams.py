"""Watches as answers of lines: every change once and in order, signs of life, and each way to end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pykraft.kv import exchange, watch_streams
from pykraft.kv.api import KeyValueApi
from tests.client.nodes import run
from tests.kv.asgi import Client, ask, refused, served


def begun(api: KeyValueApi, **body: Any) -> tuple[Client, asyncio.Task[Client]]:
    client = Client("/v1/watch", body)
    return client, asyncio.get_running_loop().create_task(client.call(api))


async def over(task: asyncio.Task[Client], client: Client) -> None:
    client.left.set()
    await task


def test_a_watch_delivers_old_and_new_changes_of_its_range(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            for key in ("a/1", "b", "a/2"):
                await ask(api, "/v1/put", key=key, value="x")
            old, watching = begun(api, prefix="a/", from_revision=1)
            new, waiting = begun(api, key="b")
            assert [line.get("revision") for line in await old.until_lines(3)] == [None, 1, 3]
            assert (await new.until_lines(1)) == [{"from_revision": 4}]
            await ask(api, "/v1/delete", key="", end="")
            changes = [(line["revision"], line["key"], line["item"]) for line in (await old.until_lines(5))[3:]]
            assert changes == [(4, "a/1", None), (4, "a/2", None)]
            assert (await new.until_lines(2))[1:] == [{"revision": 4, "key": "b", "item": None}]
            assert old.answer_headers["content-type"] == "application/x-ndjson"
            await over(watching, old)
            await over(waiting, new)
            assert api._watches._count == 0
            assert not old.is_complete, "whoever left needs no end"

    run(main)


def test_silence_is_filled_with_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_streams, "SIGN_OF_LIFE_S", 0.01)

    async def main() -> None:
        async with served(tmp_path) as api:
            client, watching = begun(api, key="a")
            assert await client.until_lines(3) == [{"from_revision": 1}, {}, {}]
            await over(watching, client)

    run(main)


def test_a_watch_of_compacted_changes_ends_with_the_oldest_revision(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            for number in range(3):
                await ask(api, "/v1/put", key="a", value=str(number))
            await ask(api, "/v1/compact", revision=3)
            assert (await refused(api, "/v1/watch", key="a", from_revision=2))[:2] == (410, "compacted")
            client, watching = begun(api, key="a", from_revision=3)
            await client.until_lines(2)
            # A slow client: what it did not read yet is compacted meanwhile.
            client.reads.clear()
            for number in range(3):
                await ask(api, "/v1/put", key="a", value=str(number))
            await ask(api, "/v1/compact", revision=7)
            client.reads.set()
            await watching
            assert client.is_complete
            [*_, last] = client.lines()
            assert (last["error"]["code"], last["error"]["oldest_revision"]) == ("compacted", 7)

    run(main)


def test_the_end_of_the_node_is_the_last_line(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            client, watching = begun(api, key="a")
            await client.until_lines(1)
            api.close()
            await watching
            assert client.is_complete
            assert client.lines()[1]["error"]["code"] == "not_running"

    run(main)


def test_a_client_that_reads_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            client, watching = begun(api, key="a")
            await client.until_lines(1)
            client.reads.clear()
            monkeypatch.setattr(exchange, "WRITE_TIMEOUT_S", 0.01)
            await ask_unread(api)
            await watching
            assert client.is_aborted
            assert not client.is_complete
            assert api._watches._count == 0

    async def ask_unread(api: KeyValueApi) -> None:
        put = Client("/v1/put", {"key": "a", "value": "b"})
        await put.call(api)
        assert put.status == 200

    run(main)


def test_there_are_so_many_watches_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_streams, "WATCHES_MAX", 1)

    async def main() -> None:
        async with served(tmp_path) as api:
            client, watching = begun(api, key="a")
            await client.until_lines(1)
            assert (await refused(api, "/v1/watch", key="a"))[:2] == (503, "busy")
            await over(watching, client)
            client, watching = begun(api, key="a")
            await client.until_lines(1)
            await over(watching, client)

    run(main)
