"""Which voter sets count: the configuration's, those on disks, each log's, and those of outstanding requests."""

from dataclasses import replace

from pykraft import types
from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.protocol.batch import read_header
from pykraft.protocol.records import encode_control_batch
from pykraft.sim.facts.members import Electorate, VoterRequest, VoterRequests
from pykraft.sim.faults.membership import OperatorStation
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.node import Process
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import MembershipSettings
from pykraft.sim.scenario.settings import moved, port_of
from tests.sim.invariants.fakes import appends, encoded, voters_of
from tests.sim.worlds import THREE, calm_world, dynamic_world, led, led_world, run_until


def test_in_a_static_world_the_configured_voters_vote_for_ever() -> None:
    world, _ = led_world()
    assert not world.members.may_change
    assert world.members.in_force() == [world.facts.members.electorate.initial]
    assert [int(node.node_id) for node in world.facts.voters()] == [1, 2, 3]
    config = world.nodes[1].config
    assert world.members.with_bootstrap(config) is config


def test_a_set_counts_from_the_moment_that_it_is_in_a_log() -> None:
    world, leader = led(dynamic_world())
    node = world.nodes[leader.node_id]
    (opening,) = world.facts.members.electorate.records
    assert opening.is_opening
    assert world.members.in_force() == [world.facts.members.electorate.initial]
    for other in world.nodes.values():
        if other is not node:
            other.kill()
    OperatorStation(world.facts, world.watch).ask(leader, RemoveVoterRequest(voter=node.key), lambda _: None)
    run_until(world, lambda: len(world.facts.members.electorate.records) == 2)
    after = world.facts.members.electorate.records[-1].voters
    assert world.members.voters_of(node) == after
    assert world.members.in_force() == [world.facts.members.electorate.initial, after]
    assert world.members.committed == world.facts.members.electorate.initial
    assert world.members.nodes_of(after) == [other for other in world.nodes.values() if other is not node]


def test_a_newcomer_knows_nobody_and_is_told_where_everybody_is() -> None:
    world = dynamic_world()
    node = world.newcomer()
    assert node.node_id == 4
    assert node.first_voters == types.VoterSet()
    assert node.key.directory_id is not None
    assert node not in world.facts.voters()
    told = world.members.with_bootstrap(node.config).bootstrap_servers
    assert [endpoint.port for endpoint in told] == [port_of(each.config) for each in world.nodes.values()]
    world.nodes[1].start()
    world.nodes[2].start()
    node.start()
    run_until(world, lambda: node.host is not None and node.host.status.role == "observer")


def test_a_newcomer_to_a_static_quorum_is_configured_with_its_voters() -> None:
    world = calm_world()
    node = world.newcomer()
    assert not world.members.is_at_level_one
    assert node.first_voters == world.facts.members.electorate.initial
    node.start()
    assert node.host is not None
    assert node.host.status.kraft_version == 0


def test_nodes_join_by_themselves_as_the_scenario_says() -> None:
    for probability in (0.0, 1.0):
        membership = MembershipSettings(dynamic_probability=1, auto_join_probability=probability)
        world = World(1, scenario=replace(THREE, membership=membership))
        assert {node.config.raft.auto_join for node in world.nodes.values()} == {probability == 1}


def machines_world() -> World:
    """Three formatted voters, and an observer that knows the first list only."""
    world = dynamic_world(observers=1)
    world.members.let_observers_know_first_list()
    return world


def test_observers_know_the_first_list_only_where_machines_are_replaced() -> None:
    world = machines_world()
    newcomer = world.newcomer()
    world.facts.absent.add(1)
    assert world.members.first_list_only == {4}
    ports = {
        node_id: [
            endpoint.port for endpoint in world.members.with_bootstrap(world.nodes[node_id].config).bootstrap_servers
        ]
        for node_id in (2, 4, 5)
    }
    assert ports == {2: [2, 3, 4, 5], 4: [1, 2, 3], 5: [2, 3, 4, 5]}
    assert int(newcomer.node_id) == 5
    assert not dynamic_world(observers=1).members.first_list_only


def test_a_log_names_a_voter_that_is_where_it_says() -> None:
    world = machines_world()
    observer = world.nodes[4]
    assert not world.members.knows_a_voter(observer), "its log is empty"
    led(world)
    assert world.members.knows_a_voter(observer)
    world.facts.absent.add(1)
    world.nodes[2].config = moved(world.nodes[2].config)
    assert world.members.knows_a_voter(observer)
    assert not world.members.knows_a_voter(observer, without=world.nodes[3])


