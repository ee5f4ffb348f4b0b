"""The API of a node, called as an ASGI server calls it: paths, wrong requests, locks, watches, and slow clients."""

import asyncio
import base64
import json
import logging
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import CommandRejectedError, OutcomeUnknownError, UsageError
from pykraft.kv import api as api_module
from pykraft.kv import api as exchange_module
from pykraft.kv.api import (
    BODY_SIZE_BYTES_MAX,
    PIECE_SIZE_BYTES,
    ClientGoneError,
    Exchange,
    KeyValueApi,
    acquire,
    release,
)
from pykraft.kv.json_form import ApiFailure, RequestRefusedError
from pykraft.machine import Replicated
from pykraft.recipes import KeyValues, KeyValueStore, lock
from pykraft.recipes.coordination import AFTER_DIGITS, namespace
from pykraft.recipes.key_value_commands import VALUE_SIZE_BYTES_MAX
from tests.client.nodes import alone
from tests.kv.asgi import Client, ask, refused, served

QUEUE = (namespace("lock", "tool"), namespace("lock", "tool") + AFTER_DIGITS)


async def test_items_are_put_read_compared_and_deleted(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        assert await ask(api, "/v1/put", key="color", value="red") == {"revision": 1, "key": "color"}
        raw = base64.b64encode(b"\xff\0" * 16_384).decode()
        assert await ask(api, "/v1/put", key="n/", base64=raw, numbered=True) == {
            "revision": 2,
            "key": "n/0000000000000002",
        }
        found = await ask(api, "/v1/get", key="color")
        red = {"key": "color", "value": "red", "created": 1, "modified": 1, "version": 1, "lease": 0}
        assert found == {"revision": 2, "item": red}
        assert await ask(api, "/v1/get", key="absent", stale=True) == {"revision": 2, "item": None}
        page = await ask(api, "/v1/range", key="", end="", limit=1)
        assert page == {"revision": 2, "items": [red], "more": True}
        page = await ask(api, "/v1/range", prefix="n/", stale=True, max_age_ms=60_000)
        assert [item["base64"] for item in page["items"]] == [raw]
        assert not page["more"]

        swap = {"if": [{"key": "color", "to": "red"}], "then": [{"put": {"key": "color", "value": "blue"}}]}
        otherwise = [{"get": {"key": "color"}}]
        assert (await ask(api, "/v1/txn", **swap, **{"else": otherwise}))["succeeded"]
        failed = await ask(api, "/v1/txn", **swap, **{"else": otherwise})
        assert (failed["succeeded"], failed["found"][0][0]["value"], failed["revision"]) == (False, "blue", 3)
        assert await ask(api, "/v1/delete", prefix="n/") == {"revision": 4, "deleted": 1}
        assert await ask(api, "/v1/delete", key="absent") == {"revision": 4, "deleted": 0}
        assert (await ask(api, "/v1/get", key="color", revision=2))["item"] == red
        were = await ask(api, "/v1/range", key="", end="", revision=3, limit=1)
        assert ([item["value"] for item in were["items"]], were["more"], were["revision"]) == (["blue"], True, 4)
        assert await ask(api, "/v1/compact", revision=4) == {"oldest_revision": 4}
        status = (await Client("/v1/status", method="GET").call(api)).json()
        epoch = status.pop("leader_epoch")
        assert (status, epoch > 0) == ({"node_id": 1, "leader_id": 1, "revision": 4, "not_taken_up": []}, True)


async def test_a_change_may_return_what_it_replaced(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        first = await ask(api, "/v1/put", key="a", value="1", previous=True)
        assert first == {"revision": 1, "key": "a", "previous": None}
        item = {"key": "a", "value": "1", "created": 1, "modified": 1, "version": 1, "lease": 0}
        assert (await ask(api, "/v1/put", key="a", value="2", previous=True))["previous"] == item
        gone = await ask(api, "/v1/delete", key="a", previous=True)
        assert gone == {"revision": 3, "deleted": 1, "previous": item | {"value": "2", "modified": 2, "version": 2}}
        assert await ask(api, "/v1/delete", key="a", previous=True) == {"revision": 3, "deleted": 0, "previous": None}


async def test_a_lease_and_a_lock_with_it(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        first, second = [(await ask(api, "/v1/lease/grant", ttl_ms=60_000))["lease"] for _ in range(2)]
        await ask(api, "/v1/put", key="alive", value="", lease=first)
        assert await ask(api, "/v1/lease/keep", lease=first) == {"lease": first}
        held = await ask(api, "/v1/lock", name="tool", lease=first, holder="me")
        assert held == {"held": True, "token": 2, "key": "pykraft/lock/tool/0000000000000002", "ahead": 0}
        assert await ask(api, "/v1/lock", name="tool", lease=first) == held
        waits = await ask(api, "/v1/lock", name="tool", lease=second, wait_ms=0)
        assert (waits["held"], waits["ahead"]) == (False, 1)
        assert await ask(api, "/v1/unlock", name="tool", lease=first) == {"released": True}
        assert await ask(api, "/v1/unlock", name="tool", lease=first) == {"released": False}
        now = await ask(api, "/v1/lock", name="tool", lease=second)
        assert now["held"]
        assert now["token"] > held["token"]
        await ask(api, "/v1/lease/revoke", lease=first)
        assert (await ask(api, "/v1/get", key="alive"))["item"] is None
        for path, body in (
            ("/v1/lease/keep", {}),
            ("/v1/put", {"key": "a", "value": ""}),
            ("/v1/lock", {"name": "tool"}),
        ):
            told = f"lease {first} has ended, or never was"
            assert await refused(api, path, lease=first, **body) == (409, "lease_ended", told)


WRONG: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("/v1/gte", {}, 404, "no_such_path", "there is GET /v1/status, /v1/get, "),
    ("/v1/status", {}, 405, "method_not_allowed", "/v1/status takes GET"),
    ("/v1/get", {}, 400, "invalid", "key is missing"),
    ("/v1/get", {"key": "a", "stael": True}, 400, "invalid", "did you mean stale?"),
    ("/v1/get", {"key": ""}, 400, "invalid", "key of 0 bytes: must have 1 to 1024"),
    ("/v1/put", {"key": "a", "value": "\udcff"}, 400, "invalid", "must be text that UTF-8 can express"),
    ("/v1/txn", {"if": [{"key": "a", "to": "\udcff"}]}, 400, "invalid", "must be text that UTF-8 can express"),
    ("/v1/get", {"key": "\ud800"}, 400, "invalid", "must be text that UTF-8 can express"),
    ("/v1/get", {"key": "a", "revision": 2}, 400, "invalid", "revision = 2: the last change has revision 1"),
    ("/v1/get", {"key": "a", "revision": 0}, 400, "invalid", "revision = 0"),
    ("/v1/delete", {"prefix": "a", "previous": True}, 400, "invalid", "previous: only for one key"),
    (
        "/v1/put",
        {"key": "a", "value": "", "numbered": True, "previous": True},
        400,
        "invalid",
        "previous: only for one",
    ),
    ("/v1/get", {"key": "a", "max_age_ms": 5}, 400, "invalid", "max_age_ms is for stale reads"),
    ("/v1/get", {"key": "a", "timeout_ms": 0}, 400, "invalid", "timeout_ms = 0: it is a whole number from 1 to 30000"),
    ("/v1/range", {"key": "a", "limit": 1_001}, 400, "invalid", "from 1 to 1000"),
    ("/v1/range", {"prefix": "x" * 2_000}, 400, "invalid", "key of 2000 bytes: must have 0 to 1024"),
    ("/v1/put", {"key": "a", "value": "x" * 40_000}, 400, "invalid", f"must have 0 to {VALUE_SIZE_BYTES_MAX}"),
    ("/v1/put", {"key": "a", "base64": "?"}, 400, "invalid", "must be base64 with its padding"),
    ("/v1/put", {"key": "a", "value": "", "lease": 77}, 409, "lease_ended", "lease 77 has ended, or never was"),
    ("/v1/txn", {"if": [{"key": "a", "field": "version", "to": "x"}]}, 400, "invalid", "operand = 'x'"),
    ("/v1/lease/grant", {"ttl_ms": 1}, 400, "invalid", "from 1000 to 86400000"),
    ("/v1/lease/keep", {}, 400, "invalid", "lease is missing"),
    ("/v1/compact", {"revision": 99}, 409, "rejected", "the store is at revision 1, not yet at 99"),
    ("/v1/lock", {"name": "", "lease": 1}, 400, "invalid", "a lock has a name"),
    ("/v1/lock", {"name": "a", "lease": 1, "wait_ms": 30_001}, 400, "invalid", "from 0 to 30000"),
    ("/v1/watch", {"key": "a", "from_revision": 9}, 400, "invalid", "the last change has revision 1"),
    ("/v1/watch", {"key": "a", "from": 1}, 400, "invalid", "there is no field 'from'"),
    ("/v1/watch", {"key": ""}, 400, "invalid", "must have 1 to 1024"),
    ("/v1/watch", {"key": "a", "from_revision": 0}, 400, "invalid", "from_revision = 0"),
]


async def test_no_path_is_open_to_who_is_not_known(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        api._allow = b"Bearer good".__eq__
        for path in (*api._calls, "/v1/status", "/v1/watch", "/v1/gte"):
            for method in ("GET", "POST", "PUT", "HEAD"):
                for shown in ({}, {"authorization": "Bearer bad"}, {"authorization": "Basic Z29vZA=="}):
                    found = await Client(path, method=method, headers=shown).call(api)
                    assert (found.status, "www-authenticate" in found.answer_headers) == (401, True), (path, method)
        known = await Client("/v1/status", method="GET", headers={"authorization": "Bearer good"}).call(api)
        assert (known.status, json.loads(known.text)["revision"]) == (200, 0)


async def test_a_command_of_any_characters_fits_into_a_body_and_back(tmp_path: Path) -> None:
    value = "é" * (VALUE_SIZE_BYTES_MAX // 2)  # two bytes, six in JSON
    async with served(tmp_path) as api:
        await ask(api, "/v1/txn", then=[{"put": {"key": key, "value": value}} for key in "ab"])
        assert [each["value"] for each in (await ask(api, "/v1/range", key="", end=""))["items"]] == [value] * 2


async def test_a_wrong_request_is_refused_with_what_is_allowed(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await ask(api, "/v1/put", key="a", value="b")
        for path, body, status, code, told in WRONG:
            found = await refused(api, path, **body)
            assert found[:2] == (status, code), (path, body, found)
            assert told in found[2], (path, body, found)
        assert (await Client("/v1/status").call(api)).answer_headers["allow"] == "GET"
        got = await Client("/v1/put", method="GET").call(api)
        assert (got.status, got.answer_headers["allow"]) == (405, "POST")
        page = Client("/v1/put", {"key": "a", "value": ""}, headers={"origin": "https://example.org"})
        assert (await page.call(api)).status == 403
        large = await Client("/v1/put", bytes(BODY_SIZE_BYTES_MAX + 1)).call(api)
        assert (large.status, large.answer_headers["connection"]) == (413, "close")
        assert (await Client("/v1/put", b"{").call(api)).status == 400
        assert (await ask(api, "/v1/range", key="", end=""))["revision"] == 1, "none of them changed anything"
        await api({"type": "lifespan"}, None, None)  # type: ignore[arg-type]  # it is not ours


async def test_a_page_of_a_range_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "RANGE_SIZE_BYTES_MAX", 10)

    async with served(tmp_path) as api:
        for key in "abc":
            await ask(api, "/v1/put", key=key, value="x" * 6)
        page = await ask(api, "/v1/range", key="", end="")
        assert ([item["key"] for item in page["items"]], page["more"]) == (["a"], True)
        page = await ask(api, "/v1/range", key="b", end="")
        assert ([item["key"] for item in page["items"]], page["more"]) == (["b"], True)


async def test_an_unknown_outcome_and_a_bug_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = [OutcomeUnknownError("no answer"), ZeroDivisionError("oh")]

    async def execute(self: Any, command: Any, *, timeout_ms: int) -> None:
        assert timeout_ms == 77
        raise errors.pop(0)

    with caplog.at_level(logging.ERROR, logger="pykraft"):
        async with served(tmp_path) as api:
            monkeypatch.setattr(Replicated, "execute", execute)
            for status, told in ((504, "no answer"), (500, "a bug; the node's log has it")):
                client = await Client("/v1/put", {"key": "a", "value": "b", "timeout_ms": 77}).call(api)
                assert client.status == status
                assert (client.json()["error"]["outcome"], client.json()["error"]["message"]) == ("unknown", told)
    assert "ZeroDivisionError: oh" in caplog.text


async def test_a_node_that_has_ended_refuses(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        await ask(api, "/v1/put", key="a", value="b")
    for path in ("/v1/get", "/v1/delete", "/v1/watch"):
        status, code, _ = await refused(api, path, key="a")
        assert (status, code) == (503, "not_running")


async def test_leases_and_programs_hold_a_lock_in_turn_with_growing_tokens(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), KeyValues()) as node:
        store = KeyValueStore(node)
        first, second = [await store.grant_lease(60_000) for _ in range(2)]
        held = await acquire(store, "tool", lease=first, holder="a", wait_s=9)
        assert held.ahead == 0
        program = lock(store, "tool")
        entering = asyncio.ensure_future(program.__aenter__())
        while len(await store.range(*QUEUE)) < 2:
            await store.revision()
        place = await acquire(store, "tool", lease=second, holder="b", wait_s=0)
        assert place.ahead == 2
        assert await release(store, "tool", lease=first)
        inside = await entering
        assert held.token < inside.token < place.token
        waiting = asyncio.ensure_future(acquire(store, "tool", lease=second, holder="b", wait_s=9))
        await program.__aexit__(None, None, None)
        now = await waiting
        assert (now.ahead, now.token, now.key) == (0, place.token, place.key)


async def test_two_requests_of_a_lease_have_one_place(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), KeyValues()) as node:
        store = KeyValueStore(node)
        lease, other = [await store.grant_lease(60_000) for _ in range(2)]
        places = await asyncio.gather(*(acquire(store, "tool", lease=lease, holder="", wait_s=0) for _ in range(5)))
        assert places == [places[0]] * 5
        assert (await acquire(store, "tool", lease=other, holder="", wait_s=0)).ahead == 1
        assert await release(store, "tool", lease=lease)
        assert (await acquire(store, "tool", lease=other, holder="", wait_s=0)).ahead == 0


async def test_calls_that_wait_for_locks_are_bounded_and_end_with_their_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "LOCK_CALLS_MAX", 2)
    async with served(tmp_path) as api:
        leases = [(await ask(api, "/v1/lease/grant", ttl_ms=60_000))["lease"] for _ in range(4)]
        assert (await ask(api, "/v1/lock", name="tool", lease=leases[0]))["held"]
        clients = [Client("/v1/lock", {"name": "tool", "lease": lease, "wait_ms": 30_000}) for lease in leases[1:3]]
        calls = [asyncio.create_task(client.call(api)) for client in clients]
        watches = api._node.machine.watches
        while len(watches) < 2:
            await ask(api, "/v1/get", key="tool")
        fields = {"name": "tool", "lease": leases[3], "wait_ms": 0}
        busy = "2 calls of this node wait for locks: ask another node"
        assert await refused(api, "/v1/lock", **fields) == (503, "busy", busy)
        for client in clients:
            client.left.set()
        await asyncio.wait(calls)
        assert [client.status for client in clients] == [0, 0], "nobody is there to hear an answer"
        assert (len(watches), api._lock_calls) == (0, 0)
        assert (await ask(api, "/v1/lock", **fields))["ahead"] == 3, "they have their places still"


async def test_a_lease_that_ends_loses_its_place(tmp_path: Path) -> None:
    async with Replicated(alone(tmp_path), KeyValues()) as node:
        store = KeyValueStore(node)
        first, second = [await store.grant_lease(60_000) for _ in range(2)]
        await acquire(store, "tool", lease=first, holder="", wait_s=0)
        waiting = asyncio.ensure_future(acquire(store, "tool", lease=second, holder="", wait_s=9))
        while len(await store.range(*QUEUE)) < 2:
            await store.revision()
        await store.end_lease(second)
        await store.end_lease(first)
        with pytest.raises(CommandRejectedError, match=f"lease {second} has ended"):
            await waiting
        with pytest.raises(CommandRejectedError, match=f"lease {second} has ended"):
            await acquire(store, "tool", lease=second, holder="", wait_s=0)
        assert not await release(store, "tool", lease=second)


async def test_names_and_queues_are_bounded_and_longer_names_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "QUEUE_MAX", 1)

    async with Replicated(alone(tmp_path), KeyValues()) as node:
        store = KeyValueStore(node)
        first, second = [await store.grant_lease(60_000) for _ in range(2)]
        assert (await acquire(store, "a/b", lease=first, holder="", wait_s=0)).ahead == 0
        assert (await acquire(store, "a", lease=first, holder="", wait_s=0)).ahead == 0
        with pytest.raises(CommandRejectedError, match="1 candidates wait"):
            await acquire(store, "a", lease=second, holder="", wait_s=0)
        with pytest.raises(UsageError, match="a lock has a name"):
            await acquire(store, "", lease=second, holder="", wait_s=0)


def begun(api: KeyValueApi, **body: Any) -> tuple[Client, asyncio.Task[Client]]:
    client = Client("/v1/watch", body)
    return client, asyncio.get_running_loop().create_task(client.call(api))


async def over(task: asyncio.Task[Client], client: Client) -> None:
    client.left.set()
    await task


async def test_a_watch_delivers_old_and_new_changes_of_its_range(tmp_path: Path) -> None:
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


async def test_silence_is_filled_with_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "SIGN_OF_LIFE_S", 0.01)

    async with served(tmp_path) as api:
        client, watching = begun(api, key="a")
        assert await client.until_lines(3) == [{"from_revision": 1}, {}, {}]
        await over(watching, client)


