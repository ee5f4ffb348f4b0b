"""Ports are free, below the range of the system, and nobody else's."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ports
from tests.processes.ports import HOST, PORT_END, PORT_MIN, free_ports


def test_ports_differ_from_call_to_call_and_can_be_bound() -> None:
    chosen = [*free_ports(3), *free_ports(4)]
    assert len(set(chosen)) == 7
    for port in chosen:
        assert PORT_MIN <= port < PORT_END
        with socket.create_server((HOST, port)):
            pass


def test_a_port_that_is_listened_on_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    (taken,) = free_ports(1)
    monkeypatch.setattr(ports, "_held", {})
    monkeypatch.setattr(ports, "PORT_MIN", taken)
    monkeypatch.setattr(ports, "PORT_END", taken + 1)
    monkeypatch.setattr(ports, "_TRIES_MAX", 1)
    with pytest.raises(RuntimeError, match="0 of the 1 needed"):
        free_ports(1)


def test_a_port_of_another_test_run_is_not_chosen_though_nobody_listens_on_it() -> None:
    code = "import sys; from tests.processes import ports;print(ports._hold(ports.lock_folder(), int(sys.argv[1])))"
    (mine,) = free_ports(1)
    root = Path(__file__).resolve().parents[2]
    run = subprocess.run([sys.executable, "-c", code, str(mine)], cwd=root, capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"
