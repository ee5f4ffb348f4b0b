"""All oracles hear of the events that they override, and of changes only when there are some."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.watch import HOOKS, Watch
from pykraft.sim.machine.ledger import Ledger
from tests.sim.invariants.fakes import appends, batch, operation
from tests.sim.worlds import led_world


class Told(Invariant):
    """Remembers what it is told."""

    heard: list[str]


def remember(hook: str) -> Any:
    def told(self: Told, *given: Any) -> None:
        self.heard.append(hook)

    return told


@pytest.fixture
def curious(monkeypatch: pytest.MonkeyPatch) -> type[Told]:
    for hook in HOOKS:
        monkeypatch.setattr(Told, hook, remember(hook), raising=False)
    monkeypatch.setattr(Told, "heard", [], raising=False)
    return Told


def test_every_hook_is_passed_on(curious: type[Told]) -> None:
    world, leader = led_world()
    facts = replace(world.facts, committed=Ledger())
    watch = Watch(facts, [curious, Invariant], lambda _: None)
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
    watch = Watch(led_world()[0].facts, [curious], lambda _: None)
    for _ in range(2):
        assert watch.values_of([batch(0), batch(1, b"a", b"b")]) == [[], [b"a", b"b"]]
    assert curious.heard.count("committed") == 1
