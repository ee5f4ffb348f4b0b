"""All oracles hear of the events that they override, and of changes only when there are some.

What the oracles of listeners report, and what they accept.
"""

import inspect
from dataclasses import replace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.listeners import (
    DeliveredIsCommitted,
    DeliveredOnceInOrder,
    LateListenersHearWhoLeads,
    LeaderIsToldInTime,
    PlainListenerMissesOnlyTheCleaned,
)
from pykraft.sim.invariants.watch import HOOKS, Watch
from pykraft.sim.machine.dialect import KAFKA_3_9
from pykraft.sim.machine.ledger import Ledger
from pykraft.types import Endpoint
from tests.sim.invariants.fakes import appends, batch, node, operation, snapshot_id, view, world
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


def test_what_is_not_is_found() -> None:
    made = DeliveredIsCommitted(world())
    made.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match="is given what is below 1, committed is 0"):
        made.after_event(node(), view())


def test_a_snapshot_of_more_than_that_is_found() -> None:
    made = DeliveredIsCommitted(world())
    made.loaded(node(), snapshot_id(3))
    with pytest.raises(ViolationError, match="is given what is below 3, committed is 0"):
        made.after_event(node(), view())


@pytest.mark.parametrize("base_offset", [0, 2])
def test_a_batch_that_comes_twice_or_is_left_out_is_found(base_offset: int) -> None:
    made = DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a")])
    with pytest.raises(ViolationError, match=f"is given offset {base_offset}, 1 is next"):
        made.delivered(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize("offset", [1, 2])
def test_a_snapshot_that_goes_back_or_brings_nothing_is_found(offset: int) -> None:
    made = DeliveredOnceInOrder(world())
    made.delivered(node(), [batch(0, b"a", b"b")])
    with pytest.raises(ViolationError, match=f"a snapshot up to {offset}, 2 is next"):
        made.loaded(node(), snapshot_id(offset))


# late_listener: A listener that begins late, and is not told who leads, is found.
def oracle(told: tuple[int, int | None] | None, role: str = "follower") -> LateListenersHearWhoLeads:
    """It watches one node of epoch 2, led by node 3, that tells new listeners this."""
    found = node(1, role=role, epoch=2, leader_id=3)

    def register(listener: Any, _from_offset: int) -> None:
        if told is not None:
            listener.on_leader_change(*told)

    found.host.register = register
    made = world()
    made.nodes = {1: found}
    return LateListenersHearWhoLeads(made)


@pytest.mark.parametrize("told", [None, (2, None), (1, 3)])
def test_silence_and_older_news_are_found(told: tuple[int, int | None] | None) -> None:
    with pytest.raises(ViolationError, match=r"a new listener of node 1 is told .*, and node 3 leads epoch 2"):
        oracle(told).ended()


# plain_listener: A record that a plain listener misses although the log holds it, or without being told, is found.
def cleaned(start_offset: int) -> Any:
    return node(log_start_offset=start_offset)


@pytest.mark.parametrize("base_offset", [4, 6])
def test_a_gap_that_is_not_told_of_and_a_batch_that_comes_twice_are_found(base_offset: int) -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match=f"gives offset {base_offset}, 5 is next"):
        made.overheard(node(), [batch(base_offset, b"a")])


@pytest.mark.parametrize(("next_offset", "start_offset"), [(4, 9), (5, 5), (5, 10)])
def test_a_gap_that_is_none_or_too_wide_is_found(next_offset: int, start_offset: int) -> None:
    made = PlainListenerMissesOnlyTheCleaned(world())
    made.listens(node(), 5)
    with pytest.raises(ViolationError, match="5 is next, and the log begins at 9"):
        made.skipped(cleaned(9), next_offset, start_offset)


def test_an_own_leadership_before_its_first_record_is_found() -> None:
    made = LeaderIsToldInTime(world())
    made.delivered(node(), [batch(0, epoch=1)])
    with pytest.raises(ViolationError, match="it leads epoch 2, and was given records up to epoch 1 only"):
        made.told_leader(node(), 2, 1)


@pytest.mark.parametrize(("epoch", "leader_id"), [(1, 3), (2, 3), (2, None)])
def test_older_news_and_a_second_leader_are_found(epoch: int, leader_id: int | None) -> None:
    made = LeaderIsToldInTime(world())
    made.told_leader(node(), 2, 2)
    with pytest.raises(ViolationError, match=f"is told of epoch {epoch} after epoch 2 of leader 2"):
        made.told_leader(node(), epoch, leader_id)
