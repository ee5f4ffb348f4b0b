"""Each voter change is asked for until it is done, and none costs the quorum its majority; machines go for good."""

from dataclasses import replace
from random import Random

import pytest

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.sim.facts.members import VoterRequest
from pykraft.sim.faults.harm import Harm
from pykraft.sim.faults.membership import MachineFaults, MembershipFaults, OperatorStation
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import MACHINES, ClusterSettings, MembershipSettings
from pykraft.sim.scenario.settings import PORTS_APART, port_of
from pykraft.types import ReplicaKey
from tests.sim.worlds import THREE, calm_world, dynamic_world, harm_to, has_noted, led, led_world, run_for, run_until


def family_of(world: World) -> tuple[MembershipFaults, Harm]:
    """The world's own harm has a family, too: what that one is told of is nobody's concern here."""
    harm = harm_to(world)
    return MembershipFaults(harm), harm


def test_a_new_node_is_added_when_it_has_caught_up() -> None:
    world, _ = led(dynamic_world(newcomers=1))
    family, harm = family_of(world)
    assert family.kinds["new voter"]()
    assert not family.kinds["new voter"](), "the scenario has one newcomer"
    run_until(world, lambda: harm.counts["new voter"] == 1)
    assert [int(node.node_id) for node in world.facts.voters()] == [1, 2, 3, 4]
    assert not world.facts.requests.joining


def test_an_observer_is_promoted() -> None:
    world, _ = led(dynamic_world(observers=1))
    family, harm = family_of(world)
    assert family.kinds["promotion"]()
    assert not family.kinds["promotion"](), "there is no other one"
    run_until(world, lambda: harm.counts["promotion"] == 1)
    assert len(world.facts.voters()) == 4


@pytest.mark.parametrize(("kind", "leads"), [("removal", False), ("leader removal", True)])
def test_a_voter_is_removed(kind: str, leads: bool) -> None:
    world, leader = led(dynamic_world())
    family, harm = family_of(world)
    assert family.kinds[kind]()
    (node,) = world.facts.requests.leaving
    assert (node.process is leader) is leads
    run_until(world, lambda: harm.counts[kind] == 1)
    assert node not in world.facts.voters()
    assert len(world.facts.voters()) == 2
    assert not world.facts.requests.leaving


def test_a_replaced_disk_is_removed_and_added_as_another_replica() -> None:
    world, _ = led(dynamic_world())
    family, harm = family_of(world)
    known = {node.node_id: node.key for node in world.nodes.values()}
    assert family.kinds["replaced disk"]()
    (node,) = [node for node in world.nodes.values() if node.key != known[node.node_id]]
    assert not world.facts.atlas.may_damage(next(other for other in world.facts.voters() if other is not node))
    run_until(world, lambda: harm.counts["promotion"] == 1)
    assert node in world.facts.voters()
    assert harm.counts["replaced disk"] == harm.counts["removal"] == 1


def test_a_voter_that_moves_tells_its_leader() -> None:
    world, _ = led(dynamic_world())
    family, _ = family_of(world)
    assert family.kinds["moved voter"]()
    (node,) = [node for node in world.nodes.values() if port_of(node.config) > PORTS_APART]
    assert family.kinds["moved voter"](), "again, since it is not one more that nobody reaches"
    assert [each for each in world.nodes.values() if port_of(each.config) > PORTS_APART] == [node]

    def is_known() -> bool:
        entry = world.members.committed.get(node.node_id)
        return entry is not None and entry.listeners == node.config.advertised_listeners

    run_until(world, is_known)
    assert world.facts.atlas.may_damage(node)


def test_a_static_quorum_is_upgraded_when_all_voters_have_told_their_directories() -> None:
    world, _ = led(World(8, scenario=replace(THREE, faults={"upgrade": 1.0})))
    family, harm = family_of(world)
    assert family.kinds["upgrade"]()
    run_until(world, lambda: harm.counts["upgrade"] == 1)
    run_until(world, lambda: world.members.committed_record is not None)
    assert {voter.key for voter in world.members.committed.voters} == {node.key for node in world.nodes.values()}
    assert has_noted(world, "is asked for kraft.version 1: it is in the log")
    assert not family.kinds["upgrade"]()
    run_for(world, 500_000)


def test_nothing_is_asked_of_static_quorums_and_of_those_without_a_leader() -> None:
    for world in (led_world()[0], calm_world(), dynamic_world()):
        family, _ = family_of(world)
        done = {kind for kind, act in family.kinds.items() if act()}
        assert done <= {"replaced disk", "moved voter", "upgrade", "cut after voters"}


