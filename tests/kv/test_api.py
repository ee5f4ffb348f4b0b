"""The API of a node, called as an ASGI server calls it: every path, and every kind of wrong request."""

from __future__ import annotations

import base64
import logging
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import OutcomeUnknownError
from pykraft.kv import api as api_module
from pykraft.kv.exchange import BODY_SIZE_BYTES_MAX
from pykraft.machine import Replicated
from pykraft.recipes.key_value_commands import VALUE_SIZE_BYTES_MAX
from tests.client.nodes import run
from tests.kv.asgi import Client, ask, refused, served


def test_items_are_put_read_compared_and_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            assert await ask(api, "/v1/put", key="color", value="red") == {"revision": 1, "key": "color"}
            raw = base64.b64encode(b"\xff\0").decode()
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
            assert await ask(api, "/v1/compact", revision=4) == {"oldest_revision": 4}
            status = (await Client("/v1/status", method="GET").call(api)).json()
            assert status == {"node_id": 1, "leader_id": 1, "leader_epoch": status["leader_epoch"], "revision": 4}

    run(main)


def test_a_lease_and_a_lock_with_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            first, second = [(await ask(api, "/v1/lease/grant", ttl_ms=60_000))["lease"] for _ in range(2)]
            await ask(api, "/v1/put", key="alive", value="", lease=first)
            assert await ask(api, "/v1/lease/keep", lease=first) == {"lease": first}
            held = await ask(api, "/v1/lock", name="tool", lease=first, holder="me")
            assert held == {"held": True, "token": 2, "key": "tool/0000000000000002", "ahead": 0}
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

    run(main)


WRONG: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("/v1/gte", {}, 404, "no_such_path", "there is GET /v1/status, /v1/get, "),
    ("/v1/status", {}, 405, "method_not_allowed", "/v1/status takes GET"),
    ("/v1/get", {}, 400, "invalid", "key is missing"),
    ("/v1/get", {"key": "a", "stael": True}, 400, "invalid", "did you mean stale?"),
    ("/v1/get", {"key": ""}, 400, "invalid", "key of 0 bytes: must have 1 to 1024"),
    ("/v1/get", {"key": "\ud800"}, 400, "invalid", "must be text that UTF-8 can express"),
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


def test_a_wrong_request_is_refused_with_what_is_allowed(tmp_path: Path) -> None:
    async def main() -> None:
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

    run(main)


def test_a_page_of_a_range_has_a_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_module, "RANGE_SIZE_BYTES_MAX", 10)

    async def main() -> None:
        async with served(tmp_path) as api:
            for key in "abc":
                await ask(api, "/v1/put", key=key, value="x" * 6)
            page = await ask(api, "/v1/range", key="", end="")
            assert ([item["key"] for item in page["items"]], page["more"]) == (["a"], True)
            page = await ask(api, "/v1/range", key="b", end="")
            assert ([item["key"] for item in page["items"]], page["more"]) == (["b"], True)

    run(main)


def test_an_unknown_outcome_and_a_bug_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[Exception] = [OutcomeUnknownError("no answer"), ZeroDivisionError("oh")]

    async def execute(self: Any, command: Any, *, timeout_ms: int) -> None:
        assert timeout_ms == 77
        raise errors.pop(0)

    async def main() -> None:
        async with served(tmp_path) as api:
            monkeypatch.setattr(Replicated, "execute", execute)
            for status, told in ((504, "no answer"), (500, "a bug; the node's log has it")):
                client = await Client("/v1/put", {"key": "a", "value": "b", "timeout_ms": 77}).call(api)
                assert client.status == status
                assert (client.json()["error"]["outcome"], client.json()["error"]["message"]) == ("unknown", told)

    with caplog.at_level(logging.ERROR, logger="pykraft"):
        run(main)
    assert "ZeroDivisionError: oh" in caplog.text


def test_a_node_that_has_ended_refuses(tmp_path: Path) -> None:
    async def main() -> None:
        async with served(tmp_path) as api:
            await ask(api, "/v1/put", key="a", value="b")
        for path in ("/v1/get", "/v1/delete", "/v1/watch"):
            status, code, _ = await refused(api, path, key="a")
            assert (status, code) == (503, "not_running")

    run(main)
