"""Nodes to try the store: what their status is, and their ends. `tests/processes/test_kv.py` starts real ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import LocalQuorumError
from pykraft.kv import trial
from pykraft.kv.trial import http_addresses, serve_command, status_of, try_quorum
from pykraft.types import Endpoint
from tests.kv.scripted_node import scripted


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
    monkeypatch.setattr(trial, "serve_command", python("import sys; print('x'); sys.exit('pykraft: no room')"))
    with pytest.raises(LocalQuorumError, match="node 1 ended with 1: pykraft: no room"):
        try_quorum(1, Endpoint("127.0.0.1", 9), show=lambda _: None, tell=lambda _: None)


def test_each_end_is_told_and_the_last_one_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "serve_command", python("import time; time.sleep(600)"))
    monkeypatch.setattr(trial, "status_of", lambda address: {"leader_id": 1})
    told: list[str] = []
    folders: list[Path] = []

    def show(running: Sequence[Any]) -> None:
        assert [str(address) for address, _ in running] == ["127.0.0.1:7000", "127.0.0.1:7001"]
        for _, child in running:
            folders.append(child.log_path.parent.parent)
            child.kill()

    with pytest.raises(LocalQuorumError, match="all nodes have ended"):
        try_quorum(2, Endpoint("127.0.0.1", 7_000), show=show, tell=told.append)
    assert sorted(told)[:1] == ["node 1 ended with -9; 1 of 2 are left"]
    assert not folders[0].exists()
