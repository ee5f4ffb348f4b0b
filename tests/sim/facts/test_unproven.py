"""A directory is unproven while nothing was written to it, or what its proof says is not enough.

Source: ours (ADR 022).
"""

from __future__ import annotations

from pykraft.log.small_files.proof_file import FILE_NAME as PROOF
from pykraft.sim.facts.unproven import is_unproven
from pykraft.sim.machine.format import format_directory
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario
from tests.sim.worlds import led_world, run_until

THREE = Scenario(cluster=ClusterSettings(voters=(3,), observers=(0,)))


def test_a_directory_without_anything_is_unproven_and_a_formatted_one_is_not() -> None:
    node = World(8, scenario=THREE).nodes[1]
    assert is_unproven(node)
    format_directory(node)
    assert not is_unproven(node)


def test_a_new_directory_is_proven_once_the_others_were_heard() -> None:
    world = World(8, scenario=THREE)
    for node in world.nodes.values():
        node.start()
    first = world.nodes[1]
    assert is_unproven(first)
    run_until(world, lambda: not is_unproven(first))


def test_a_proof_that_cannot_be_read_proves_nothing() -> None:
    world, _ = led_world()
    node = world.nodes[1]
    directory = node.disk.directory(node.config.log_dir)
    assert directory is not None
    inode = directory.synced[PROOF]
    assert not is_unproven(node)
    inode.synced[0] ^= 1
    assert is_unproven(node)
