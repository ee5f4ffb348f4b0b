"""The demo avoids ports that another program took, and reports a node that does not start."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.demo.start import PORT_IS_TAKEN, START_TRIES_MAX, start_cluster
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.ports import HOST, free_ports
from tests.lab.demo.fakes import ALONE, Lines

pytestmark = pytest.mark.spark


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody listens on."""
    with socket.create_server((HOST, free_ports(1)[0])) as server:
        yield server.getsockname()[1]


def test_a_port_that_was_taken_is_tried_no_more(
    told: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ports = iter([[taken]])
    monkeypatch.setattr("pykraft.local.cluster.free_ports", lambda count: next(ports, None) or free_ports(count))
    cluster, leader = start_cluster(children, tmp_path, ALONE, told)
    assert (leader.node, len(cluster.nodes)) == (1, 1)
    assert cluster.nodes[1].port != taken
    assert told.stages == ["another process took a port; restarting on other ports"]


def test_ports_that_are_always_taken_end_the_demo(
    told: Lines, children: Children, taken: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("pykraft.local.cluster.free_ports", lambda _: [taken])
    with pytest.raises(LocalQuorumError, match=r"node 1 ended on its own with status 1: .* cannot be bound"):
        start_cluster(children, tmp_path, ALONE, told)
    assert len(told.stages) == START_TRIES_MAX - 1
    assert PORT_IS_TAKEN in children.log_ends()
