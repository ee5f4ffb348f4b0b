"""The operator asks over the network and recognizes the answers.

Clients that only prepare appends, until they schedule or append an unprepared one.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.sim.clients.admin import (
    BATCH_SIZE_BYTES_MAX,
    LENGTHS,
    OperatorStation,
    PreparedAppends,
    with_small_buffers,
)
from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.facts.voter_requests import VoterRequest
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import QuorumSettings, Work
from pykraft.sim.scenario.settings import node_configs
from pykraft.types import ReplicaKey
from tests.sim.worlds import SEED_OF_THREE, THREE, dynamic_world, led, led_world, run_until


def test_a_voter_is_removed_and_added_and_the_operator_hears_of_it() -> None:
    world, leader = led(dynamic_world(observers=1))
    admin, heard = OperatorStation(world.facts, world.witness), list[VoterRequest]()
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
    OperatorStation(world.facts, world.witness).ask(leader, RemoveVoterRequest(voter=stranger), heard.append)
    run_until(world, lambda: bool(heard))
    assert heard[0].answer == ErrorCode.VOTER_NOT_FOUND


def test_what_is_asked_of_a_process_that_ends_is_over_without_an_answer() -> None:
    world, leader = led(dynamic_world())
    heard = list[VoterRequest]()
    asked = OperatorStation(world.facts, world.witness).ask(
        leader, RemoveVoterRequest(voter=world.nodes[leader.node_id].key), heard.append
    )
    world.nodes[leader.node_id].kill()
    run_until(world, lambda: bool(heard))
    assert heard == [asked]
    assert (asked.answer, asked.is_open) == (None, False)


def test_news_of_a_connection_that_is_over_is_none() -> None:
    world = dynamic_world()
    OperatorStation(world.facts, world.witness).closed(ConnectionId(99))


PREPARED = replace(THREE, work=Work(prepared_probability=1.0))


def test_the_nodes_of_a_world_share_one_small_buffer() -> None:
    configs = with_small_buffers(node_configs(3, 0, QuorumSettings(), Random(1)), Random(2))
    assert {config.raft.batch_size_bytes_max for config in configs} == {BATCH_SIZE_BYTES_MAX}
    assert len({config.raft.accumulated_batches_max for config in configs}) == 1


def test_without_dice_nothing_is_prepared() -> None:
    world, leader = led_world()
    prepared = PreparedAppends(None)
    assert not any(prepared.is_next(world.nodes[leader.node_id]) for _ in range(100))


def test_appends_are_prepared_in_rows() -> None:
    world, leader = led_world()
    prepared = PreparedAppends(Random(1))
    told = [prepared.is_next(world.nodes[leader.node_id]) for _ in range(1_000)]
    rows = "".join("p" if each else " " for each in told[: told.index(False, 900)]).split()
    assert set(LENGTHS) <= {len(row) for row in rows}


def test_what_is_prepared_is_committed_in_the_end() -> None:
    world, _ = led(World(SEED_OF_THREE, scenario=PREPARED))
    world.users.begin()
    operations = world.facts.history.operations
    run_until(
        world, lambda: sum(each.is_prepared and each.answer is OperationOutcome.COMMITTED for each in operations) >= 40
    )
    assert any(not each.is_prepared and each.answer is OperationOutcome.COMMITTED for each in operations)
