"""A voter's properties name its listener, its log directory and the quorum; ports are free and not shared by runs."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pykraft.config.properties import node_config, parse_properties
from pykraft.errors import LocalQuorumError
from pykraft.local import voters
from pykraft.local.voters import (
    HOST,
    PORT_END,
    PORT_MIN,
    SOURCES,
    free_ports,
    joiner_properties,
    voter_properties,
    write_properties,
)
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


def test_ports_differ_from_call_to_call_and_can_be_bound() -> None:
    chosen = [*free_ports(3), *free_ports(4)]
    assert len(set(chosen)) == 7
    for port in chosen:
        assert PORT_MIN <= port < PORT_END
        with socket.create_server((HOST, port)):
            pass


def test_a_port_that_is_listened_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(voters, "_held", {})
    monkeypatch.setattr(voters, "PORT_MIN", port)
    monkeypatch.setattr(voters, "PORT_END", port + 1)
    monkeypatch.setattr(voters, "_TRIES_MAX", 1)
    with socket.create_server((HOST, port)), pytest.raises(LocalQuorumError, match="0 of 1 were free"):
        free_ports(1)


def test_a_port_of_another_run_is_not_chosen_though_nobody_listens_on_it() -> None:
    code = (
        "import sys; from pykraft.local import voters; voters.PORT_MIN = int(sys.argv[1]);"
        "voters.PORT_END = voters.PORT_MIN + 1; voters._TRIES_MAX = 1; voters.free_ports(1)"
    )
    (mine,) = free_ports(1)
    command = [sys.executable, "-c", code, str(mine)]
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "0 of 1 were free" in run.stderr
