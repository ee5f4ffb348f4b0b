"""All oracles hear of the events that they override, and of changes only when there are some."""

import inspect
from dataclasses import replace
from typing import Any

import pytest

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.watch import HOOKS, Watch
from pykraft.sim.machine.dialect import KAFKA_3_9
from pykraft.sim.machine.ledger import Ledger
from pykraft.types import Endpoint
from tests.sim.invariants.fakes import appends, batch, operation
from tests.sim.worlds import calm_world, dynamic_world, led_world


class Told(Invariant):
    """Remembers what it is told."""

    heard: list[str]


def remember(hook: str) -> Any:
    def remembering(self: Told, *given: Any) -> None:
        self.heard.append(hook)

    return remembering


@pytest.fixture
def curious(monkeypatch: pytest.MonkeyPatch) -> type[Told]:
    for hook in HOOKS:
        monkeypatch.setattr(Told, hook, remember(hook), raising=False)
    monkeypatch.setattr(Told, "heard", [], raising=False)
    return Told


def test_every_hook_is_passed_on(curious: type[Told]) -> None:
    world, leader = led_world()
    facts = replace(world.facts, committed=Ledger())
    watch = Watch(facts, [curious, Invariant], led_world()[0].trace)
    watch.event_over(world.nodes[leader.node_id])
    watch.event_over(world.nodes[leader.node_id])
    assert curious.heard == ["changed", "after_event", "after_event"]
    assert facts.committed.entries == world.facts.committed.entries
    anything: dict[str, Any] = {
        "node": world.nodes[1],
        "batches": [batch(0), batch(1, b"a")],
        "job": appends(),
        "operation": operation(),
        "error": None,
    }
    for hook in HOOKS - {"changed", "after_event", "committed"}:
        curious.heard.clear()
        _, *names = inspect.signature(getattr(Invariant, hook)).parameters
        getattr(watch, hook)(*(anything.get(name) for name in names))
        assert hook in curious.heard, hook
    assert curious.heard.count("committed") <= 1


def test_a_batch_is_committed_when_it_is_delivered_for_the_first_time(curious: type[Told]) -> None:
    watch = Watch(led_world()[0].facts, [curious], led_world()[0].trace)
    for _ in range(2):
        assert watch.values_of([batch(0), batch(1, b"a", b"b")]) == [[], [b"a", b"b"]]
    assert curious.heard.count("committed") == 1


def test_a_node_that_starts_is_given_its_ledger_and_its_application() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    end_offset = world.facts.platters.end_offset(node)
    node.kill()
    assert node.node_id not in world.watch.ends
    node.start()
    assert world.watch.ends[node.node_id] == 0
    assert node.ledger.end_offset == end_offset


def test_an_old_version_is_remembered() -> None:
    world = calm_world()
    assert world.facts.members.has_pre_votes
    world.watch.starting(world.nodes[1])
    assert world.facts.members.has_pre_votes
    world.nodes[1].dialect = KAFKA_3_9
    world.watch.starting(world.nodes[1])
    world.nodes[1].dialect = None
    world.watch.starting(world.nodes[1])
    assert not world.facts.members.has_pre_votes


def test_where_voters_may_change_a_process_is_told_of_all_addresses() -> None:
    world = dynamic_world()
    node = world.nodes[1]
    addresses = tuple(Endpoint(f"node-{node_id}", node_id) for node_id in world.nodes)
    assert world.watch.configured(node) == replace(node.config, bootstrap_servers=addresses)
    fixed = calm_world()
    assert fixed.watch.configured(fixed.nodes[1]) == fixed.nodes[1].config


def test_what_clients_are_told_is_counted_and_noted() -> None:
    world = calm_world()
    node = world.nodes[2]
    before = world.trace.digest
    world.watch.happened("snapshot taken", node)
    assert world.faults.counts["snapshot taken"] == 1
    world.watch.trace.note(node.node_id, "is looked at")
    assert world.trace.lines[-1].endswith("2  is looked at")
    noted = world.trace.digest
    world.watch.trace.absorb(b"frame")
    assert len({before, noted, world.trace.digest}) == 3
    world.watch.given(node, 7)
    assert world.watch.ends[node.node_id] == 7
