"""The durable state is looked up by node, also for a machine that joined later."""

from __future__ import annotations

from pykraft.sim.facts.platters import Platters
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.sim.worlds import led_world, run_for


def test_each_node_is_asked_for_its_own() -> None:
    world, leader = led_world()
    run_for(world, 200_000)
    node = world.nodes[leader.node_id]
    platters = Platters([])
    platters.joined(node)
    end = platters.end(node)
    assert end.offset == platters.end_offset(node) > 0
    assert platters.election(node).epoch == leader.host.status.epoch
    entry = platters.entry_at(node, 0)
    assert entry is not None
    assert platters.holds(node, entry)
    assert platters.recovered(node, keeps_damage=False).at(0) == entry
    assert platters.entry_at(node, end.offset) is None


def test_without_snapshots_there_is_no_news_of_one() -> None:
    world, leader = led_world()
    node, snapshot_id = world.nodes[leader.node_id], OffsetAndEpoch(Offset(1), Epoch(1))
    platters = world.facts.platters
    assert list(platters.snapshots(node)) == []
    assert platters.snapshot(node, snapshot_id) is None
    assert not platters.is_set_aside(node, snapshot_id)
    assert not platters.has_news(node)
