"""The operator asks over the network and recognizes the answers."""

from __future__ import annotations

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.sim.clients.admin import OperatorStation
from pykraft.sim.facts.members import VoterRequest
from pykraft.types import ReplicaKey
from tests.sim.worlds import dynamic_world, led, run_until


def test_a_voter_is_removed_and_added_and_the_operator_hears_of_it() -> None:
    world, leader = led(dynamic_world(observers=1))
    admin, heard = OperatorStation(world.facts, world.watch), list[VoterRequest]()
    node = next(node for node in world.nodes.values() if node.process is not leader)
    removal = admin.ask(leader, RemoveVoterRequest(voter=node.key), heard.append)
    assert removal.is_open
    run_until(world, lambda: bool(heard))
    assert (removal.answer, removal.is_open) == (ErrorCode.NONE, False)
    assert node not in world.facts.voters()
    listeners = node.config.advertised_listeners
    addition = AddVoterRequest(voter=node.key, listeners=listeners, timeout_ms=500)
    admin.ask(leader, addition, heard.append)
    run_until(world, lambda: len(heard) == 2)
    assert heard[1].answer == ErrorCode.NONE
    assert node in world.facts.voters()


def test_a_refusal_is_an_answer() -> None:
    world, leader = led(dynamic_world())
    heard = list[VoterRequest]()
    stranger = ReplicaKey(world.nodes[1].node_id, world.nodes[2].key.directory_id)
    OperatorStation(world.facts, world.watch).ask(leader, RemoveVoterRequest(voter=stranger), heard.append)
    run_until(world, lambda: bool(heard))
    assert heard[0].answer == ErrorCode.VOTER_NOT_FOUND


def test_what_is_asked_of_a_process_that_ends_is_over_without_an_answer() -> None:
    world, leader = led(dynamic_world())
    heard = list[VoterRequest]()
    asked = OperatorStation(world.facts, world.watch).ask(
        leader, RemoveVoterRequest(voter=world.nodes[leader.node_id].key), heard.append
    )
    world.nodes[leader.node_id].kill()
    run_until(world, lambda: bool(heard))
    assert heard == [asked]
    assert (asked.answer, asked.is_open) == (None, False)


def test_news_of_a_connection_that_is_over_is_none() -> None:
    world = dynamic_world()
    OperatorStation(world.facts, world.watch).closed(ConnectionId(99))
