"""``pykraft kv watch``: lines and JSON lines, and where it stops.

Options that the commands of ``pykraft kv`` share.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.kv.command import URLS, client_of, put, wanted_range, watch
from pykraft.errors import CompactedError, UsageError
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


def test_the_default_nodes_are_those_of_serve() -> None:
    assert client_of(URLS, 1)._nodes == [(False, "127.0.0.1", port) for port in (7080, 7081, 7082)]
    with pytest.raises(UsageError, match="give 1 to 15 addresses"):
        client_of(" , ", 1)


def test_the_environment_may_name_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda path, body: (200, {"revision": 4})) as node:
        monkeypatch.setenv("PYKRAFT_KV_URL", f" {node.url} ,")
        assert CliRunner().invoke(put, ["a", "b"]).stdout == "revision 4\n"


def test_a_range_is_a_key_or_a_prefix() -> None:
    assert wanted_range("a", is_prefix=False) == {"key": "a"}
    assert wanted_range("a", is_prefix=True) == {"prefix": "a"}
