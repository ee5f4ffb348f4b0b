"""A voter's properties name the voter, its listener, its log directory and the whole quorum."""

from __future__ import annotations

from pathlib import Path

from pykraft.config.properties import node_config
from pykraft.config.properties_format import parse_properties
from pykraft.local.voters import joiner_properties, voter_properties, write_properties
from pykraft.types import Endpoint


def test_the_properties_are_those_of_a_node_of_a_static_quorum(tmp_path: Path) -> None:
    ports = {1: 15_001, 2: 15_002}
    extra = {"controller.quorum.fetch.timeout.ms": "700"}
    path = write_properties(tmp_path / "p", voter_properties(tmp_path / "data", node_id=2, ports=ports, extra=extra))
    parsed = node_config(parse_properties(path.read_text()))
    assert parsed.warnings == ()
    assert parsed.config.node_id == 2
    assert parsed.config.log_dir == tmp_path / "data"
    assert parsed.config.voters.ids == (1, 2)
    assert parsed.config.raft.fetch_timeout_ms == 700
    assert [endpoint.port for _, endpoint in parsed.config.listeners] == [15_002]


def test_a_joiner_names_nobody_but_where_the_quorum_is_found(tmp_path: Path) -> None:
    bootstrap = [Endpoint("127.0.0.1", 15_001), Endpoint("::1", 15_002)]
    extra = {"controller.quorum.auto.join.enable": "true"}
    values = joiner_properties(tmp_path / "data", node_id=4, port=15_004, bootstrap=bootstrap, extra=extra)
    parsed = node_config(parse_properties(write_properties(tmp_path / "p", values).read_text()))
    assert parsed.warnings == ()
    assert parsed.config.voters.ids == ()
    assert parsed.config.bootstrap_servers == tuple(bootstrap)
    assert parsed.config.raft.auto_join
    assert [endpoint.port for _, endpoint in parsed.config.listeners] == [15_004]
