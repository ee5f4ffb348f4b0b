"""Ports are free, below the system's range, and not shared between runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from pykraft.errors import LocalQuorumError
from pykraft.local import ports
from pykraft.local.cluster import SOURCES
from pykraft.local.ports import HOST, PORT_END, PORT_MIN, free_ports


def test_ports_differ_from_call_to_call_and_can_be_bound() -> None:
    chosen = [*free_ports(3), *free_ports(4)]
    assert len(set(chosen)) == 7
    for port in chosen:
        assert PORT_MIN <= port < PORT_END
        with socket.create_server((HOST, port)):
            pass


def test_a_port_that_is_listened_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(ports, "_held", {})
    monkeypatch.setattr(ports, "PORT_MIN", port)
    monkeypatch.setattr(ports, "PORT_END", port + 1)
    monkeypatch.setattr(ports, "_TRIES_MAX", 1)
    with socket.create_server((HOST, port)), pytest.raises(LocalQuorumError, match="0 of 1 were free"):
        free_ports(1)


def test_a_port_of_another_run_is_not_chosen_though_nobody_listens_on_it() -> None:
    code = (
        "import sys; from pykraft.local import ports; ports.PORT_MIN = int(sys.argv[1]);"
        "ports.PORT_END = ports.PORT_MIN + 1; ports._TRIES_MAX = 1; ports.free_ports(1)"
    )
    (mine,) = free_ports(1)
    command = [sys.executable, "-c", code, str(mine)]
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "0 of 1 were free" in run.stderr
