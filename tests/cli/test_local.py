"""``pykraft local``: what it prints, asks and answers; the processes are in tests/local/test_background_quorum.py."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykraft.cli.local import as_json_object, headline, local, next_lines, table_lines
from pykraft.errors import UsageError
from pykraft.local import background_quorum
from pykraft.local.background_quorum import LocalNode, LocalQuorum
from pykraft.local.quorum_folder import QuorumFolder
from pykraft.types import Endpoint


def quorum(path: Path) -> LocalQuorum:
    nodes = tuple(
        LocalNode(
            node_id=node_id,
            endpoint=Endpoint("127.0.0.1", 20_000 + node_id),
            pid=pid,
            role=role,
            log_end_offset=end,
            log_path=path / f"n{node_id}/node.log",
            config_path=path / f"n{node_id}/server.properties",
        )
        for node_id, pid, role, end in ((1, 41, "leader", 1_234_567), (2, 42, "unknown", None), (3, None, "down", 7))
    )
    folder = QuorumFolder(path=path, cluster_id="c", ports={1: 20_001, 2: 20_002, 3: 20_003})
    return LocalQuorum(folder=folder, leader_id=1, epoch=4, high_watermark=8, nodes=nodes)


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalQuorum:
    """What stands for the processes; commands run in its folder."""
    monkeypatch.chdir(tmp_path)
    running = quorum(tmp_path / "q")
    monkeypatch.setattr(background_quorum, "bring_up", brought_up(running))
    monkeypatch.setattr(background_quorum, "status_of", lambda *_: running)
    return running


def brought_up(running: LocalQuorum) -> Callable[..., LocalQuorum]:
    def bring_up(*_: object, show: Callable[[LocalQuorum], None], **__: object) -> LocalQuorum:
        show(running)
        return running

    return bring_up


def invoke(*words: str) -> Any:
    return CliRunner().invoke(local, list(words))


def test_a_quorum_is_shown(running: LocalQuorum) -> None:
    assert headline(running) == "2 of 3 nodes up, node 1 leads epoch 4, committed up to offset 8"
    without = replace(running, leader_id=None, epoch=None, high_watermark=None)
    assert headline(without) == "2 of 3 nodes up, no node leads"
    assert table_lines(running) == [
        "NODE  STATE  PID  ROLE     EPOCH    LOG END  ENDPOINT",
        "   1  up      41  leader       4  1,234,567  127.0.0.1:20001",
        "   2  up      42  unknown      -          -  127.0.0.1:20002",
        "   3  down     -  down         -          7  127.0.0.1:20003",
        "",
        "log of node 1: q/n1/node.log",
        "log of node 2: q/n2/node.log",
        "log of node 3: q/n3/node.log",
    ]
    assert not running.is_whole


def test_a_narrow_terminal_gets_a_block_for_each_node(running: LocalQuorum, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.cli.local.terminal_width", lambda: 40)
    lines = table_lines(running)
    assert lines[:3] == ["NODE: 1", "  STATE: up", "  PID: 41"]
    assert max(map(len, lines)) <= 40


def test_what_to_type_next_has_the_ports_and_the_folder(running: LocalQuorum) -> None:
    bootstrap = "127.0.0.1:20001,127.0.0.1:20002,127.0.0.1:20003"
    lines = next_lines(running, Path("a b"))
    assert sum(bootstrap in line for line in lines) == 3
    assert "  pykraft local down --dir 'a b'" in lines
    assert "  pykraft local down" in next_lines(running, Path("pykraft-local"))


def test_up_and_status_exit_with_1_unless_all_is_well(running: LocalQuorum, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(running, nodes=running.nodes[:2])
    for words in (("up",), ("status",), ("up", "--json"), ("status", "--json")):
        monkeypatch.setattr(background_quorum, "bring_up", brought_up(running))
        monkeypatch.setattr(background_quorum, "status_of", lambda *_: running)
        assert invoke(*words).exit_code == 1
        monkeypatch.setattr(background_quorum, "bring_up", brought_up(whole))
        monkeypatch.setattr(background_quorum, "status_of", lambda *_: whole)
        done = invoke(*words)
        assert done.exit_code == 0
        if "--json" in words:
            assert json.loads(done.stdout) == as_json_object(whole)
            assert json.loads(done.stdout)["nodes"][0]["logEndOffset"] == 1_234_567
        else:
            assert done.stdout.startswith("2 of 2 nodes up")


def test_a_wait_of_no_seconds_is_refused(running: LocalQuorum) -> None:
    assert str(invoke("up", "--timeout", "0").exception) == "--timeout 0: give more than 0 seconds"


def test_files_are_removed_only_after_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    QuorumFolder.create(tmp_path, node_count=1)
    calls: list[bool] = []

    def take_down(path: Path, *, delete: bool, report: Any) -> tuple[int, list[Path]]:
        calls.append(delete)
        return (len(calls) - 1, [tmp_path / "mine"] if delete else [])

    monkeypatch.setattr(background_quorum, "take_down", take_down)
    where = ("down", "--dir", str(tmp_path))
    assert str(invoke(*where, "--yes").exception) == "--yes needs --delete"
    refused = invoke(*where, "--delete")
    assert isinstance(refused.exception, UsageError)
    assert "give --yes, too" in str(refused.exception)
    assert calls == []
    assert invoke(*where).stdout == f"no node was running; the files stay in {tmp_path}\n"
    done = invoke(*where, "--delete", "--yes")
    assert done.stdout == f"stopped 1 node; removed the files in {tmp_path}\n"
    assert done.stderr == f"pykraft: kept files that pykraft did not create: {tmp_path / 'mine'}\n"
    assert calls == [False, True]
