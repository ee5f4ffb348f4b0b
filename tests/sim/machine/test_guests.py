"""Connections of a program's own in a simulated process: they end with it, and the host hears nothing of them."""

from __future__ import annotations

from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.connection import DialedConnection
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import Endpoint
from tests.sim.worlds import run_for, run_until, started_world


class Story:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def connected(self) -> None:
        self.heard.append("connected")

    def closed(self) -> None:
        self.heard.append("closed")

    def received(self, frame: bytes) -> None:
        self.heard.append(frame)


def test_a_guest_asks_another_node_and_hears_of_its_end() -> None:
    world, story, wire = started_world(), Story(), DialedConnection("guest")
    process = world.nodes[1].process
    assert process is not None
    endpoint = world.nodes[2].config.advertised_listeners.get(LISTENER)
    assert endpoint is not None
    connection = process.guests.dial(story, endpoint)
    run_until(world, lambda: story.heard == ["connected"])
    process.guests.send(connection, wire.negotiate())
    run_until(world, lambda: len(story.heard) == 2)
    answer = story.heard[1]
    assert isinstance(answer, bytes)
    wire.negotiated(answer)
    assert wire.offers_key(ApiKey.FETCH)
    world.nodes[2].kill()
    run_until(world, lambda: story.heard[-1] == "closed")


def test_a_guest_that_closes_hears_nothing_more() -> None:
    world, story = started_world(), Story()
    process = world.nodes[1].process
    assert process is not None
    connection = process.guests.dial(story, Endpoint("nowhere", 1_002))
    process.guests.close(connection)
    process.guests.close(connection)
    process.guests.send(connection, frame([b"late"]))
    run_for(world, 200_000)
    assert story.heard == []
    process.guests.dial(story, Endpoint("nowhere", 1_002))
    run_until(world, lambda: story.heard == ["closed"])