def test_an_observer_with_the_first_list_and_a_machine_that_is_gone_count_for_nobody() -> None:
    world, leader = led(machines_world())
    gone = next(node for node in world.facts.voters() if node.node_id != leader.node_id)
    first = world.members.in_force()
    gone.kill()
    world.nodes[4].kill()
    world.facts.absent.update({4, int(gone.node_id)})
    OperatorStation(world.facts, world.watch).ask(leader, RemoveVoterRequest(voter=gone.key), lambda _: None)
    run_until(world, lambda: world.members.committed not in first)
    run_until(world, lambda: world.members.in_force() == [world.members.committed])
    world.facts.absent.discard(4)
    assert world.members.in_force() == [world.members.committed]
    world.facts.absent.clear()
    assert world.members.in_force() == [world.members.committed, *first]


def control(base_offset: int, *records: types.ControlRecord, epoch: int = 1) -> bytes:
    return encode_control_batch(
        records, base_offset=types.Offset(base_offset), epoch=types.Epoch(epoch), timestamp_ms=0
    ).data


CHANGE = types.LeaderChange(leader_id=types.NodeId(1), voters=(types.NodeId(1),), granting_voters=(types.NodeId(1),))
OPENING = control(0, CHANGE, types.KRaftVersion(1), types.KRaftVoters(voters_of(3)))
SECOND = control(7, types.KRaftVoters(voters_of(2)))
OTHER = control(7, types.KRaftVoters(voters_of(4)), epoch=2)


def test_sets_are_found_in_the_order_of_their_offsets_and_epochs() -> None:
    known = Electorate(voters_of(3))
    known.submitted(appends(OTHER))
    known.submitted(appends(OPENING, encoded(3, b"value"), encoded(4), SECOND))
    known.submitted(appends(SECOND))
    first, second, other = known.records
    assert (first.offset, first.level, first.is_opening, first.voters) == (2, 1, True, voters_of(3))
    assert (second.offset, second.level, second.is_opening, second.voters) == (7, None, False, voters_of(2))
    assert (other.offset, other.entry.epoch) == (7, 2)


def test_the_newest_one_is_that_of_a_log_that_holds_its_batch() -> None:
    known = Electorate(voters_of(3))
    assert known.newest(lambda _: True) is None
    known.submitted(appends(OPENING, SECOND, OTHER))
    held = {Entry.of(read_header(OPENING)), Entry.of(read_header(SECOND))}
    newest = known.newest(held.__contains__)
    assert newest is not None
    assert newest.voters == voters_of(2)


KEY = types.ReplicaKey(types.NodeId(2))


def asked(process: Process, *, adds: bool) -> VoterRequest:
    message = (
        AddVoterRequest(voter=KEY, listeners=process.host.status.voters.voters[0].listeners, timeout_ms=1)
        if adds
        else RemoveVoterRequest(voter=KEY)
    )
    return VoterRequest(message=message, process=process, then=lambda _: None, since=0)


def test_a_request_counts_until_it_is_answered() -> None:
    world, leader = led_world()
    requests, node = VoterRequests(), world.nodes[2]
    adding, removing = asked(leader, adds=True), asked(leader, adds=False)
    requests.sent(node, adding)
    assert (set(requests.joining), set(requests.leaving)) == ({node}, set())
    requests.sent(node, removing)
    assert (set(requests.joining), set(requests.leaving)) == ({node}, {node})
    adding.answer = removing.answer = ErrorCode.NONE
    assert not requests.joining
    assert not requests.leaving


def test_a_request_without_an_answer_counts_while_its_leader_lives() -> None:
    world, leader = led_world()
    requests = VoterRequests()
    requests.sent(world.nodes[2], asked(leader, adds=True))
    assert requests.joining
    world.nodes[leader.node_id].kill()
    assert not requests.joining


def test_whoever_goes_on_asking_can_be_told_to_stop() -> None:
    world, _ = led_world()
    requests, node = VoterRequests(), world.nodes[2]
    requests.adding[node] += 1
    requests.removing[node] += 1
    assert (set(requests.joining), set(requests.leaving)) == ({node}, {node})
    requests.stop()
    assert not requests.joining
    assert not requests.leaving
