"""Clients that only prepare appends, until they schedule or append an unprepared one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.sim.clients.prepared_appends import BATCH_SIZE_BYTES_MAX, LENGTHS, PreparedAppends, with_small_buffers
from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import QuorumSettings, Work
from pykraft.sim.scenario.settings import node_configs
from tests.sim.worlds import SEED_OF_THREE, THREE, led, led_world, run_until

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
