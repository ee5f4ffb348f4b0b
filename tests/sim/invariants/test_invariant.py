"""What oracles share: the views that they compare, what concerns each, and the calms that liveness waits for."""

import ast
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.invariants import ALL, ViolationError
from pykraft.sim.invariants.invariant import DOWN, LOOK_US, Calm, Invariant, transfer_us, view_of
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.scenario.scenario import DEFAULT, QuorumSettings, Scenario, Work
from tests.sim.invariants.fakes import BEFORE, appends, node, operation, view, voters_of, world
from tests.sim.worlds import calm_world, led_world, run_until


def test_by_itself_it_accepts_everything() -> None:
    invariant = Invariant(world())
    invariant.started(node())
    invariant.changed(node(), BEFORE, view())
    invariant.after_event(node(), view())
    invariant.before_send(node(), Spoken(epoch=9))
    invariant.submitted(node(), appends())
    invariant.persisted(node())
    invariant.delivered(node(), [])
    invariant.committed(0, [])
    invariant.leader_announced(node(), 1, None)
    invariant.proposed(operation())
    invariant.accepted(operation())
    invariant.decided(operation())
    invariant.stopped(node(), ValueError())
    invariant.faults_ended()
    invariant.not_healed("nothing")
    invariant.ended()


def test_each_invariant_is_there_once_and_tells_its_rule_and_its_source() -> None:
    assert len({kind.__name__ for kind in ALL}) == len(ALL) >= 100
    assert [kind.__name__ for kind in ALL if "Source:" not in (kind.__doc__ or "")] == []


def test_a_violation_names_the_invariant_and_what_was_seen() -> None:
    error = Invariant(world()).violated("two of them")
    assert isinstance(error, ViolationError)
    assert (error.invariant, str(error)) == ("Invariant", "Invariant: two of them")


def test_each_oracle_is_tested_in_this_folder() -> None:
    trees = [ast.parse(path.read_text()) for path in Path(__file__).parent.glob("test_*.py")]
    used = {getattr(node, "id", None) or getattr(node, "attr", None) for tree in trees for node in ast.walk(tree)}
    assert [kind.__name__ for kind in ALL if kind.__name__ not in used] == []


def test_a_node_that_is_down_shows_its_disk_only() -> None:
    seen = view_of(calm_world().nodes[1], DurableElection(epoch=3))
    assert (seen.role, seen.is_up, seen.disk.epoch) == (DOWN, False, 3)


def test_a_cluster_at_work() -> None:
    world, leader = led_world()
    run_until(world, lambda: all(node.process and node.process.ordered.is_idle for node in world.nodes.values()))
    seen = {node_id: view_of(node, world.facts.platters.election(node)) for node_id, node in world.nodes.items()}
    assert {node_id for node_id, each in seen.items() if each.leads} == {leader.node_id}
    assert {node_id for node_id, each in seen.items() if each.has_fetched} == set(seen) - {leader.node_id}
    assert {(each.epoch, each.disk.epoch, each.leader_id, each.is_settled) for each in seen.values()} == {
        (leader.host.status.epoch, leader.host.status.epoch, leader.node_id, True)
    }
    assert seen[1] == view_of(world.nodes[1], world.facts.platters.election(world.nodes[1]))


def test_roles_are_told_apart() -> None:
    assert [view(role).is_prospective for role in ("prospective", "prospective-voted", "candidate")] == [
        *(True, True, False)
    ]


def undisturbed(voters: int = 3) -> Any:
    made = world(voters)
    made.faults = SimpleNamespace(counts=Counter())
    made.network = SimpleNamespace(is_usual=True, byte_us=0)
    made.members.in_force = lambda: [voters_of(voters)]
    made.nodes = {}
    for voter in voters_of(voters).voters:
        each: Any = node(int(voter.key.id), role="follower")
        each.process.is_paused = False
        each.disk.io_errors = SimpleNamespace(stalled_until_us=0)
        each.config.advertised_listeners = voter.listeners
        made.nodes[int(voter.key.id)] = each
    return made


def lasts_us(calm: Calm, where: Any, now_us: int) -> int:
    where.clock.now_us = now_us
    return calm.lasts_us()


def test_a_calm_lasts_from_the_first_look_on() -> None:
    where = undisturbed()
    calm = Calm(where)
    assert [lasts_us(calm, where, at) for at in (100, 400)] == [0, 300]
    where.counts["kill"] += 1
    assert [lasts_us(calm, where, at) for at in (500, 600, 700)] == [0, 0, 100]
    where.counts["log cleaned"] += 1
    assert lasts_us(calm, where, 800) == 200, "that is no fault"


@pytest.mark.parametrize("what", ["down", "paused", "damaged", "stalled", "replaced", "moved"])
def test_a_majority_of_each_set_is_enough(what: str) -> None:
    where = undisturbed()
    calm = Calm(where)
    lasts_us(calm, where, 1)
    for node_id, expected_us in ((1, 9), (2, 0)):
        each = where.nodes[node_id]
        if what == "down":
            each.process = None
        elif what == "paused":
            each.process.is_paused = True
        elif what == "damaged":
            each.is_damaged = True
        elif what == "stalled":
            each.disk.io_errors.stalled_until_us = 99
        elif what == "moved":
            each.config.advertised_listeners = ()
        else:
            each.key = node(9).key
        assert lasts_us(calm, where, 10) == expected_us


def test_slow_links_are_no_calm() -> None:
    where = undisturbed()
    calm = Calm(where)
    lasts_us(calm, where, 1)
    where.network.is_usual = False
    assert lasts_us(calm, where, 10) == 0


def test_it_looks_every_now_and_then() -> None:
    where = undisturbed()
    calm = Calm(where)
    found = []
    for at in (0, 1, LOOK_US - 1, LOOK_US):
        where.clock.now_us = at
        found.append(calm.is_due())
    assert found == [True, False, False, True]


def test_links_take_time_for_the_largest_thing_that_is_sent() -> None:
    assert transfer_us(DEFAULT, 0) == 0
    quorum = QuorumSettings(fetch_size_bytes_max=(10, 5_000))
    small = Scenario(quorum=quorum, work=Work(values_max=1, value_size_bytes_max=10))
    assert transfer_us(small, 2) == 4 * 5_000 * 2
    assert (
        transfer_us(Scenario(quorum=quorum, work=Work(values_max=2, proposals_max=10, value_size_bytes_max=900)), 2)
        == 4 * 20_000 * 2
    )