def test_the_only_voter_stays_and_two_are_not_harmed() -> None:
    for count in (1, 2):
        scenario = replace(
            THREE,
            cluster=ClusterSettings(voters=(count,), observers=(0,)),
            membership=MembershipSettings(dynamic_probability=1),
        )
        world, _ = led(World(1, scenario=scenario))
        family, _ = family_of(world)
        assert not any(family.kinds[kind]() for kind in ("replaced disk", "moved voter"))
        assert family.kinds["leader removal"]() is (count > 1)


def test_after_the_faults_no_voter_is_added_and_lost_nodes_learn_the_addresses() -> None:
    world, _ = led(dynamic_world(newcomers=1))
    family, harm = family_of(world)
    assert family.kinds["new voter"]()
    family.stop()
    harm.end()
    run_for(world, 1_500_000)
    assert harm.counts["new voter"] == 0
    stranger = world.nodes[4]
    assert stranger.process is not None


def test_a_leader_is_cut_off_with_the_voter_set_that_it_has_just_appended() -> None:
    world, leader = led(dynamic_world())
    family, harm = family_of(world)
    node = world.nodes[leader.node_id]
    family.voters_appended(node)
    assert not world.network.cut_links, "nobody waited for it"
    assert family.kinds["cut after voters"]()
    assert not family.kinds["cut after voters"](), "that is waited for already"
    family.voters_appended(node)
    assert harm.counts["cut after voters"] == 1
    assert world.network.cut_links == 2 * len(world.nodes) - 1
    family.kinds["cut after voters"]()
    family.stop()
    world.network.heal()
    family.voters_appended(node)
    assert not world.network.cut_links


def test_where_voters_never_change_nobody_waits_for_a_voter_set() -> None:
    world, _ = led_world()
    family, _ = family_of(world)
    assert not family.kinds["cut after voters"]()


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


(KIND,) = MACHINES


def machines_world(voters: int = 1) -> World:
    """A dynamic quorum with an observer; nobody decides on faults."""
    scenario = replace(
        THREE,
        cluster=ClusterSettings(voters=(voters,), observers=(1,)),
        membership=MembershipSettings(dynamic_probability=1),
    )
    return led(World(8, scenario=scenario))[0]


def made(world: World) -> tuple[MachineFaults, Harm]:
    harm = harm_to(world)
    faults = MachineFaults(harm, MembershipFaults(harm))
    faults.use_dice(Random(1))
    return faults, harm


def replaced(world: World, faults: MachineFaults) -> None:
    """The next machine is replaced."""
    assert faults._replace()
    assert not faults._replace(), "one at a time"
    run_until(world, lambda: not faults._is_busy, limit_us=10_000_000)


def test_each_machine_is_replaced_twice_and_the_observer_follows() -> None:
    world = machines_world()
    world.users.begin()
    faults, harm = made(world)
    replaced(world, faults)
    assert (world.facts.absent, [int(node.node_id) for node in world.facts.voters()]) == ({1}, [3])
    replaced(world, faults)
    assert (world.facts.absent, [int(node.node_id) for node in world.facts.voters()]) == ({1, 3}, [4])
    assert not faults._replace(), "twice is enough"
    assert harm.counts[KIND] == 2
    observer = world.nodes[2]
    observer.kill()
    observer.start()
    assert observer.process is not None
    assert [endpoint.port for endpoint in observer.process.bootstrap] == [1]
    run_until(world, lambda: observer.status is not None and observer.status.leader_id == 4)
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal and world.watch.ends[2] == max(world.watch.ends.values()))


def test_the_last_machine_that_an_observer_knows_waits_for_it() -> None:
    world = machines_world()
    faults, _ = made(world)
    assert faults._replace()
    assert faults._switch_off()
    assert world.facts.absent == {2}
    assert not faults._switch_off(), "there is no other one"
    world.restart(world.nodes[2])
    assert world.nodes[2].process is None
    run_until(world, lambda: [int(node.node_id) for node in world.facts.voters()] == [3])
    run_for(world, 150_000)
    assert world.nodes[1].process is not None
    run_until(world, lambda: has_noted(world, "is gone for good"), limit_us=10_000_000)
    assert world.facts.absent == {1}


def test_an_observer_is_back_when_the_faults_end() -> None:
    world = machines_world(voters=3)
    faults, _ = made(world)
    assert not faults._switch_off(), "no machine is replaced yet"
    assert faults._replace()
    assert faults._switch_off()
    faults.stop()
    assert not world.facts.absent
    world.restart(world.nodes[4])
    assert world.nodes[4].process is not None


def test_decisions_do_both() -> None:
    world = machines_world(voters=3)
    faults, _ = made(world)
    run_until(world, lambda: faults.kinds[KIND]() and bool(faults._away) and faults._is_busy)


def test_static_quorums_stay() -> None:
    for world in (led_world()[0], calm_world()):
        faults, _ = made(world)
        assert not faults._replace()
        assert not faults._switch_off()
