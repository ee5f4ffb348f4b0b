"""Peers whose process has ended: a refused connection, and an idle one that ends during a shutdown.

Source: ours (ADR 045).
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.core.events import ConnectionLost
from tests.host.test_peers import Desk, failed
from tests.rpc.test_connection import vote_answer


def test_the_core_learns_that_nobody_listens_where_a_peer_should_be() -> None:
    desk = Desk()
    correlation_id = desk.send()
    desk.peers.on_closed(desk.ports.dialed[0][0], is_refused=True)
    assert desk.events() == [replace(failed(correlation_id), is_refused=True)]


@pytest.mark.parametrize("is_shutting_down", [False, True])
def test_an_idle_connection_that_ends_is_told_during_a_shutdown_only(is_shutting_down: bool) -> None:
    desk = Desk()
    desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    desk.events()
    if is_shutting_down:
        desk.peers.begin_shutdown()
    desk.peers.on_closed(connection)
    assert desk.events() == ([ConnectionLost(peer_id=2)] if is_shutting_down else [])
