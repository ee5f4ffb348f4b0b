"""``pykraft kv serve``: options, without a node; `tests/processes/test_kv.py` runs nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.kv import command as module
from pykraft.cli.kv.command import serve
from pykraft.kv import service
from pykraft.types import Endpoint


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests need no server."""
    monkeypatch.setattr("pykraft.kv.service.require_package", lambda: None)


def call(*words: str) -> Result:
    return CliRunner().invoke(serve, words)


def test_a_node_has_the_file_and_what_overrides_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr(module, "_serve", lambda config, at, skip: served.append((config, at, skip)))
    path = tmp_path / "server.properties"
    path.write_text(
        "node.id=1\nlisteners=CONTROLLER://127.0.0.1:9093\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    result = call(
        "--config",
        str(path),
        "--http",
        "[::1]:81",
        "--override",
        "node.id=1",
        "--cluster-id",
        "mine",
        "--skip-offset",
        "4",
    )
    assert result.exit_code == 0, result.exception
    [(config, at, skip)] = served
    assert (config.node_id, config.cluster_id, at, skip) == (1, "mine", Endpoint("::1", 81), (4,))


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--http", "80"), "--http '80': give one host:port"),
        (("--http", "a:1,b:2"), "give one host:port"),
        (("--override", "a=b"), "--override, --cluster-id and --skip-offset need --config"),
        (("--skip-offset", "4"), "--override, --cluster-id and --skip-offset need --config"),
        (("--cluster-id", "a"), "--override, --cluster-id and --skip-offset need --config"),
        (("--config", "x", "--nodes", "3"), "--nodes and --config"),
        (("--config", "absent"), "--config absent: No such file"),
        (("--http", "localhost:65535"), "ports are needed up to 65537"),
    ],
)
def test_wrong_options_are_told(words: Sequence[str], told: str) -> None:
    result = call(*words)
    assert result.exit_code != 0
    assert told in str(result.exception)


def test_without_a_file_nodes_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    class Running:
        name, pid = "node 1", 77

    def try_quorum(nodes: int, first: Endpoint, *, show: Any, tell: Any) -> None:
        assert nodes == 1
        show([(first, Running)])
        tell("node 1 ended with -9; 0 of 1 are left")

    monkeypatch.setattr(service, "try_quorum", try_quorum)
    result = call("--nodes", "1", "--http", "localhost:7000")
    assert result.exit_code == 0, result.exception
    assert result.stdout.startswith("node 1: http://localhost:7000, process 77\n")
    assert "  pykraft kv put --url http://localhost:7000 color red\n" in result.stdout
    assert result.stderr == "pykraft: node 1 ended with -9; 0 of 1 are left\n"
