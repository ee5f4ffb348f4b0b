"""A client finds the leader, asks another node after a silent one, and goes back to no older leader."""

from dataclasses import replace

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.sim.clients.leader_station import LeaderStation
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ProducerSettings
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_until


class Asks(LeaderStation):
    """Dials whenever it has no connection."""

    found = 0

    def begin(self) -> None:
        self._facts.network.attach(self)
        self._turn()

    def _turn(self) -> None:
        if self._connection is None:
            self._dial()
        self._later(20_000)

    def _found_leader(self) -> None:
        self.found += 1


def a_client() -> tuple[World, Asks]:
    world, _ = led(World(SEED_OF_THREE, scenario=replace(THREE, producers=ProducerSettings(count=(1,)))))
    client = Asks(world.facts, world.watch, world._dice(1, "a client"), 990, "a client")
    client.begin()
    run_until(world, lambda: client.found == 1)
    return world, client


def test_it_finds_the_next_leader() -> None:
    world, client = a_client()
    epoch = client._leader_epoch
    world.nodes[client._target_id].kill()
    run_until(world, lambda: client.found == 2)
    assert client._leader_epoch > epoch


def test_it_does_not_go_back_to_an_older_epoch() -> None:
    world, client = a_client()
    client._leader_epoch += 1
    client._hang_up()
    turns = world.clock.now_us + 300_000
    run_until(world, lambda: world.clock.now_us > turns)
    assert client.found == 1


def test_nobody_dials_a_client() -> None:
    _, client = a_client()
    with pytest.raises(AssertionError, match="somebody dials a client"):
        client.accepted(ConnectionId(1))