async def test_a_watch_of_compacted_changes_ends_with_the_oldest_revision(tmp_path: Path) -> None:
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


async def test_the_end_of_the_node_is_the_last_line(tmp_path: Path) -> None:
    async with served(tmp_path) as api:
        client, watching = begun(api, key="a")
        await client.until_lines(1)
        api.close()
        await watching
        assert client.is_complete
        assert client.lines()[1]["error"]["code"] == "not_running"


async def test_a_client_that_reads_nothing_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_unread(api: KeyValueApi) -> None:
        put = Client("/v1/put", {"key": "a", "value": "b"})
        await put.call(api)
        assert put.status == 200

    async with served(tmp_path) as api:
        client, watching = begun(api, key="a")
        await client.until_lines(1)
        client.reads.clear()
        monkeypatch.setattr(api_module, "WRITE_TIMEOUT_S", 0.01)
        await ask_unread(api)
        await watching
        assert client.is_aborted
        assert not client.is_complete
        assert api._watches._count == 0


async def test_there_are_so_many_watches_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "WATCHES_MAX", 1)

    async with served(tmp_path) as api:
        client, watching = begun(api, key="a")
        await client.until_lines(1)
        assert (await refused(api, "/v1/watch", key="a"))[:2] == (503, "busy")
        await over(watching, client)
        client, watching = begun(api, key="a")
        await client.until_lines(1)
        await over(watching, client)


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
