"""Options that the commands of ``pykraft kv`` share."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pykraft.cli.kv.items import put
from pykraft.cli.kv.options import URLS, client_of, wanted_range
from pykraft.errors import UsageError
from tests.kv.scripted_node import scripted


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
