"""``pykraft kv get``, ``put`` and ``del``: what they ask, what they print, and their errors."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.kv import command as items_module
from pykraft.cli.kv.command import kv
from pykraft.errors import OutcomeUnknownError, PykraftError, UsageError
from tests.kv.scripted_node import Answer, ScriptedNode, error, scripted


def call(node: ScriptedNode, *words: str, data: bytes | None = None) -> Result:
    return CliRunner().invoke(kv, [words[0], "--url", node.url, *words[1:]], input=data)


def item(key: str, value: bytes) -> dict[str, Any]:
    try:
        return {"key": key, "value": value.decode()}
    except UnicodeDecodeError:
        return {"key": key, "base64": base64.b64encode(value).decode()}


def range_of(*found: dict[str, Any]) -> Answer:
    return 200, {"revision": 9, "items": list(found), "more": False}


@pytest.mark.parametrize(
    ("words", "value", "shown"),
    [
        ((), b"red", b"red\n"),
        ((), b"r\x1b[2Jd\xff", b"r\\x1b[2Jd\\xff\n"),
        (("--raw",), b"r\x1b[2Jd\xff", b"r\x1b[2Jd\xff"),
    ],
)
def test_a_value_is_printed(words: Sequence[str], value: bytes, shown: bytes) -> None:
    with scripted(lambda path, body: range_of(item("color", value))) as node:
        result = call(node, "get", "color", *words)
        assert result.exit_code == 0, result.exception
        assert result.stdout_bytes == shown
        [(path, body)] = node.asked
        assert (path, body["key"], body["stale"]) == ("/v1/range", "color", False)


def test_a_missing_key_is_an_error_and_an_empty_prefix_is_not() -> None:
    with scripted(lambda path, body: range_of()) as node:
        result = call(node, "get", "a\nb", "--stale")
        assert isinstance(result.exception, PykraftError)
        assert str(result.exception) == "there is no key 'a\\nb'"
        assert node.asked[0][1]["stale"] is True
        assert call(node, "get", "a", "--prefix").stdout == ""
        assert json.loads(call(node, "get", "a", "--json").stdout) == {"revision": 9, "items": [], "more": False}


def test_a_prefix_is_read_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items_module, "PAGE", 2)
    keys = [f"a/{number}" for number in range(5)]

    def answer(path: str, body: dict[str, Any]) -> Answer:
        left = [key for key in keys if key >= body.get("key", "")]
        found = left[: body["limit"]]
        return 200, {"revision": 9, "items": [item(key, b"\t") for key in found], "more": len(found) < len(left)}

    with scripted(answer) as node:
        result = call(node, "get", "a/", "--prefix")
        assert result.stdout == "".join(f"{key}\t\\t\n" for key in keys)
        assert [body.get("end") for _, body in node.asked] == [None, "a0", "a0"]
        cut = call(node, "get", "a/", "--prefix", "--limit", "3")
        assert cut.stdout.count("\n") == 3
        assert cut.stderr == "pykraft: there are more than 3 keys: give a higher --limit\n"
        told = json.loads(call(node, "get", "a/", "--prefix", "--limit", "3", "--json").stdout)
        assert (len(told["items"]), told["more"]) == (3, True)


def test_a_value_is_text_or_standard_input() -> None:
    with scripted(lambda path, body: (200, {"revision": 4, "key": "a"})) as node:
        assert call(node, "put", "a", "b", "--lease", "7").stdout == "revision 4\n"
        told = call(node, "put", "a", "-", "--json", data=b"\xff\n")
        assert json.loads(told.stdout) == {"revision": 4, "key": "a"}
        assert [(body.get("value"), body.get("base64"), body.get("lease")) for _, body in node.asked] == [
            ("b", None, 7),
            (None, "/wo=", None),
        ]


def test_keys_are_deleted() -> None:
    with scripted(lambda path, body: (200, {"revision": 4, "deleted": 1})) as node:
        assert call(node, "del", "a").stdout == "deleted 1 key\n"
        assert json.loads(call(node, "del", "a", "--prefix", "--json").stdout) == {"revision": 4, "deleted": 1}
        assert [body.get("prefix") for _, body in node.asked] == [None, "a"]


def test_errors_are_told_as_they_are() -> None:
    with scripted(lambda path, body: (504, error("unknown", "unknown"))) as node:
        assert isinstance(call(node, "put", "a", "b").exception, OutcomeUnknownError)
    with scripted(lambda path, body: (400, error("invalid"))) as node:
        assert isinstance(call(node, "put", "", "b").exception, UsageError)
        assert isinstance(call(node, "get", "a", "--raw", "--json").exception, UsageError)
