"""A disk that does not work ends its node, which starts again when the disk does; a stall only takes time."""

from __future__ import annotations

import pytest

from pykraft.sim.faults.disk import DiskFaults
from pykraft.sim.trouble import DISK_FULL, READ_ERROR, SYNC_ERROR, WRITE_ERROR
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import led_world, run_until


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (READ_ERROR, "cannot read: Input/output error"),
        (WRITE_ERROR, "cannot write: Input/output error"),
        (SYNC_ERROR, "cannot sync: Input/output error"),
        (DISK_FULL, "cannot write: No space left on device"),
    ],
)
def test_a_node_stops_with_the_error_of_its_disk_and_starts_again(kind: str, text: str) -> None:
    world, _ = led_world()
    world.workload.begin()
    harm = harm_to(world)
    family = DiskFaults(harm)
    for _ in range(9):
        family.kinds[kind]()
    if kind == READ_ERROR:
        for node in world.nodes.values():
            node.kill()
    run_until(world, lambda: told(world, text))
    assert harm.counts[kind] >= 1
    family.stop()
    run_until(world, lambda: len(world.hosts()) == 3)


def test_what_is_asked_of_a_disk_that_stalls_is_done_later() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    family = DiskFaults(harm)
    for _ in range(20):
        assert family.kinds["disk stalled"]()
    node = world.nodes[leader.node_id]
    until_us = node.disk.trouble.stalled_until_us
    assert until_us > world.clock.now_us
    end_offset = world.durable_end_offset(node)
    leader.host.propose([b"value"], epoch=leader.host.epoch, now=node.clock.instant, on_outcome=lambda _: None)
    run_until(world, lambda: world.durable_end_offset(node) > end_offset)
    assert world.clock.now_us >= until_us
    family.stop()
    assert node.disk.trouble.stalled_until_us == 0


def test_a_node_with_a_stalled_disk_starts_later() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.trouble.stalled_until_us = until_us = world.clock.now_us + 400_000
    node.kill()
    run_until(world, lambda: node.process is not None)
    assert world.clock.now_us >= until_us
