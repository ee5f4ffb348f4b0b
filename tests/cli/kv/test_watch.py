"""``pykraft kv watch``: lines and JSON lines, and where it stops."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from pykraft.cli.kv.watch import watch
from pykraft.errors import CompactedError
from tests.kv.scripted_node import ScriptedNode, error, scripted

PUT = {"revision": 3, "key": "a\n", "item": {"key": "a\n", "base64": "/w=="}}
DELETED = {"revision": 4, "key": "a", "item": None}


def call(node: ScriptedNode, *words: str) -> Result:
    return CliRunner().invoke(watch, ["--url", node.url, *words])


def test_each_change_is_a_line() -> None:
    with scripted(lambda path, body: [{"from_revision": 3}, PUT, {}, DELETED]) as node:
        result = call(node, "a", "--prefix", "--from", "3", "--max-changes", "2")
        assert result.exit_code == 0, result.exception
        assert result.stdout == "3\tput\ta\\n\t\\xff\n4\tdelete\ta\n"
        assert node.asked == [("/v1/watch", {"prefix": "a", "from_revision": 3})]
        told = call(node, "a", "--max-changes", "2", "--json").stdout.splitlines()
        assert [json.loads(line) for line in told] == [PUT, DELETED]


def test_compacted_changes_are_an_error() -> None:
    with scripted(lambda path, body: (410, error("compacted", oldest_revision=9))) as node:
        assert isinstance(call(node, "a", "--from", "3").exception, CompactedError)
