"""The load: its leader is killed and restarted; a node that ends by itself ends the load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.demo.load import DemoLoad
from lab.demo.options import DemoOptions
from lab.demo.start import start_cluster
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from tests.lab.demo.fakes import ALONE, FakeTables, Lines

pytestmark = pytest.mark.spark


def load(children: Children, folder: Path, options: DemoOptions, told: Lines) -> tuple[DemoLoad, FakeTables]:
    cluster, _ = start_cluster(children, folder, options, told)
    tables: Any = FakeTables()
    return DemoLoad(cluster=cluster, tables=tables, options=options, folder=folder, tell=told), tables


def test_a_node_that_ends_by_itself_ends_the_demo(told: Lines, children: Children, tmp_path: Path) -> None:
    given, _ = load(children, tmp_path, ALONE, told)
    given.cluster.nodes[1].process.kill()
    with pytest.raises(LocalQuorumError, match="node 1 ended on its own with status -9"):
        given.run()


def test_a_stream_that_ends_ends_the_demo(told: Lines, children: Children, tmp_path: Path) -> None:
    given, tables = load(children, tmp_path, ALONE, told)
    tables.error = LocalQuorumError("the stream cannot continue")
    with pytest.raises(LocalQuorumError, match="the stream cannot continue"):
        given.run()


def test_a_load_that_waits_for_spark_says_so(told: Lines, children: Children, tmp_path: Path) -> None:
    given, tables = load(children, tmp_path, ALONE, told)
    tables.first_at = 6  # in the second half
    given.run()
    assert told.stages[-1:] == ["waiting for Spark to start; until then the load goes on, up to 60 s longer than 2 s"]
    assert told.passing[0].endswith(" acknowledged, waiting for Spark to start")
    assert told.passing[-1].endswith(" in the tables, micro-batch 0 took 1,234 ms")
    assert given.seconds > 2


def test_a_leader_that_is_killed_is_replaced_and_comes_back(told: Lines, children: Children, tmp_path: Path) -> None:
    options = DemoOptions(nodes=3, seconds=2, throughput=100, record_size_bytes=20, kill_leader=True)
    given, _ = load(children, tmp_path, options, told)
    given.run()
    kill = given.kill
    assert kill is not None
    assert kill.killed_wall_ms < kill.elected_wall_ms
    assert kill.failover_ms > 0
    assert kill.restarted_wall_ms is not None
    assert kill.leader_id != kill.node_id
    assert kill.epoch > 1
    assert given.seconds >= 2
    assert told.stages[-3:] == [
        f"node {kill.node_id} was killed with kill -9",
        f"node {kill.leader_id} leads epoch {kill.epoch} and acknowledges, {kill.failover_ms:,} ms later",
        f"node {kill.node_id} is restarted",
    ]
    end_offset = given.end()
    assert end_offset == given.cluster.journal.end_offset
    assert {node.process.status for node in given.cluster.nodes.values()} == {None}
